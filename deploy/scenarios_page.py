"""The page docs/reference/scenarios.md: every part of a scenario file, every fault and every figure of the result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_type_hints

import msgspec

from growth.sim.scenarios.file import (
    Bound,
    Members,
    ObjectChoice,
    Patch,
    Scale,
    Scenario,
    Step,
    StrangersMachine,
    Trace,
)
from growth.sim.scenarios.result import Result
from growth.sim.scenarios.schema import fault_kinds, fields_of, sentence_of, tag_of

INTRODUCTION = """# Scenario files

A scenario says what there is, what happens and what goes wrong, in virtual time;
[What would this cost?](../guides/simulate.md) shows one at work. Times are durations such as `30s`, `10m`, `1h30m` or
`2d`. A file that says something unknown is refused with its line and the reason. `growth simulate --schema` prints a
JSON schema for editors. This page is generated from the code: `python -m deploy.generate`.
"""

OF_FAULTS = """
## Faults

Every fault has `kind`, and `from` and `until` (absent: from the start, to the end). A `share` is the chance of each
machine, node or call it can happen to.

| fault | what the world does | with |
| --- | --- | --- |
"""

OF_RESULT = """
## The result

`growth simulate --output json` prints one object for each run. Keys of `expect` are its keys, joined by dots:
`machines.bought`, `events.Unplaced`.

| key | |
| --- | --- |
"""

PARTS = (Scenario, Step, Scale, ObjectChoice, Patch, Members, StrangersMachine, Trace, Bound)


def scenarios_page() -> str:
    parts = "".join(_part(kind) for kind in PARTS)
    faults = "".join(_fault(kind) for kind in fault_kinds())
    figures = "".join(f"| `{key}` | {told} |\n" for key, told in _figures(Result))
    return f"{INTRODUCTION}{parts}{OF_FAULTS}{faults}{OF_RESULT}{figures}"


def _part(kind: Any) -> str:
    rows = "".join(f"| `{name}` | {default} | {told} |\n" for name, default, told in fields_of(kind))
    return f"\n## {kind.__name__}\n\n{sentence_of(kind)}\n\n| key | default | meaning |\n| --- | --- | --- |\n{rows}"


def _fault(kind: Any) -> str:
    own = [(name, default) for name, default, _ in fields_of(kind) if name not in ("from", "until")]
    told = ", ".join(f"`{name}`{f' ({default})' if default else ''}" for name, default in own)
    return f"| {tag_of(kind)} | {sentence_of(kind)} | {told} |\n"


def _figures(kind: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    hints = get_type_hints(kind, include_extras=True)
    for field in msgspec.structs.fields(kind):
        name, hint = f"{prefix}{field.encode_name}", hints[field.name]
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            yield from _figures(hint, f"{name}.")
        else:
            yield name, next((each.description for each in getattr(hint, "__metadata__", ())), "")
