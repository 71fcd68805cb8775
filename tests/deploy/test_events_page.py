"""The page of events names every reason that the code gives, and no other."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from deploy.events_page import SECTIONS
from deploy.generate import ROOT
from growth.plan.world.pools import REASONS as REASONS_WITHOUT_POOL

NAMED = {reason for rows in SECTIONS.values() for reason in rows}
TELLERS = {"Note": 1, "self._warn": 1, "_note": 2, "_of_pool": 2, "Obstacle": 2}  # which argument is the reason
OF_BUFFERS = {
    "AttributesSetSuccessfully",
    "ScalableRefNotFound",
    "PodTemplateNotFound",
    "ResolutionFailed",
    "BufferEmpty",
    "CapacityProvisioned",
    "RequiresNewCapacity",
    "NotReadyForProvisioning",
    "LimitedByPool",
}  # the reasons of its conditions are told as events
SCALED = {"ScaledUp", "ScaledDown"}


def reasons_in(path: Path) -> Iterator[str]:
    """What the tellers of a file are given, where it stands there or is a constant of the file."""
    tree = ast.parse(path.read_text())
    constants = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.AnnAssign | ast.Assign) and isinstance(node.value, ast.Constant)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or ast.unparse(node.func) not in TELLERS:
            continue
        place = TELLERS[ast.unparse(node.func)]
        given = node.args[place] if len(node.args) > place else None
        value = given.value if isinstance(given, ast.Constant) else constants.get(ast.unparse(given) if given else "")
        if isinstance(value, str) and value:
            yield value


def test_every_reason_that_the_code_gives_is_on_the_page_and_no_other() -> None:
    files = (ROOT / "src/growth").rglob("*.py")
    given = {reason for path in files for reason in reasons_in(path)}
    assert len(given) > 50
    assert (
        given | OF_BUFFERS | SCALED | set(REASONS_WITHOUT_POOL) | {"LimitedByQuotas", "Braked", "ScaleBlocked"} == NAMED
    )


@pytest.mark.parametrize("folder", ["tests/scenarios", "tests/scenarios/long", "docs/examples/scenarios"])
def test_every_reason_that_a_scenario_expects_is_on_the_page(folder: str) -> None:
    expected = [
        str(key).removeprefix("events.")
        for path in (ROOT / folder).glob("*.yaml")
        for key in (yaml.safe_load(path.read_text()).get("expect") or {})
        if str(key).startswith("events.")
    ]
    assert set(expected) <= NAMED
