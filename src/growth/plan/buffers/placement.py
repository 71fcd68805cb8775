"""Where would all virtual pods stand right now, and how many have no place? Asked by scale-up, scale-down, the buffers'
status and metrics.

The same answer for everybody, so that what one row buys the next does not give back. Virtual pods go where the fullest
nodes have room, then onto nodes on their way, then onto marked ones: so the fewest nodes are held. An order keeps the
virtual pods it was made for; if a fresh packing finds less room than the packing that was bought, the bought one
counts. The rules between pods are the solver's own.

The answer is remembered for as long as nothing it was made from has changed: asking again costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.pod import PodShape
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.buffers.size import Sizing
from growth.plan.buffers.virtual_pods import ServedBuffer, planned_entries, planned_on, served_buffers
from growth.plan.world.capacity import assignments, rooms
from growth.plan.world.problem import placement_problem
from growth.solver.existing.place import place_on_existing
from growth.solver.purchase.problem import DemandClass, Room
from growth.solver.rules.fit import free_after, free_amounts, how_many_fit

Counts = Mapping[str, int]  # by buffer

_NODES_A_LOOK: Final = 500


class BufferPlacement(Struct, frozen=True):
    """The buffers, and where their virtual pods stand."""

    buffers: tuple[ServedBuffer, ...] = ()
    by_node: Mapping[str, Counts] = {}  # nodes that exist
    on_their_way: Mapping[str, Counts] = {}  # nodes that were ordered
    missing: Counts = {}
    standing: Counts = {}  # those that have room on nodes that exist, by buffer
    rooms: tuple[Room, ...] = ()  # all there are, without virtual pods

    def holders_of(self, node: str) -> tuple[str, ...]:
        """The buffers that need this node."""
        return tuple(self.by_node.get(node, ()))


NO_PLACEMENT = BufferPlacement()


def place_buffers(snapshot: Snapshot, settings: Settings) -> BufferPlacement:
    if not snapshot.buffers.buffers:
        return NO_PLACEMENT
    return _kept(_Moment(snapshot, settings.buffer_sizing))


def look_seconds(snapshot: Snapshot, settings: Settings) -> float:
    """How often an answer is worth its price while the cluster keeps changing: a search through all nodes, so less
    often the more there are.
    """
    return settings.batch_quiet_seconds * (1 + len(snapshot.nodes) / _NODES_A_LOOK)


class _Moment:
    """A snapshot as far as this answer depends on it: equal to another one if its parts are the very same objects."""

    def __init__(self, snapshot: Snapshot, sizing: Sizing) -> None:
        self.snapshot = snapshot
        self.sizing = sizing
        volumes = snapshot.volumes
        self._same: tuple[Any, ...] = (
            snapshot.nodes, snapshot.pods_by_node, snapshot.waiting_pods, snapshot.namespaces, snapshot.pools, snapshot.requests, snapshot.removals,
            snapshot.offerings, snapshot.buffers, volumes.claims, volumes.volumes, volumes.classes, volumes.nodes, *snapshot.daemon_sets,
        )  # fmt: skip

    def __hash__(self) -> int:
        return id(self.snapshot.nodes)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Moment) or self.sizing != other.sizing or len(self._same) != len(other._same):
            return False
        return all(one is another for one, another in zip(self._same, other._same, strict=True))


@lru_cache(maxsize=2)
def _kept(moment: _Moment) -> BufferPlacement:
    snapshot = moment.snapshot
    found = served_buffers(snapshot.buffers, snapshot.pools, snapshot.offerings, moment.sizing)
    if not any(spare.count for spare in found):
        return BufferPlacement(found)
    assigned = assignments(snapshot)
    all_rooms = rooms(snapshot, assigned)
    bought = {each.request.name: planned_entries(each.request.planned_pods) for each in assigned.expected}
    best = _packed(snapshot, found, all_rooms, bought)
    if not best.missing:
        return best
    served = {room.node.name: planned_on(room.node) for room in all_rooms if room.node.name not in bought}
    if any(served.values()):
        as_bought = _packed(snapshot, found, all_rooms, {**bought, **served})
        best = as_bought if sum(as_bought.missing.values()) < sum(best.missing.values()) else best
    return best


def occupied_rooms(kept: BufferPlacement) -> tuple[Room, ...]:
    """All rooms with the virtual pods in them: for whoever asks what more would fit, or what would fit without some
    node.
    """
    shapes = {spare.key: spare.shape for spare in kept.buffers}
    places = {**kept.by_node, **kept.on_their_way}
    return tuple(
        _with_virtual(room, places[room.node.name], shapes) if room.node.name in places else room for room in kept.rooms
    )


def _packed(
    snapshot: Snapshot,
    found: tuple[ServedBuffer, ...],
    all_rooms: tuple[Room, ...],
    bought: Mapping[str, Mapping[str, int]],
) -> BufferPlacement:
    """First what orders were made for, then the rest where there is room."""
    open_counts = {spare.key: spare.count for spare in found if spare.count}
    shapes = {spare.key: spare.shape for spare in found}
    places: dict[str, dict[str, int]] = {}
    taken_rooms = []
    for room in all_rooms:
        wanted = bought.get(room.node.name) if room.is_open else None
        held = _held(room, wanted, shapes, open_counts) if wanted else {}
        if held:
            places[room.node.name] = held
            open_counts = {key: count - held.get(key, 0) for key, count in open_counts.items()}
        taken_rooms.append(_with_virtual(room, held, shapes) if held else room)
    asked = [spare for spare in found if open_counts.get(spare.key)]
    missing: dict[str, int] = {}
    if asked:
        missing = _ask(snapshot, asked, open_counts, tuple(taken_rooms), places)
    kinds = {room.node.name: room.kind for room in all_rooms}
    ordered = {name: places[name] for name in sorted(places)}
    by_node = {name: counts for name, counts in ordered.items() if kinds[name] != "in-flight"}
    standing: dict[str, int] = {}
    for counts in by_node.values():
        for key, count in counts.items():
            standing[key] = standing.get(key, 0) + count
    return BufferPlacement(
        found,
        by_node,
        {name: counts for name, counts in ordered.items() if name not in by_node},
        missing,
        standing,
        all_rooms,
    )


def _held(
    room: Room, wanted: Mapping[str, int], shapes: Mapping[str, PodShape], open_counts: Mapping[str, int]
) -> dict[str, int]:
    """What this node was bought for, as far as it is still wanted and still fits."""
    held: dict[str, int] = {}
    free = free_amounts(room.node.allocatable, (shape for shape, count in room.contents for _ in range(count)))
    for key, planned in wanted.items():
        shape = shapes.get(key)
        if shape is None:
            continue
        count = min(planned, open_counts.get(key, 0), how_many_fit(shape, room.node, free))
        if count > 0:
            held[key] = count
            free = free_after(free, shape, count)
    return held


def _with_virtual(room: Room, held: Mapping[str, int], shapes: Mapping[str, PodShape]) -> Room:
    return replace(room, contents=room.contents + tuple((shapes[key], count) for key, count in held.items()))


def _ask(
    snapshot: Snapshot,
    asked: list[ServedBuffer],
    counts: Mapping[str, int],
    open_rooms: tuple[Room, ...],
    places: dict[str, dict[str, int]],
) -> dict[str, int]:
    """Put the rest where the solver finds room, note it in `places`, and say how many are left over."""
    lodged = place_on_existing(placement_problem(snapshot, virtual_demands(asked, counts), open_rooms))
    for placement in lodged.placements:
        here = places.setdefault(open_rooms[placement.room].node.name, {})
        key = asked[placement.demand].key
        here[key] = here.get(key, 0) + placement.count
    return {asked[demand].key: count for demand, count in lodged.left}


def virtual_demands(found: Iterable[ServedBuffer], counts: Mapping[str, int]) -> tuple[DemandClass, ...]:
    """Buffers as the solver sees them: placed after every real demand."""
    return tuple(DemandClass(spare.shape, counts[spare.key], spare.pools, is_virtual=True) for spare in found)
