"""Which files are made from the code, and are they up to date? `python -m deploy.generate` writes them; a test
compares.

| file | made from |
| --- | --- |
| `deploy/crds/`, `deploy/chart/generated/crds/` | the nouns of `model/`, as `growth crds` prints them |
| `deploy/crds/optional/`, `deploy/chart/generated/capacitybuffers.yaml` | the standard kind CapacityBuffer, as
  `growth crds --capacity-buffers` prints it |
| `deploy/chart/generated/rules-<provider>.yaml` | what growth watches and does, as `growth role` prints it |
| `deploy/chart/generated/join-tokens.yaml` | the role and the admission policy for minting join tokens; the chart puts
  its own names in |
| `deploy/chart/generated/dashboard.json` | `deploy/dashboard.py` |
| `deploy/chart/values.schema.json` | `deploy/values_schema.py` and the settings |
| `docs/reference/settings.md` | the settings and their meanings |
| `docs/reference/metrics.md` | the registry of metrics |
| `docs/reference/kinds.md` | the definitions of growth's kinds |
| `docs/reference/events.md` | `deploy/events_page.py`, compared with the reasons that the code gives |
| `docs/reference/phases.md` | the phases and transitions of `model/noderequest.py` |
| `docs/concepts/walks.svg`, `docs/reference/phases-*.svg` | `deploy/diagrams.py` |
| `docs/guides/watermarks.svg` | `deploy/watermarks_picture.py`, by the functions that size warm pools |
| `docs/reference/scenarios.md`, `docs/reference/scenario.schema.json` | the classes that read scenario files |
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_type_hints

import yaml

from deploy.dashboard import dashboard
from deploy.diagrams import phases_picture, walks_picture
from deploy.events_page import events_page
from deploy.kinds_page import kinds_page
from deploy.metrics_page import metrics_page
from deploy.phases_page import phases_page
from deploy.scenarios_page import scenarios_page
from deploy.settings_page import settings_page
from deploy.values_schema import values_schema
from deploy.watermarks_picture import watermarks_picture
from growth.controllers.act.role import lease_rights, parts, rules, token_manifests
from growth.controllers.configuration import Configuration
from growth.kube.crds import file_name, file_text, installed
from growth.kube.crds.buffer import buffer_definition
from growth.model.noderequest import PHASES
from growth.sim.scenarios.schema import scenario_schema

ROOT = Path(__file__).resolve().parents[1]
CHART = Path("deploy/chart")


def generated() -> Mapping[Path, str]:
    """The text of each generated file, by its path from the root."""
    return {
        **{
            folder / file_name(definition): file_text(definition)
            for definition in installed()
            for folder in (Path("deploy/crds"), CHART / "generated/crds")
        },
        **{CHART / f"generated/rules-{provider}.yaml": _rules(provider) for provider in providers()},
        **{
            path: file_text(buffer_definition())
            for path in (Path("deploy/crds/optional/capacitybuffers.yaml"), CHART / "generated/capacitybuffers.yaml")
        },
        CHART / "generated/join-tokens.yaml": _join_tokens(),
        CHART / "generated/dashboard.json": _json(dashboard()),
        CHART / "values.schema.json": _json(values_schema()),
        Path("docs/reference/settings.md"): settings_page(),
        Path("docs/reference/metrics.md"): metrics_page(),
        Path("docs/reference/kinds.md"): kinds_page(),
        Path("docs/reference/events.md"): events_page(),
        Path("docs/reference/phases.md"): phases_page(),
        Path("docs/guides/watermarks.svg"): watermarks_picture(),
        Path("docs/concepts/walks.svg"): walks_picture(),
        **{Path(f"docs/reference/phases-{kind.lower()}.svg"): phases_picture(kind) for kind in PHASES},
        Path("docs/reference/scenarios.md"): scenarios_page(),
        Path("docs/reference/scenario.schema.json"): _json(scenario_schema()),
    }


def providers() -> tuple[str, ...]:
    """Every provider that the settings know."""
    names: tuple[str, ...] = get_type_hints(Configuration)["provider"].__args__
    return names


def stale() -> list[str]:
    """Generated files that differ from what is there, and files that nothing generates any more."""
    wanted = generated()
    folder = ROOT / CHART / "generated"
    left_over = [
        path.relative_to(ROOT)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.relative_to(ROOT) not in wanted
    ]
    differing = [
        path
        for path, text in wanted.items()
        if not (ROOT / path).is_file() or (ROOT / path).read_text(encoding="utf-8") != text
    ]
    return [str(path) for path in (*differing, *left_over)]


def _rules(provider: str) -> str:
    content = {part: rules(found) for part, found in parts(provider).items()}
    content["lease"] = rules(lease_rights("GROWTH_NAMESPACE", "GROWTH_INSTALLATION"))
    return "# Generated by `python -m deploy.generate`; do not edit.\n" + yaml.safe_dump(content, sort_keys=False)


def _join_tokens() -> str:
    items = token_manifests("GROWTH_NAME", "GROWTH_ACCOUNT", "GROWTH_NAMESPACE", "GROWTH_GROUP")
    return "# Generated by `python -m deploy.generate`; do not edit.\n" + yaml.safe_dump_all(
        items, sort_keys=False, width=10_000
    )


def _json(content: Any) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def main() -> int:
    for path, text in generated().items():
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(text, encoding="utf-8")
        sys.stdout.write(f"{path}\n")
    for left_over in stale():
        (ROOT / left_over).unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
