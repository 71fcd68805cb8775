"""The alerts as promtool sees them: they are read, each fires when it should, and none while all is well."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.generate import CHART, ROOT

RULES = ROOT / CHART / "alerts.yaml"
WELL = {"growth_leader": "1+0x60", "growth_ready": "1+0x60", "growth_cache_age_seconds": "20+0x60"}
HERE = 'namespace="growth-system", job="growth", pod="growth-0"'

# alert → the series that makes it fire, and the labels it fires with
FIRES: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "GrowthAbsent": ({}, {}),
    "GrowthNotLeading": ({f"growth_leader{{{HERE}}}": "0+0x60"}, {"namespace": "growth-system", "job": "growth"}),
    "GrowthNotReady": ({f"growth_ready{{{HERE}}}": "0+0x60"}, {"namespace": "growth-system", "pod": "growth-0"}),
    "GrowthTaskFails": ({f'growth_task_restarts_total{{{HERE}, task="supply"}}': "0+1x60"}, {"task": "supply"}),
    "GrowthSolverSilent": ({f'growth_solver_timeouts_total{{{HERE}, row="scale-up"}}': "0+1x60"}, {}),
    "GrowthTwoLeaders": (
        {f"growth_leader{{{HERE}}}": "1+0x60", f"growth_leader{{{HERE.replace('-0', '-1')}}}": "1+0x60"},
        {"job": "growth"},
    ),
    "GrowthRemovalFailed": ({f'growth_node_removal_requests{{{HERE}, phase="RemovalFailed"}}': "1+0x60"}, {}),
    "GrowthOrphanedMachines": ({f"growth_orphaned_machines{{{HERE}}}": "2+0x60"}, {}),
    "GrowthPoolFailing": ({f'growth_pool_failing{{{HERE}, pool="default"}}': "1+0x60"}, {"pool": "default"}),
    "GrowthInVain": ({f'growth_machines_in_vain{{{HERE}, pool="default"}}': "10+0x60"}, {"pool": "default"}),
    "GrowthBuysFast": ({f'growth_machines_bought_total{{{HERE}, pool="default"}}': "0+3x60"}, {"pool": "default"}),
    "GrowthBraked": ({f'growth_pool_braked{{{HERE}, pool="default"}}': "1+0x60"}, {"pool": "default"}),
    "GrowthStaleCache": ({f'growth_cache_age_seconds{{{HERE}, resource="pods"}}': "200+0x60"}, {"resource": "pods"}),
    "GrowthProviderSilent": (
        {f'growth_provider_calls_total{{{HERE}, call="list", outcome="ProviderError"}}': "0+1x60"},
        {},
    ),
    "GrowthLoopFailures": ({f'growth_loop_failures_total{{{HERE}, row="removal"}}': "0+1x60"}, {"row": "removal"}),
}

VALUES = {"GrowthRemovalFailed": "1", "GrowthOrphanedMachines": "2", "GrowthInVain": "10", "GrowthBuysFast": "180"}


def rules() -> dict[str, Any]:
    return {rule["alert"]: rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]}


def promtool(*arguments: str) -> None:
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def fires_exactly(folder: Path, series: dict[str, str], expected: dict[str, list[dict[str, Any]]]) -> None:
    """What fires an hour after these series began."""
    given = [{"series": name, "values": values} for name, values in series.items()]
    asked = [{"eval_time": "60m", "alertname": name, "exp_alerts": alerts} for name, alerts in expected.items()]
    case = {"interval": "1m", "input_series": given, "alert_rule_test": asked}
    file = folder / "test.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [case]}))
    promtool("test", "rules", str(file))


def test_promtool_reads_the_alerts() -> None:
    promtool("check", "rules", str(RULES))


def test_there_is_a_case_for_every_alert() -> None:
    assert set(FIRES) == set(rules())


def test_none_fires_while_all_is_well(tmp_path: Path) -> None:
    series = {f'{name}{{{HERE}, resource="pods"}}': values for name, values in WELL.items()}
    fires_exactly(tmp_path, series, {name: [] for name in FIRES})


@pytest.mark.parametrize("name", FIRES)
def test_each_alert_fires_with_words_that_name_what_is_wrong(name: str, tmp_path: Path) -> None:
    series, labels = FIRES[name]
    rule, known = rules()[name], {"namespace": "growth-system", **labels} if series else {}
    words = {key: _filled(name, text, known) for key, text in rule["annotations"].items()}
    fired = {"exp_labels": {**known, **rule["labels"]}, "exp_annotations": words}
    fires_exactly(tmp_path, series, {name: [fired]})


def _filled(name: str, text: str, labels: dict[str, str]) -> str:
    text = re.sub(r"{{ \$value[^}]*}}", VALUES.get(name, ""), text)
    for key, value in labels.items():
        text = text.replace(f"{{{{ $labels.{key} }}}}", value)
    return text
