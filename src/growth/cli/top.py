"""`growth top`: nodes filling and emptying, in the terminal. Follows the cluster as a running growth does, and writes
nothing.

On a terminal the picture is drawn anew when something changed; elsewhere it is printed as lines, every few seconds or
once. A node that is ordered and has not joined yet stands among the others, with the pods that were planned onto it.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterator
from typing import Annotated, Any, Final

from cyclopts import Parameter
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from growth.cli.session import THE_CLUSTER, ClusterAccess, SettingsFile, console_for_people, provider_of
from growth.controllers.configuration import Configuration, load_configuration
from growth.controllers.loop.journal import be_quiet
from growth.controllers.observe.observer import looking
from growth.model.noderequest import NodeRequest
from growth.model.snapshot import Snapshot
from growth.plan.world.nodes import Prices, is_ours
from growth.plan.world.pools import by_key
from growth.web.rows import Row, node_row

_SECONDS_ON_TERMINAL: Final = 1.0
_SECONDS_ELSEWHERE: Final = 5.0
_BAR: Final = 12  # characters
_FRAME_LINES: Final = 4  # around the rows: the headline, the columns, what is left out, the cursor
_STYLES: Final = {"ready": "green", "marked": "yellow", "going": "red", "notReady": "red", "starting": "cyan"}
_WORDS: Final = {"notReady": "not Ready"}
_COLUMNS: Final = ("node", "pool", "type", "state", "cpu", "memory", "pods", "per hour")


def top(
    *,
    once: Annotated[bool, Parameter(negative="", help="Print one picture and end.")] = False,
    every: Annotated[
        float | None, Parameter(help="Seconds between two pictures; default: 1 on a terminal, 5 elsewhere.")
    ] = None,
    pool: Annotated[str, Parameter(help="Only nodes of this NodePool.")] = "",
    settings: SettingsFile = None,
    access: ClusterAccess = THE_CLUSTER,
) -> int:
    """Watch nodes fill and empty, with what each costs and what is on its way; read-only."""
    be_quiet()
    configuration, console = load_configuration(settings, os.environ, {}), console_for_people()
    seconds = every or (_SECONDS_ON_TERMINAL if sys.stdout.isatty() else _SECONDS_ELSEWHERE)
    asyncio.run(_watch(configuration, access, console, pool, 0.0 if once else seconds))
    return 0


async def _watch(
    configuration: Configuration, access: ClusterAccess, console: Console, pool: str, seconds: float
) -> None:
    """`seconds` 0: one picture."""
    async with access.connect(may_write=lambda: False) as (client, runtime):
        provider = provider_of(configuration)(client, runtime)
        async with looking(client, provider, configuration.installation, configuration.plans) as observer:
            if seconds and console.is_terminal:
                with Live(console=console, screen=True, auto_refresh=False) as live:
                    while True:
                        live.update(picture(observer.snapshot(), pool, console.height - _FRAME_LINES), refresh=True)
                        await runtime.sleep(seconds)
            console.print(picture(observer.snapshot(), pool))
            while seconds:
                await runtime.sleep(seconds)
                console.print()
                console.print(picture(observer.snapshot(), pool))


# ---------------------------------------------------------------------------------------- the picture


def picture(snapshot: Snapshot, pool: str = "", most: int | None = None) -> RenderableType:
    """`most`: so many nodes are shown; those that change come first."""
    prices, table = Prices(snapshot), _table()
    rows = {
        name: node_row(
            node,
            snapshot.pods_by_node.get(name, ()),
            snapshot.removals.get(name),
            prices.price(node),
            is_ours(node, snapshot),
        )
        for name, node in snapshot.nodes.items()
    }
    chosen = {name: row for name, row in rows.items() if not pool or row["pool"] == pool}
    coming = [each for each in _coming(snapshot) if not pool or each.spec.pool == pool]
    lines = [*_of_requests(coming, snapshot), *_of_nodes(chosen, snapshot.now)]
    shown = lines if most is None else lines[: max(1, most)]
    for line in shown:
        table.add_row(*line)
    left = [Text(f"… and {len(lines) - len(shown)} more nodes", "dim")] if len(shown) < len(lines) else []
    return Group(_headline(chosen, coming, snapshot), table, *left)


def _table() -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in _COLUMNS:
        is_number = name in ("pods", "per hour")
        table.add_column(name, justify="right" if is_number else "left", no_wrap=True, overflow="ellipsis")
    return table


def _headline(rows: dict[str, Row], coming: list[NodeRequest], snapshot: Snapshot) -> Text:
    states = [row["state"] for row in rows.values()]
    price = sum(row["price"] for row in rows.values() if row["pool"])
    parts = [f"{len(rows)} nodes", f"{len(coming)} on their way" if coming else ""]
    parts += [f"{count} {_WORDS.get(name, name)}" for name in _STYLES if (count := states.count(name))]
    parts += [f"{sum(_pods(row) for row in rows.values())} pods", f"{len(snapshot.waiting_pods)} waiting"]
    clock = time.strftime("%H:%M:%S", time.gmtime(snapshot.now))
    return Text(f"{clock}  {', '.join(filter(None, parts))}; {price:.4f} per hour", "bold")


def _coming(snapshot: Snapshot) -> list[NodeRequest]:
    """Ordered, and not a node yet."""
    requests = (each for each in snapshot.requests.values() if each.is_in_flight and each.name not in snapshot.nodes)
    return sorted(requests, key=lambda each: (each.created_at, each.name))


Line = tuple[str | Text, ...]


def _of_requests(coming: list[NodeRequest], snapshot: Snapshot) -> Iterator[Line]:
    sold = by_key(snapshot.offerings)
    for each in coming:
        offering = sold.get((each.spec.target_offering, each.spec.location))
        price = "" if offering is None else f"{offering.price_per_hour:.4f}"
        state = Text(f"{each.phase}, {snapshot.now - each.created_at:.0f} s", "cyan")
        yield each.name, each.spec.pool, each.spec.target_offering, state, "", "", str(len(each.planned_pods)), price


def _of_nodes(rows: dict[str, Row], now: float) -> Iterator[Line]:
    order = list(_STYLES)[::-1]
    for name, row in sorted(rows.items(), key=lambda each: (order.index(each[1]["state"]), each[1]["pool"], each[0])):
        style = _STYLES[row["state"]]
        bars = (_bar(row["usedCpu"], row["cpu"], style), _bar(row["usedMemory"], row["memory"], style))
        price = f"{row['price']:.4f}" if row["pool"] else ""
        state = Text(_state(row, now), style)
        yield name, row["pool"] or "-", row["offering"] or "-", state, *bars, str(_pods(row)), price


def _state(row: Row, now: float) -> str:
    word = _WORDS.get(row["state"], row["state"])
    return f"{word}, goes in {max(0, row['due'] - now):.0f} s" if row["state"] == "marked" and row["due"] else word


def _pods(row: Row) -> int:
    return sum(len(names) for stages in row["pods"].values() for names in stages)


def _bar(used: Any, whole: Any, style: str) -> Text:
    share = used / whole if whole else 0.0
    full = min(_BAR, round(share * _BAR))
    return Text.assemble(("█" * full, style), ("░" * (_BAR - full), "dim"), f" {share:4.0%}")
