"""Every test can fail, and none is switched off; the rules that say so are tried on tests that cannot."""

from __future__ import annotations

import pytest

from tests.house.assertions import switched_off_tests, without_assertion
from tests.house.tree import python_files, text_of

# Where neither Go nor built binaries are at hand there is no control plane to test against; under CI this is a failure
# instead.
MAY_SKIP = ("tests/e2e/", "tests/oracle/")
# A scenario that tells of a known defect must fail until the defect is repaired; it says so in its own file.
MAY_EXPECT_FAILURE = ("tests/scenarios/playing.py",)


def test_every_test_asserts_something() -> None:
    assert [f"{path}: {name}" for path in python_files("tests") for name in without_assertion(text_of(path))] == []


def test_no_test_is_skipped_or_expected_to_fail() -> None:
    paths = [path for path in python_files("tests") if not path.as_posix().startswith(MAY_SKIP + MAY_EXPECT_FAILURE)]
    assert [f"{path}: {name}" for path in paths for name in switched_off_tests(text_of(path))] == []


@pytest.mark.parametrize("body", ["pass", "plan(snapshot)", "value = plan(snapshot) == 3", "print('assert')"])
def test_a_test_that_cannot_fail_is_noticed(body: str) -> None:
    assert without_assertion(f"def test_plan():\n    {body}") == ["line 1: test_plan"]


@pytest.mark.parametrize(
    "source",
    [
        "def test_plan():\n    assert plan() == 3",
        "def test_plan():\n    with pytest.raises(ValueError):\n        plan()",
        "def test_plan():\n    assert_placed(plan())",
        "def holds(x):\n    assert x\ndef settles(x):\n    holds(x)\ndef test_plan():\n    settles(3)",
        "async def test_plan():\n    assert await plan()",
    ],
)
def test_a_test_that_asserts_passes(source: str) -> None:
    assert without_assertion(source) == []


@pytest.mark.parametrize(
    "source",
    [
        "@pytest.mark.skip\ndef test_a(): ...",
        "def test_a():\n    pytest.skip('later')",
        "yaml = pytest.importorskip('yaml')",
    ],
)
def test_a_switched_off_test_is_noticed(source: str) -> None:
    assert len(switched_off_tests(source)) == 1
