"""Where would all virtual pods be right now, and how many have no room? Asked by scale-up, scale-down, consolidation,
the buffers' status and metrics.

The same answer for all of them, so that what one row buys the next does not give back. Virtual pods go where pods work
and the fullest nodes have room, then onto idle nodes, then onto nodes on their way, then onto marked ones: so the
fewest nodes are held. An order keeps the virtual pods it was made for; if a fresh packing finds less room than the
packing that was bought, the bought one counts, as far as the scheduler would still grant it: the rules between pods are
the solver's own, in both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.pod import PodShape
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.buffers.giving_way import BEFORE_NOBODY, Rank, left_to_pods, may_go
from growth.plan.buffers.size import Sizing
from growth.plan.buffers.virtual_pods import ServedBuffer, planned_entries, planned_on, served_buffers
from growth.plan.world.capacity import assignments, rooms
from growth.plan.world.market import placement_problem
from growth.solver.existing.place import place_on_existing
from growth.solver.purchase.problem import DemandClass, Room

Counts = Mapping[str, int]  # by buffer

_NODES_A_LOOK: Final = 500


class BufferPlacement(Struct, frozen=True):
    """The buffers, and where their virtual pods have room."""

    buffers: tuple[ServedBuffer, ...] = ()
    by_node: Mapping[str, Counts] = {}  # nodes that exist
    on_their_way: Mapping[str, Counts] = {}  # nodes that were ordered
    missing: Counts = {}
    standing: Counts = {}  # those that have room on nodes that exist, by buffer
    rooms: tuple[Room, ...] = ()  # all there are, without virtual pods
    left: Rank = BEFORE_NOBODY  # what is left to waiting pods

    def holders_of(self, node: str) -> tuple[str, ...]:
        """The buffers that need this node."""
        return tuple(self.by_node.get(node, ()))


NO_PLACEMENT = BufferPlacement()


def place_buffers(snapshot: Snapshot, settings: Settings) -> BufferPlacement:
    """Kept in the snapshot's memo: asking again costs nothing while all that the answer depends on is the same."""
    if not snapshot.buffers.buffers:
        return NO_PLACEMENT
    volumes, sizing = snapshot.volumes, settings.buffer_sizing
    made_from = (
        sizing, settings.limits, settings.machines_cost_money,
        snapshot.nodes, snapshot.pods_by_node, snapshot.waiting_pods, snapshot.namespaces,
        snapshot.pools, snapshot.requests, snapshot.removals, snapshot.offerings, snapshot.buffers,
        volumes.claims, volumes.volumes, volumes.classes, volumes.nodes, *snapshot.daemon_sets,
    )  # fmt: skip
    return snapshot.memo.recall("place_buffers", made_from, lambda: _placement(snapshot, settings))


def _placement(snapshot: Snapshot, settings: Settings) -> BufferPlacement:
    sizing: Sizing = settings.buffer_sizing
    found = served_buffers(snapshot.buffers, snapshot.pools, snapshot.offerings, sizing)
    if not any(each.count for each in found):
        return BufferPlacement(found)
    assigned = assignments(snapshot)
    all_rooms = rooms(snapshot, assigned)
    left = left_to_pods(snapshot, settings, assigned, all_rooms)
    all_rooms = tuple(_ranked(room, left, snapshot) for room in all_rooms)
    bought = {each.request.name: planned_entries(each.request.planned_pods) for each in assigned.expected}
    best = replace(_packed(snapshot, found, all_rooms, bought), left=left)
    if not best.missing:
        return best
    served = {room.node.name: planned_on(room.node) for room in all_rooms if room.node.name not in bought}
    if any(served.values()):
        as_bought = _packed(snapshot, found, all_rooms, {**bought, **served})
        is_better = sum(as_bought.missing.values()) < sum(best.missing.values())
        best = replace(as_bought, left=left) if is_better else best
    return best


def _ranked(room: Room, left: Rank, snapshot: Snapshot) -> Room:
    """Closed if it is left to waiting pods; filled late if it could go without virtual pods."""
    if room.node.name in left.nodes:
        return replace(room, is_open=False)
    return replace(room, is_idle=True) if room.kind == "node" and may_go(room.node, snapshot) else room


def _packed(
    snapshot: Snapshot, found: tuple[ServedBuffer, ...], all_rooms: tuple[Room, ...], bought: Mapping[str, Counts]
) -> BufferPlacement:
    """First what orders were made for, then the rest where the solver finds room."""
    left = {each.key: each.count for each in found if each.count}
    shapes = {each.key: each.shape for each in found}
    places = _as_bought(snapshot, found, all_rooms, bought)
    for held in places.values():
        left = {key: count - held.get(key, 0) for key, count in left.items()}
    taken_rooms = tuple(
        _with_virtual(room, places[room.node.name], shapes) if room.node.name in places else room for room in all_rooms
    )
    asked = [each for each in found if left.get(each.key)]
    missing: dict[str, int] = {}
    if asked:
        demands = (DemandClass(each.shape, left[each.key], each.pools, is_virtual=True) for each in asked)
        answer = place_on_existing(placement_problem(snapshot, demands, taken_rooms))
        missing = {asked[demand].key: count for demand, count in answer.left}
        for placement in answer.placements:
            here, key = places.setdefault(all_rooms[placement.room].node.name, {}), asked[placement.demand].key
            here[key] = here.get(key, 0) + placement.count
    on_their_way = {room.node.name for room in all_rooms if room.kind == "in-flight"}
    by_node = {name: places[name] for name in sorted(places) if name not in on_their_way}
    standing: Counter[str] = Counter()
    for counts in by_node.values():
        standing.update(counts)
    coming = {name: places[name] for name in sorted(places) if name in on_their_way}
    return BufferPlacement(found, by_node, coming, missing, dict(standing), all_rooms)


def _as_bought(
    snapshot: Snapshot, found: tuple[ServedBuffer, ...], all_rooms: tuple[Room, ...], bought: Mapping[str, Counts]
) -> dict[str, dict[str, int]]:
    """What each node was bought for, as far as it is still wanted there and every rule still grants it."""
    served, left = {each.key: each for each in found}, {each.key: each.count for each in found}
    pinned: list[tuple[ServedBuffer, DemandClass]] = []
    for room in all_rooms:
        for key, planned in (bought.get(room.node.name) or {}).items() if room.is_open else ():
            count = min(planned, left.get(key, 0))
            if count > 0:
                each, left[key] = served[key], left[key] - count
                shape = replace(each.shape, required_node=room.node.name)
                pinned.append((each, DemandClass(shape, count, each.pools, is_virtual=True)))
    places: dict[str, dict[str, int]] = {}
    if pinned:
        demands = (demand for _, demand in pinned)
        for placement in place_on_existing(placement_problem(snapshot, demands, all_rooms)).placements:
            here, key = places.setdefault(all_rooms[placement.room].node.name, {}), pinned[placement.demand][0].key
            here[key] = here.get(key, 0) + placement.count
    return places


def look_seconds(snapshot: Snapshot, settings: Settings) -> float:
    """How often an answer is worth its price while the cluster keeps changing: a search through all nodes, so less
    often the more there are.
    """
    return settings.batch_quiet_seconds * (1 + len(snapshot.nodes) / _NODES_A_LOOK)


def occupied_rooms(placed: BufferPlacement) -> tuple[Room, ...]:
    """All rooms with the virtual pods in them: to ask what more would fit, or what would fit without some node."""
    shapes = {each.key: each.shape for each in placed.buffers}
    places = {**placed.by_node, **placed.on_their_way}
    return tuple(
        _with_virtual(room, places[room.node.name], shapes) if room.node.name in places else room
        for room in placed.rooms
    )


def _with_virtual(room: Room, held: Counts, shapes: Mapping[str, PodShape]) -> Room:
    return replace(room, contents=room.contents + tuple((shapes[key], count) for key, count in held.items()))
