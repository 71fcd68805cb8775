"""Are so many nodes not Ready that the fault may be ours, or the network's? Asked by the gate before every delete, and
before a node is given up for dead.
"""

from __future__ import annotations

from typing import Final

from growth.model.snapshot import Snapshot

BRAKE_SHARE: Final = 0.2
BRAKE_NODES: Final = 3


def why_braked(ever_ready: int, not_ready: int) -> str:
    """Empty: it is not. Only nodes count that have ever been Ready."""
    if not_ready >= BRAKE_NODES and not_ready > BRAKE_SHARE * ever_ready:
        return f"{not_ready} of {ever_ready} nodes are NotReady: nothing is deleted until that is understood"
    return ""


def why_braked_now(snapshot: Snapshot) -> str:
    known = [node for node in snapshot.nodes.values() if node.is_ready or node.ready_changed_at > node.created_at]
    return why_braked(len(known), sum(not node.is_ready for node in known))
