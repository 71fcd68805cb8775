"""How is an answer shown to people? The sentence first, then what is known, then the tables. Used by `growth explain`.

Colours only on a terminal, and none where NO_COLOR is set; elsewhere the lines are as long as they are, for `grep`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec
from msgspec import Struct
from rich.console import Console
from rich.table import Table
from rich.text import Text

from growth.cli.session import console_for_people
from growth.controllers.ask.explain import PodAnswer
from growth.controllers.ask.offers import TAKES, Offer, Remedy
from growth.model.api import Condition

_OWN_TABLES: Final = ("offers", "remedies")


def tell(answer: Struct, console: Console | None = None) -> None:
    """The first field is the object's name, and `answer` the sentence; the rest is shown as it comes."""
    to = console or console_for_people()
    fields: dict[str, Any] = msgspec.to_builtins(answer)
    kind, name = next(iter(fields.items()))
    to.print(Text.assemble((f"{kind} {name}", "bold"), ": ", (fields["answer"], _style_of(fields["answer"]))))
    for key, value in fields.items():
        if key not in (kind, "answer", *_OWN_TABLES):
            _tell_field(to, _spaced(key), value)
    if isinstance(answer, PodAnswer):
        _tell_offers(to, answer.offers)
        _tell_remedies(to, answer.remedies)


def told_conditions(conditions: Iterable[Condition]) -> dict[str, str]:
    """Each in a line: how it stands, its reason and its sentence."""
    told = {each.type: f"{each.status}, {each.reason}: {each.message}" for each in conditions}
    return {kind: text.removesuffix(": ") for kind, text in told.items()}


def _style_of(sentence: str) -> str:
    return "red" if sentence.startswith(("no place", "it buys nothing", "it could not")) else "green"


def _spaced(key: str) -> str:
    """pricePerHour: price per hour."""
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in key)


def _tell_field(to: Console, key: str, value: Any) -> None:
    if isinstance(value, dict):
        to.print(f"  {key}:", style="dim")
        for name, text in value.items():
            to.print(f"    {name}: {text}")
    elif isinstance(value, list):
        lines = [str(each) for each in value]
        if sum(map(len, lines)) < 100:
            to.print(f"  {key}: {', '.join(lines)}")
        else:
            to.print(f"  {key}:")
            for each in lines:
                to.print(f"    {each}")
    else:
        to.print(f"  {key}: {value}")


def _tell_offers(to: Console, offers: tuple[Offer, ...]) -> None:
    if not offers:
        return
    table = _table("pool", "offering", "location", "per hour", "says")
    for each in offers:
        style = "green" if each.answer == TAKES else ""
        table.add_row(each.pool, each.offering, each.location, f"{each.price_per_hour:.4f}", Text(each.answer, style))
    to.print()
    to.print(table)


def _tell_remedies(to: Console, remedies: tuple[Remedy, ...]) -> None:
    if not remedies:
        return
    table = _table("what would help", "then", "per hour")
    for each in remedies:
        table.add_row(each.change, each.then, f"{each.price_per_hour:.4f}")
    to.print()
    to.print(table)


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 2), header_style="dim")
    for name in columns:
        table.add_column(name, justify="right" if name == "per hour" else "left", overflow="fold")
    return table
