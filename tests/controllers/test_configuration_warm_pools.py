"""Settings of warm pools: ranges, the process's time zone, kinds of one's own and the rights they need."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from growth.controllers.act.role import Features, rights, rules
from growth.controllers.configuration import ConfigurationError, load_configuration, own_zone
from growth.model.warmpool import WarmPoolKind

DESK = {
    "group": "example.com",
    "version": "v1",
    "plural": "desks",
    "kind": "Desk",
    "members": "Stay",
    "availablePath": "status.free",
}


def written(folder: Path, **warm_pools: object) -> Path:
    path = folder / "settings.yaml"
    path.write_text(yaml.safe_dump({"plans": {"warmPools": warm_pools}}))
    return path


@pytest.mark.parametrize(
    "setting",
    [
        {"observationWindowSeconds": 29},
        {"observationWindowSeconds": 301},
        {"samplingIntervalSeconds": 4},
        {"samplingIntervalSeconds": 31},
        {"tolerancePercent": 101},
        {"scaleDownWindowSeconds": 3601},
        {"kinds": [{**DESK, "availablePath": "status[0]"}]},
        {"unknown": 1},
    ],
)
def test_what_is_out_of_range_is_refused_at_the_start(tmp_path: Path, setting: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError):
        load_configuration(written(tmp_path, **setting), {}, {})


@pytest.mark.parametrize(
    ("variable", "link", "zone"),
    [
        ("", "/usr/share/zoneinfo/Europe/Berlin", "Europe/Berlin"),
        ("Asia/Tokyo", "/usr/share/zoneinfo/Europe/Berlin", "Asia/Tokyo"),
        (":/usr/share/zoneinfo/Asia/Tokyo", "", "Asia/Tokyo"),
        ("CET-1CEST", "/usr/share/zoneinfo/Europe/Berlin", "Europe/Berlin"),
        ("", "/usr/share/zoneinfo/Etc/UTC", "UTC"),
        ("", "/srv/no-zone", ""),
        ("", "", ""),
    ],
)
def test_the_zone_of_the_process_is_that_of_tz_then_of_the_system(
    tmp_path: Path, variable: str, link: str, zone: str
) -> None:
    localtime = tmp_path / "localtime"
    if link:
        localtime.symlink_to(link)
    assert own_zone({"TZ": variable} if variable else {}, localtime) == zone


def test_schedules_without_a_zone_follow_the_process_unless_the_file_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("growth.controllers.configuration._LOCALTIME", tmp_path / "none")
    zones = [
        load_configuration(None, environment, {}).plans.warm_pools.time_zone
        for environment in (
            {},
            {"TZ": "Asia/Tokyo"},
            {"TZ": ":Asia/Tokyo"},
            {"TZ": "CET-1CEST"},
            {"TZ": "/etc/localtime"},
        )
    ]
    assert zones == ["UTC", "Asia/Tokyo", "Asia/Tokyo", "UTC", "UTC"]
    told = load_configuration(written(tmp_path, timeZone="Europe/Berlin"), {"TZ": "Asia/Tokyo"}, {})
    assert told.plans.warm_pools.time_zone == "Europe/Berlin"


def test_a_kind_of_ones_own_is_allowed_by_being_named_and_gets_its_rights(tmp_path: Path) -> None:
    kinds = load_configuration(written(tmp_path, kinds=[DESK]), {}, {}).plans.warm_pools.kinds
    assert kinds == (WarmPoolKind("example.com", "v1", "desks", "Desk", "Stay", "status.free"),)
    more, less = rules(rights(Features(kinds=kinds))), rules(rights(Features()))
    added = [rule for rule in more if rule not in less]
    assert added == [
        {"apiGroups": ["example.com"], "resources": ["desks"], "verbs": ["list", "watch"]},
        {"apiGroups": ["example.com"], "resources": ["desks/scale"], "verbs": ["patch"]},
    ]
