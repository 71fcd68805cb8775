"""What is generated from the code is up to date in the repository."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import yaml

from deploy import generate
from deploy.generate import CHART, ROOT, generated, providers, stale
from growth.controllers.act.join_tokens import JoinTokens
from growth.controllers.act.role import lease_rights, parts, rules
from growth.controllers.configuration import Configuration, PageSettings
from growth.model.scheduler import SchedulerSettings
from growth.model.settings import Settings, WarmPoolSettings
from growth.model.warmpool import WarmPoolKind
from growth.providers.hetzner.settings import HetznerSettings, Launch, Reserved


def test_every_generated_file_is_up_to_date() -> None:
    assert stale() == [], "run `python -m deploy.generate` and commit what it wrote"


def test_a_changed_a_missing_and_a_left_over_file_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    assert generate.main() == 0
    assert stale() == []
    (tmp_path / CHART / "values.schema.json").write_text("{}")
    (tmp_path / CHART / "generated/rules-kwok.yaml").unlink()
    (tmp_path / CHART / "generated/rules-former.yaml").write_text("")
    assert stale() == [
        str(CHART / name) for name in ("generated/rules-kwok.yaml", "values.schema.json", "generated/rules-former.yaml")
    ]
    generate.main()
    assert stale() == []


def test_the_chart_has_the_rights_of_every_provider_and_no_more() -> None:
    for provider in providers():
        content = yaml.safe_load(generated()[CHART / f"generated/rules-{provider}.yaml"])
        granted = {part: rules(found) for part, found in parts(provider).items()}
        assert content == {**granted, "lease": rules(lease_rights("anywhere", "GROWTH_INSTALLATION"))}


def test_the_chart_carries_the_very_definitions_of_deploy_crds() -> None:
    folders = [
        {path.name: path.read_text() for path in (ROOT / folder).glob("*.yaml")}
        for folder in ("deploy/crds", CHART / "generated/crds")
    ]
    assert folders[0] == folders[1]
    assert folders[0]


def test_every_setting_is_on_the_page_with_its_meaning() -> None:
    page = generated()[Path("docs/reference/settings.md")]
    parts = (
        Configuration,
        Settings,
        SchedulerSettings,
        WarmPoolSettings,
        WarmPoolKind,
        HetznerSettings,
        Reserved,
        Launch,
        JoinTokens,
        PageSettings,
    )
    fields = [field for part in parts for field in msgspec.structs.fields(part)]
    rows = {line.split("`")[1]: line for line in page.splitlines() if line.startswith("| `")}
    assert sorted(rows) == sorted({field.encode_name for field in fields})
    assert [name for name, row in rows.items() if not row.rstrip("| ").endswith((".", ".`"))] == []


def test_the_default_values_are_values_that_the_schema_knows() -> None:
    values = yaml.safe_load((ROOT / CHART / "values.yaml").read_text())
    schema = yaml.safe_load(generated()[CHART / "values.schema.json"])
    assert sorted({*values, "global"}) == sorted(schema["properties"])
    assert msgspec.convert(values["settings"], Configuration) == Configuration()
