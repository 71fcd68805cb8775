"""What does the page show? Tables of rows, made from one snapshot and what growth said; and what changed since then.

Asked by the feed, for every viewer at once. Pure: a look and the page before go in, the page comes out. A row is made
anew only if an object it is made from is another one, so a look costs what changed.

| table | a row is |
| --- | --- |
| cluster | the one with the totals |
| classes | pods that look alike: of one workload, with equal requests |
| nodes | a node with the pods on it, by class |
| waiting | a pod without a node, and why (the oldest ones; the totals count all) |
| pools, buffers, autoscalers | one object of the kind |
| requests, removals | a NodeRequest or NodeRemovalRequest that there is |
| past | one of them that is over |
| journal | a note |
| costs | one moment: price per hour, the proven bound, and counts |"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import is_
from typing import Any, Final

from msgspec import Struct

from growth.model.decision import About
from growth.model.pod import Pod
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.buffers.placement import NO_PLACEMENT, BufferPlacement
from growth.plan.world.nodes import Prices, is_ours, is_paused
from growth.web.notes import Notes, row_of
from growth.web.rows import (
    Row,
    autoscaler_row,
    buffer_row,
    class_of,
    class_row,
    node_row,
    pool_row,
    removal_row,
    request_row,
    waiting_row,
)

WAITING_SHOWN: Final = 500
PAST_KEPT: Final = 300
COSTS_KEPT: Final = 720

Made = Mapping[str, tuple[tuple[object, ...], Row]]  # each row with the objects it was made from
Items = Iterable[tuple[str, tuple[Any, ...]]]
Delta = Mapping[str, Mapping[str, Any]]


class Stage(Struct, frozen=True, rename="camel"):
    """A story that is being told, as its viewers may steer it."""

    chapters: tuple[tuple[str, float], ...]  # title, and when it begins
    at_seconds: float
    speed: float
    is_paused: bool
    is_over: bool = False
    said: tuple[tuple[float, str, str], ...] = ()  # when, who, what; the latest


class Look(Struct, frozen=True):
    """One moment of a running growth, as the page sees it."""

    snapshot: Snapshot
    settings: Settings
    notes: Notes
    version: object  # another one whenever the page may be another
    placement: BufferPlacement = NO_PLACEMENT
    bound_per_hour: float | None = None  # what all pods of the moment cost at least; None: not known
    leads: bool = True
    only_observes: bool = False
    sample_seconds: float = 60.0  # between two costs, as the cluster's clock counts
    bound_seconds: float = 60.0  # between two bounds, while somebody watches
    stage: Stage | None = None
    world: int = 0  # another number: another world, which has nothing to do with the one before


class Page(Struct, frozen=True):
    """All tables of one moment."""

    at: float
    tables: Mapping[str, Made]

    def rows(self, table: str) -> Mapping[str, Row]:
        return {key: row for key, (_, row) in self.tables[table].items()}

    def whole(self) -> dict[str, Mapping[str, Row]]:
        return {table: self.rows(table) for table in self.tables}


NO_PAGE: Final = Page(0.0, {})


def page_of(look: Look, before: Page = NO_PAGE) -> Page:
    snapshot, nodes = look.snapshot, _nodes(look.snapshot, before.tables.get("nodes", {}))
    tables: dict[str, Made] = {
        name: _made(items, make, before.tables.get(name, {})) for name, (items, make) in _sources(look).items()
    }
    waiting = snapshot.waiting_pods[:WAITING_SHOWN]
    tables["nodes"] = nodes
    tables["classes"] = _classes(nodes, waiting, before.tables.get("classes", {}))
    tables["past"] = _past(tables, before, snapshot.now)
    totals = _totals(look, nodes)
    tables["cluster"] = _made([("", (totals,))], lambda row: row, before.tables.get("cluster", {}))
    tables["costs"] = _costs(look, totals, before.tables.get("costs", {}))
    return Page(snapshot.now, tables)


def _sources(look: Look) -> dict[str, tuple[Items, Callable[..., Row]]]:
    """What the rows of each table are made from, and how."""
    snapshot, settings = look.snapshot, look.settings
    waiting = snapshot.waiting_pods[:WAITING_SHOWN]
    return {
        "waiting": (((pod.key, (pod, _said(pod, look))) for pod in waiting), waiting_row),
        "pools": (((name, (pool, is_paused(pool, settings))) for name, pool in snapshot.pools.items()), pool_row),
        "requests": (((name, (each,)) for name, each in snapshot.requests.items()), request_row),
        "removals": (((name, (each,)) for name, each in snapshot.removals.items()), removal_row),
        "buffers": (_buffers(look.placement), buffer_row),
        "autoscalers": (
            ((name, (each, settings.warm_pools)) for name, each in snapshot.autoscalers.items()),
            autoscaler_row,
        ),
        "journal": (((str(each.number), (each,)) for each in look.notes.entries()), row_of),
    }


def changes(before: Page, after: Page) -> Delta:
    """By table, rows that are new or different (`set`), and keys that are gone."""
    found: dict[str, dict[str, Any]] = {}
    for table, made in after.tables.items():
        old = before.tables.get(table, {})
        changed = {key: row for key, (_, row) in made.items() if key not in old or old[key][1] is not row}
        gone = [key for key in old if key not in made]
        if changed or gone:
            found[table] = {**({"set": changed} if changed else {}), **({"gone": gone} if gone else {})}
    return found


def _made(items: Items, make: Callable[..., Row], before: Made) -> Made:
    """A row for each item. The row before is kept if it was made from the same objects, or says the same."""
    found: dict[str, tuple[tuple[object, ...], Row]] = {}
    for key, parts in items:
        known = before.get(key)
        if known is not None and all(map(is_, known[0], parts)):
            found[key] = known
            continue
        row = make(*parts)
        found[key] = (parts, known[1] if known is not None and known[1] == row else row)
    return found


# ------------------------------------------------------------------------------------ pods and nodes


def _nodes(snapshot: Snapshot, before: Made) -> Made:
    prices, pods, removals = Prices(snapshot), snapshot.pods_by_node, snapshot.removals
    items = (
        (name, (node, pods.get(name, ()), removals.get(name), prices.price(node), is_ours(node, snapshot)))
        for name, node in snapshot.nodes.items()
    )
    return _made(items, node_row, before)


def _classes(nodes: Made, waiting: tuple[Pod, ...], before: Made) -> Made:
    """Of the pods on nodes and those that wait. Only classes not known before need one of their pods."""
    found: dict[str, tuple[tuple[object, ...], Row]] = {}
    for parts, row in nodes.values():
        here = [name for name in row["pods"] if name not in found]
        found |= {name: before[name] for name in here if name in before}
        new = {name for name in here if name not in before}
        pods: Any = parts[1] if new else ()
        of_new = ((class_of(pod), pod) for pod in pods)
        found |= {name: ((), class_row(pod)) for name, pod in of_new if name in new}
    for pod in waiting:
        name = class_of(pod)
        if name not in found:
            found[name] = before.get(name) or ((), class_row(pod))
    return found


def _said(pod: Pod, look: Look) -> object:
    return look.notes.last(About("Pod", pod.name, pod.shape.namespace, pod.uid))


def _past(tables: Mapping[str, Made], before: Page, now: float) -> Made:
    """Requests and removals that were there at the last look, and are over."""
    past = dict(before.tables.get("past", {}))
    for table in ("requests", "removals"):
        for name, (_, row) in before.tables.get(table, {}).items():
            if name not in tables[table]:
                past[f"{row['kind']}/{name}"] = ((), {**row, "name": name, "ended": now})
    return dict(list(past.items())[-PAST_KEPT:])


def _buffers(placement: BufferPlacement) -> Iterable[tuple[str, tuple[Any, ...]]]:
    coming: dict[str, int] = {}
    for counts in placement.on_their_way.values():
        for key, count in counts.items():
            coming[key] = coming.get(key, 0) + count
    for each in placement.buffers:
        yield each.key, (each, placement.standing.get(each.key, 0), coming.get(each.key, 0))


# ---------------------------------------------------------------------------------------- the totals


def _totals(look: Look, nodes: Made) -> Row:
    rows = [row for _, row in nodes.values()]
    ours = [row for row in rows if row["pool"]]
    return {
        "leads": look.leads,
        "observes": look.only_observes,
        "paused": is_paused(None, look.settings),
        "pricePerHour": round(sum(row["price"] for row in ours), 6),
        "bound": look.bound_per_hour,
        "nodes": len(rows),
        "ours": len(ours),
        "ready": sum(row["state"] in ("ready", "marked") for row in rows),
        "pods": sum(map(len, look.snapshot.pods_by_node.values())),
        "waiting": len(look.snapshot.waiting_pods),
        "stage": look.stage,
    }


def _costs(look: Look, totals: Row, before: Made) -> Made:
    """One more moment, if the last one is long enough ago."""
    now, last = look.snapshot.now, next(reversed(list(before.values())), None)
    if last is not None and 0 <= now - last[1][0] < look.sample_seconds:
        return before
    sample = [now, totals["pricePerHour"], totals["bound"], totals["ours"], totals["pods"], totals["waiting"]]
    return dict([*before.items(), (f"{now:.0f}", ((), sample))][-COSTS_KEPT:])
