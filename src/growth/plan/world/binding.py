"""May growth bind this pod itself? Asked by realising (pods planned onto a new node) and scheduling (pods that name
growth as their scheduler).

Only where a scheduler has nothing else to do for it: volumes are bound, no resource claims are to be allocated, no gate
stands in the way."""

from __future__ import annotations

from growth.model.pod import Pod
from growth.model.snapshot import Snapshot


def why_not_bindable(pod: Pod, snapshot: Snapshot) -> str:
    """Empty if growth may bind it."""
    if pod.is_gated:
        return "it waits for its scheduling gates"
    if pod.shape.uses_resource_claims:
        return "growth allocates no resource claims: leave the pod to kube-scheduler"
    for use in pod.shape.volumes:
        if use.is_ephemeral or (use.claim and not _is_bound(pod, use.claim, snapshot)):
            name = use.claim or "an ephemeral volume"
            return f"growth binds no volumes, and claim {name} is not bound: leave the pod to kube-scheduler, or use volumes that are bound at once"
    return ""


def _is_bound(pod: Pod, claim: str, snapshot: Snapshot) -> bool:
    found = snapshot.volumes.claims.get(f"{pod.namespace}/{claim}")
    return found is not None and found.is_bound and not found.is_lost and found.deleted_at is None
