"""`growth plan --live`: what would growth do now in this cluster, and what if something were different? One look, the
decisions of `controllers/ask/forecast`, and no write.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec
from cyclopts import Parameter
from msgspec import Struct
from rich.console import Console
from rich.table import Table

from growth.cli.plan.what_if import changed, read_changes, template_from
from growth.cli.session import ClusterAccess, console_for_people, look
from growth.controllers.ask.forecast import Forecast, Step, WithoutPlace, forecast
from growth.controllers.ask.premises import installed_by, why_nobody_acts
from growth.controllers.configuration import Configuration
from growth.controllers.loop.journal import be_quiet
from growth.model.snapshot import Snapshot

_MOST_LINES = 20


@Parameter(name="*")
@dataclass(frozen=True)
class LiveFlags:
    """Whether the cluster is asked, and as if what."""

    live: Annotated[bool, Parameter(help="What growth would do now in the cluster; read-only.", negative="")] = False
    what_if: Annotated[
        tuple[str, ...],
        Parameter(
            consume_multiple=True,
            negative="",
            help="With --live, as if: pool.NAME.max=20; add deployment/web=50; without node NAME. May be repeated.",
        ),
    ] = ()
    namespace: Annotated[str, Parameter(name=("--namespace", "-n"), help="Of a workload in --what-if.")] = "default"


OFFLINE: Final = LiveFlags()


class LiveAnswer(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What `--output json` prints."""

    plan: Forecast
    what_if: tuple[str, ...] = ()
    as_it_is: Forecast | None = None  # where something was changed: the plan without that
    nobody_acts: str = ""  # why nothing of it happens


def plan_live(configuration: Configuration, access: ClusterAccess, flags: LiveFlags, output: str) -> int:
    be_quiet()
    changes = read_changes(flags.what_if, flags.namespace)

    async def ask() -> tuple[Snapshot, Snapshot, str]:
        async with access.connect(may_write=lambda: False) as (client, runtime):
            seen = await look(client, runtime, configuration)
            asked = await changed(seen, changes, template_from(client)) if changes else seen
            return seen, asked, await why_nobody_acts(client, installed_by(configuration))

    seen, asked, nobody_acts = asyncio.run(ask())
    found = forecast(asked, configuration.plans)
    before = forecast(seen, configuration.plans) if changes else None
    if output == "json":
        print(msgspec.json.encode(LiveAnswer(found, flags.what_if, before, nobody_acts)).decode())
    else:
        tell(found, before, console_for_people(), nobody_acts)
    return 0


def tell(found: Forecast, before: Forecast | None, to: Console, nobody_acts: str = "") -> None:
    """The answer in one sentence, then the tables, then who is left without a place."""
    to.print(in_a_sentence(found), style="bold")
    if nobody_acts:
        to.print(f"but {nobody_acts}", style="yellow")
    if before is not None:
        to.print(f"as it is: {in_a_sentence(before)}")
    if found.orders:
        to.print(_orders(found))
    if found.steps:
        to.print(_steps(found.steps))
    for line in _unplaced(found.unplaced):
        to.print(line)


def in_a_sentence(found: Forecast) -> str:
    counted = Counter(f"{step.does} {step.kind}" for step in found.steps)
    does = [f"buys {_some(found.bought, 'node')}"] if found.bought else []
    does += [f"{what.rpartition(' ')[0]} {_some(count, what.rpartition(' ')[2])}" for what, count in counted.items()]
    left = f"; {_some(len(found.unplaced), 'pod')} without a place" if found.unplaced else ""
    bill = f"{found.price_per_hour:.4f} per hour"
    if found.price_per_hour_then != found.price_per_hour:
        bill = f"from {bill} to {found.price_per_hour_then:.4f}"
    return f"growth {', '.join(does)}{left}; {bill}" if does else f"growth has nothing to do{left}; {bill}"


def _some(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "s")


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in columns:
        table.add_column(name, justify="right" if name in ("nodes", "price/h", "pods") else "left", overflow="fold")
    return table


def _orders(found: Forecast) -> Table:
    table = _table("buys nodes", "pool", "offering", "location", "price/h", "pods", "because")
    for order in found.orders:
        price, pods = f"{order.price_per_hour:.4f}", str(len(order.pods))
        table.add_row(str(order.nodes), order.pool, order.offering, order.location, price, pods, order.reason)
    return table


def _steps(steps: Sequence[Step]) -> Table:
    table = _table("does", "to", "why")
    for step in steps[:_MOST_LINES]:
        table.add_row(step.does, f"{step.kind} {step.name}", step.why)
    if len(steps) > _MOST_LINES:
        table.add_row("…", f"{len(steps) - _MOST_LINES} more", "--output json has them all")
    return table


def _unplaced(unplaced: Sequence[WithoutPlace]) -> Iterator[str]:
    """Many pods share their reason."""
    counted = Counter(each.why for each in unplaced)
    example = {each.why: each.pod for each in reversed(unplaced)}
    for why, count in counted.most_common(_MOST_LINES):
        yield f"unplaced: {example[why]}{f' and {count - 1} more' if count > 1 else ''}: {why}"
    if len(counted) > _MOST_LINES:
        yield f"… and {len(counted) - _MOST_LINES} more reasons; --output json has them all"
