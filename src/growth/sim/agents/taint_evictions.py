"""Which running pods does a NoExecute taint drive away, and when? The taint eviction controller of the embedded
cluster.

| the pod, for a NoExecute taint of its node | |
| --- | --- |
| does not tolerate it | goes at once |
| tolerates it, no toleration bounds the stay | stays |
| tolerates it for some seconds | goes when the shortest are over, counted from when the taint was added; if it does not say, from when it was first seen |

NoSchedule and PreferNoSchedule drive nobody away. On a real cluster Kubernetes does all this and growth does not.
"""

from __future__ import annotations

from growth.model.instant import parse_instant
from growth.sim.apiserver.kinds import NODE, POD, Json
from growth.sim.apiserver.store import Store

Seen = tuple[str, str, str]  # node, key, value


class TaintEvictions:
    """Remembers when taints that carry no time were first seen."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen_at: dict[Seen, float] = {}

    def due(self, now: float) -> list[Json]:
        """Pods that have to go now."""
        tainted = {
            node["metadata"]["name"]: taints
            for node in self._store.read_all(NODE)
            if (taints := _no_execute_taints(node))
        }
        self._remember(tainted, now)
        if not tainted:
            return []
        bound = ((pod, tainted.get(pod["spec"].get("nodeName", ""))) for pod in self._store.read_all(POD))
        return [
            pod
            for pod, taints in bound
            if taints and not pod["metadata"].get("deletionTimestamp") and self._must_go(pod, taints, now)
        ]

    def _remember(self, tainted: dict[str, list[Json]], now: float) -> None:
        here = [(name, taint["key"], taint.get("value", "")) for name, taints in tainted.items() for taint in taints]
        self._seen_at = {seen: self._seen_at.get(seen, now) for seen in here}

    def _must_go(self, pod: Json, taints: list[Json], now: float) -> bool:
        return any(
            _stay_seconds(pod, taint) <= now - self._added_at(pod["spec"]["nodeName"], taint) for taint in taints
        )

    def _added_at(self, node: str, taint: Json) -> float:
        return (
            parse_instant(taint["timeAdded"])
            if taint.get("timeAdded")
            else self._seen_at[node, taint["key"], taint.get("value", "")]
        )


def _stay_seconds(pod: Json, taint: Json) -> float:
    """How long the pod may stay after the taint was added."""
    allowed = [toleration for toleration in pod["spec"].get("tolerations") or [] if _tolerates(toleration, taint)]
    if not allowed:
        return float("-inf")
    return min(
        (float(each["tolerationSeconds"]) for each in allowed if each.get("tolerationSeconds") is not None),
        default=float("inf"),
    )


def _no_execute_taints(node: Json) -> list[Json]:
    return [taint for taint in (node.get("spec") or {}).get("taints") or [] if taint.get("effect") == "NoExecute"]


def _tolerates(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("key") not in (None, "", taint["key"]):
        return False
    return toleration.get("operator") == "Exists" or (
        bool(toleration.get("key")) and toleration.get("value", "") == taint.get("value", "")
    )
