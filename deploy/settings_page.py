"""The page docs/reference/settings.md: every setting with its default and its meaning, read from the classes that check
them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from growth.controllers.act.join_tokens import JoinTokens
from growth.controllers.configuration import SECTIONS, Configuration, PageSettings
from growth.model.scheduler import SchedulerSettings
from growth.model.settings import Settings, WarmPoolSettings
from growth.model.warmpool import WarmPoolKind
from growth.providers.hetzner.settings import HetznerSettings, Launch, Reserved

INTRODUCTION = """# Settings

One file in YAML tells growth everything: `growth run --settings FILE`. Environment variables lie over it, \
and flags over both (`growth run --help`).
`growth run --print-settings` prints what is in force, as the file that would give it. \
A name that is not here, or a value out of its bounds, is refused at
the start with its name. In the Helm chart the file is the value `settings`.

```yaml
provider: kwok
observe: true
plans:
  scaleDownDelaySeconds: 300
  limits:
    nodes: 50
    pricePerHour: "2.50"
```

This page is generated from the code: `python -m deploy.generate`.
"""

OF_PLANS = """
## Numbers of the plans

Under `plans`, in the file only.
"""

OF_HETZNER = """
## Hetzner

Under `hetzner`, in the file only; [Hetzner in ten minutes](../guides/hetzner.md) shows them at work.
"""


OF_JOIN_TOKENS = """
## Join tokens

Under `joinTokens`, in the file only; [Hetzner in ten minutes](../guides/hetzner.md#a-join-token-for-each-machine) \
shows them at work.
"""


OF_PAGE = """
## The page

Under `page`, in the file only; [Look at growth](../guides/page.md) shows it.
"""


OF_WARM_POOLS = """
## Warm pools

How PoolAutoscalers are served, for all of them; [Keep a pool warm](../guides/warm-pools.md) shows them at work.
"""


OF_SCHEDULER = """
## The scheduler

Under `plans.scheduler`; [Placement by flow](../concepts/flow.md) says what the costs mean.
"""


def settings_page() -> str:
    top = _table(("setting", "environment", "default", "bounds", "meaning"), list(_top_rows()))
    plans = _table(("setting", "default", "bounds", "meaning"), list(_rows(Settings)))
    return (
        f"{INTRODUCTION}\n## growth itself\n\n{top}"
        f"{OF_PLANS}\n{plans}{_scheduler()}{_warm_pools()}{_hetzner()}{_join_tokens()}{_page()}"
    )


def _scheduler() -> str:
    return f"{OF_SCHEDULER}\n{_table(('setting', 'default', 'bounds', 'meaning'), list(_rows(SchedulerSettings)))}"


def _warm_pools() -> str:
    header = ("setting", "default", "bounds", "meaning")
    parts = (("plans.warmPools", WarmPoolSettings), ("each of plans.warmPools.kinds", WarmPoolKind))
    return OF_WARM_POOLS + "".join(f"\n### {name}\n\n{_table(header, list(_rows(part)))}" for name, part in parts)


def _hetzner() -> str:
    header = ("setting", "default", "bounds", "meaning")
    parts = (("hetzner", HetznerSettings), ("hetzner.reserved", Reserved), ("hetzner.launch", Launch))
    return OF_HETZNER + "".join(f"\n### {name}\n\n{_table(header, list(_rows(settings)))}" for name, settings in parts)


def _join_tokens() -> str:
    return f"{OF_JOIN_TOKENS}\n{_table(('setting', 'default', 'bounds', 'meaning'), list(_rows(JoinTokens)))}"


def _page() -> str:
    return f"{OF_PAGE}\n{_table(('setting', 'default', 'bounds', 'meaning'), list(_rows(PageSettings)))}"


def _top_rows() -> Iterator[tuple[str, ...]]:
    """All but whole sections can be set by the environment too."""
    for field, row in zip(msgspec.structs.fields(Configuration), _rows(Configuration), strict=True):
        yield (row[0], "" if field.name in SECTIONS else f"`GROWTH_{field.name.upper()}`", *row[1:])


def _rows(settings: type[Struct]) -> Iterator[tuple[str, ...]]:
    _, components = msgspec.json.schema_components([settings])
    properties = components[settings.__name__]["properties"]
    for name, schema in properties.items():
        default = schema.get("default")
        shown = "" if isinstance(default, dict | list) or default == "" else f"`{json.dumps(default).strip(chr(34))}`"
        yield f"`{name}`", shown, _bounds(schema), schema["description"]


def _bounds(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{choice}`" for choice in schema["enum"])
    lowest = schema.get("minimum", schema.get("exclusiveMinimum"))
    low = f"{'more than' if 'exclusiveMinimum' in schema else 'at least'} {lowest}" if lowest is not None else ""
    high = f"at most {schema['maximum']:,}" if "maximum" in schema else ""
    length = f"at most {schema['maxLength']} characters" if "maxLength" in schema else ""
    return ", ".join(filter(None, (low, high, length)))


def _table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [header, ("---",) * len(header), *rows]
    return "".join("|" + "|".join(f" {cell} " if cell else " " for cell in line) + "|\n" for line in lines)
