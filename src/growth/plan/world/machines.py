"""What does the provider's list say about a machine: present, surely absent, or nothing? Asked by provisioning, removal
and hand-over.

Unknown is not absent. Only a list that is younger than everything that was asked, and that is credible as a whole, says
that a machine is not there; and it is looked at again after a while, because a newer list changes nothing that would
wake anybody."""

from __future__ import annotations

from typing import Final

from growth.model.node import REQUEST_LABEL
from growth.model.snapshot import Snapshot

LOOK_AGAIN_SECONDS: Final = 15.0
LIST_LAG_SECONDS: Final = 10.0  # a list this much younger than an event shows what the event did


def is_surely_absent(name: str, since: float, snapshot: Snapshot, lag_seconds: float = LIST_LAG_SECONDS) -> bool:
    listed_at = snapshot.machines_at
    if listed_at is None or name in snapshot.machines or not is_credible(snapshot):
        return False
    return listed_at > past(since, snapshot.now) + lag_seconds


def is_credible(snapshot: Snapshot) -> bool:
    """An empty list while nodes of ours are Ready is no list."""
    if snapshot.machines:
        return True
    return not any(
        node.is_ready and REQUEST_LABEL in node.labels and node.name not in snapshot.removals
        for node in snapshot.nodes.values()
    )


def past(at: float, now: float) -> float:
    """A stamp from the future was made before a clock went back: then it is simply past."""
    return at if at <= now else 0.0
