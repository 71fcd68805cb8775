"""Settings are checked before anything happens, and say what is wrong where."""

from __future__ import annotations

from pathlib import Path

import pytest

from growth.controllers.configuration import (
    Configuration,
    ConfigurationError,
    load_configuration,
    print_configuration,
    with_scheduler,
)


def written(folder: Path, text: str) -> Path:
    path = folder / "growth.yaml"
    path.write_text(text)
    return path


def test_without_any_words_the_defaults_hold() -> None:
    assert load_configuration(None, {}, {}) == Configuration()


def test_flags_lie_over_the_environment_and_the_environment_over_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, "listenPort: 1\nnamespace: file\nlogLevel: debug\n")
    found = load_configuration(
        path, {"GROWTH_LISTEN_PORT": "2", "GROWTH_NAMESPACE": "environment"}, {"listenPort": 3, "provider": None}
    )
    assert (found.listen_port, found.namespace, found.log_level) == (3, "environment", "debug")


def test_the_scheduler_is_off_and_a_flag_turns_it_on_and_leaves_its_costs_as_the_file_has_them(tmp_path: Path) -> None:
    found = load_configuration(written(tmp_path, "plans: {scheduler: {softTaintCost: 7}}"), {}, {})
    assert not found.plans.scheduler.enabled
    turned_on = with_scheduler(found, enabled=True, serves_default=None).plans.scheduler
    assert (turned_on.enabled, turned_on.soft_taint_cost) == (True, 7)


def test_numbers_of_the_plans_come_from_the_file(tmp_path: Path) -> None:
    found = load_configuration(written(tmp_path, "plans: {readinessWaitSeconds: 90}"), {}, {})
    assert found.plans.readiness_wait_seconds == 90


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("listenport: 1", "listenport.*did you mean listenPort"),
        ("provder: kwok", "did you mean provider"),
        ("{image: {repository: x}, settings: {provider: kwok}}", "values of the chart"),
        ("listenPort: 99999", "listenPort"),
        ("plans: {removalAttempts: 0}", "removalAttempts"),
        ("provider: acme", "provider"),
        ("installation: Not_A_Name", "installation"),
        ("- a list", "mapping"),
        ("{", "not YAML"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        load_configuration(written(tmp_path, text), {}, {})


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"nowhere\.yaml: cannot be read"):
        load_configuration(tmp_path / "nowhere.yaml", {}, {})


def test_what_is_printed_can_be_read_again(tmp_path: Path) -> None:
    configuration = load_configuration(None, {}, {"observe": True, "listenPort": 0})
    assert load_configuration(written(tmp_path, print_configuration(configuration)), {}, {}) == configuration


def test_buffers_are_on_unless_their_gate_is_closed_and_other_gates_are_refused() -> None:
    assert load_configuration(None, {}, {}).serves_buffers
    assert load_configuration(None, {}, {"featureGates": "CapacityBuffer=true"}).serves_buffers
    assert not load_configuration(None, {"GROWTH_FEATURE_GATES": "CapacityBuffer=false"}, {}).serves_buffers
    both = load_configuration(None, {}, {"featureGates": "CapacityBuffer=false,PoolAutoscaler=false"})
    assert (both.serves_buffers, both.serves_warm_pools) == (False, False)
    assert load_configuration(None, {}, {"featureGates": "CapacityBuffer=false"}).serves_warm_pools
    with pytest.raises(ConfigurationError, match="featureGates"):
        load_configuration(None, {}, {"featureGates": "Everything=true"})
