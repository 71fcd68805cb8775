"""Does growth move pods only as it may? The laws on evictions.

Rows of `sim/laws/machines`; each function gets the witness and one write. An eviction that took effect is a write by
growth after which a pod ends."""

from __future__ import annotations

from typing import Final

from growth.model.node import DO_NOT_DISRUPT
from growth.model.settings import Settings
from growth.plan.nodes_down.removal import IRREVOCABLE
from growth.plan.world.machines import DELETED, DRAINING, NOT_READY
from growth.sim.apiserver.kinds import NODE, POD, Json
from growth.sim.apiserver.store import Write
from growth.sim.laws.witness import GROWTH, REMOVAL, Witness

BUDGETED: Final = tuple(reason for reason in DRAINING if reason not in (NOT_READY, DELETED))  # those never served
CHOSEN_SECONDS: Final = (
    Settings().drain_seconds + 60.0
)  # a node that is being emptied was chosen so long ago at most, by the nodes that were there then

Complaint = str | None


def only_evictions(witness: Witness, write: Write) -> Complaint:
    """S13: pods are ended through the Eviction API, which keeps their budgets, and never by a delete."""
    pod = _ended_by_growth(write)
    return (
        f"growth deleted pod {write.key} without asking for its eviction"
        if pod is not None and pod["metadata"]["uid"] not in witness.evicted
        else None
    )


def removal_before_eviction(witness: Witness, write: Write) -> Complaint:
    """S14: pods leave a node only while an open NodeRemovalRequest says why, or because its machine may have been
    deleted already.
    """
    pod = _ended_by_growth(write)
    if pod is None or _reason(witness, pod) in DRAINING:
        return None
    status = (witness.cluster.store.read(REMOVAL, _node_of(pod)) or {}).get("status") or {}
    may_be_gone = status.get("phase") == "Deprovisioning" or any(
        each["type"] == IRREVOCABLE for each in status.get("conditions") or ()
    )
    return (
        None
        if may_be_gone
        else f"growth evicted {write.key} from {_node_of(pod)}, whose removal says {_reason(witness, pod)!r}"
    )


def protected_pods_stay(witness: Witness, write: Write) -> Complaint:
    """A pod that must not be disrupted is never moved."""
    del witness
    pod = _ended_by_growth(write)
    is_protected = pod is not None and (pod["metadata"].get("annotations") or {}).get(DO_NOT_DISRUPT) == "true"
    return f"growth evicted {write.key}, which must not be disrupted" if is_protected else None


def within_disruption_budgets(witness: Witness, write: Write) -> Complaint:
    """S8: nodes of a pool that are emptied, now and within the window of each of its budgets, are no more than it
    allows.
    """
    pod = _ended_by_growth(write)
    emptied = None if pod is None else witness.emptied[_node_of(pod)]
    if emptied is None or emptied.reason not in BUDGETED or emptied.pool not in witness.pools:
        return None
    budgets = witness.pools[emptied.pool]["spec"].get("budgets") or ()
    return next(
        filter(None, (_why_too_many(witness, emptied.pool, budget) for budget in budgets if "schedule" not in budget)),
        None,
    )


def _why_too_many(witness: Witness, pool: str, budget: Json) -> Complaint:
    since = witness.now - budget.get("windowSeconds", Settings().disruption_window_seconds)
    of_pool = {name: each.at for name, each in witness.emptied.items() if each.pool == pool and each.reason in BUDGETED}
    emptied = [name for name, at in of_pool.items() if at > since or _is_going(witness, name)]
    most = _allowed(str(budget["nodes"]), witness.most_nodes(pool, CHOSEN_SECONDS))
    return (
        f"{len(emptied)} nodes of pool {pool} are emptied, {budget['nodes']} may be: {', '.join(emptied)}"
        if len(emptied) > most
        else None
    )


def _is_going(witness: Witness, node: str) -> bool:
    return witness.cluster.store.get(REMOVAL, node) is not None and witness.cluster.store.get(NODE, node) is not None


def _allowed(text: str, nodes: int) -> int:
    return max(1, nodes * int(text.removesuffix("%")) // 100) if text.endswith("%") else int(text)


def _ended_by_growth(write: Write) -> Json | None:
    """A pod that was to live on before this write."""
    if write.kind is not POD or write.actor != GROWTH or write.before is None:
        return None
    before = write.before.decoded()
    ends = write.type == "DELETED" or "deletionTimestamp" in write.item["metadata"]
    return before if ends and "deletionTimestamp" not in before["metadata"] else None


def _node_of(pod: Json) -> str:
    return str(pod["spec"].get("nodeName", ""))


def _reason(witness: Witness, pod: Json) -> str:
    """Of the removal of its node; nothing: there is none."""
    removal = witness.cluster.store.read(REMOVAL, _node_of(pod))
    return "" if removal is None else str(removal["spec"].get("reason", ""))
