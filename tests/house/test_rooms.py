from __future__ import annotations

from pathlib import Path

import pytest

from tests.house import rooms, walks
from tests.house.tree import python_files

MOST_MODULES_OF_A_WALK = 65


def test_no_room_has_more_than_13_modules() -> None:
    assert rooms.crowded_rooms(rooms.rooms()) == []


def test_a_crowded_room_is_noticed_and_a_provider_may_have_a_little_more() -> None:
    modules = [Path(f"module_{number}.py") for number in range(14)]
    crowded = {Path("src/growth/plan/world"): modules, Path("src/growth/providers/hetzner"): modules}
    assert rooms.crowded_rooms(crowded) == ["src/growth/plan/world: 14 modules"]


def test_no_small_module_has_only_one_reader() -> None:
    assert rooms.lonely_modules(rooms.sources()) == []


def test_a_small_module_with_one_reader_is_noticed_unless_it_is_a_row() -> None:
    sources = {
        "growth.plan.a": "from growth.plan import b\nfrom growth.plan.c import plan",
        "growth.plan.b": "x = 1",
        "growth.plan.c": "def plan(): ...",
    }
    assert rooms.lonely_modules(sources) == ["growth.plan.b (1 lines) is read by growth.plan.a alone"]


def test_every_exception_to_that_is_still_needed() -> None:
    present = rooms.sources()
    assert [name for name in rooms.TABLES if name not in present or len(rooms.importers(present)[name]) != 1] == []


def test_a_public_class_means_one_thing_in_its_layer() -> None:
    assert rooms.classes_with_two_meanings(python_files(rooms.SOURCE)) == []


def test_no_file_is_named_after_a_participle_or_a_metaphor() -> None:
    assert [why for path in python_files(rooms.SOURCE) if (why := rooms.why_not_file_name(path))] == []


@pytest.mark.parametrize("name", ["dealing.py", "thrift.py"])
def test_such_a_name_is_noticed(name: str) -> None:
    assert rooms.why_not_file_name(Path("src/growth/plan") / name)


def test_every_room_has_a_readme_of_at_most_a_page() -> None:
    assert rooms.readmes_missing_or_long(rooms.rooms()) == []


def test_a_pending_pod_crosses_few_modules() -> None:
    found = {name for name in walks.modules_of(walks.reachable(walks.PENDING_POD)) if "growth.model" not in name}
    assert len(found) <= MOST_MODULES_OF_A_WALK, sorted(found)
