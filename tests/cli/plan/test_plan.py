"""`growth plan`: what is bought for the pods of a file, its price, its bound, and what it says of mistakes."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from growth.cli import main

EXAMPLES = Path(__file__).parents[3] / "docs/examples/plan"
CATALOGUE = """
provider: test
locations: [{name: here}]
serverTypes:
- {name: small, cpu: "2", memory: 4Gi, pricePerHour: 0.01, allocatable: {cpu: "2", memory: 4Gi}}
- {name: large, cpu: "8", memory: 16Gi, pricePerHour: 0.03, allocatable: {cpu: "8", memory: 16Gi}}
"""


def pod(name: str, cpu: str = "2", **spec: Any) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}], **spec},
    }


def pool(least: int = 0, most: int | None = None) -> dict[str, Any]:
    types = [{"name": "small", "min": least, **({} if most is None else {"max": most})}]
    return {
        "kind": "NodePool",
        "apiVersion": "growth.dev/v1alpha1",
        "metadata": {"name": "default"},
        "spec": {"serverTypes": types},
    }


def node(name: str, cpu: str = "4") -> dict[str, Any]:
    status = {
        "allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    return {"kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}, "status": status}


class Files:
    """Writes what it is given and asks for a plan."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._folder, self._capsys = folder, capsys

    def plan(self, expected: int = 0, catalogue: str = CATALOGUE, **objects: Any) -> tuple[Any, str]:
        """The JSON answer and what was said on stderr."""
        (self._folder / "offerings").write_text(catalogue)
        arguments = ["plan", "--offerings", str(self._folder / "offerings"), "--output", "json", "--check"]
        for flag, content in objects.items():
            text = (
                content
                if isinstance(content, str)
                else json.dumps({"kind": "List", "items": content} if isinstance(content, list) else content)
            )
            (self._folder / flag).write_text(text)
            arguments += [f"--{flag}", str(self._folder / flag)]
        assert main(arguments) == expected
        said = self._capsys.readouterr()
        return (json.loads(said.out) if said.out else None), said.err


@pytest.fixture
def files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Files:
    return Files(tmp_path, capsys)


def test_the_json_names_nodes_pods_cost_and_bound(files: Files) -> None:
    answer, _ = files.plan(pods=[pod("a"), pod("b"), pod("c"), pod("d")])
    assert answer["nodes"] == [
        {
            "name": "default-1",
            "pool": "default",
            "offering": "test-large",
            "serverType": "large",
            "zone": "here",
            "pricePerHour": 0.03,
            "pods": ["default/a", "default/b", "default/c", "default/d"],
        }
    ]
    assert answer["unplaced"] == []
    assert answer["cost"]["pricePerHour"] == pytest.approx(0.03)
    assert 0 <= answer["cost"]["gap"] == pytest.approx(0.03 / answer["cost"]["lowerBound"] - 1)
    assert answer["seconds"] >= 0


def test_pods_and_types_may_come_in_the_form_of_a_benchmark(files: Files) -> None:
    amounts = {"cpuMillis": 2000, "memoryBytes": 2**32, "pods": 10}
    sales = [
        {"zone": "here", "capacityType": "spot", "price": 0.1},
        {"zone": "here", "capacityType": "on-demand", "price": 0.2},
    ]
    types = [{"name": "two", "allocatable": amounts, "labels": {}, "offerings": sales}]
    bare = [{name: part for name, part in pod(each).items() if name != "kind"} for each in ("a", "b")]
    answer, _ = files.plan(catalogue=json.dumps(types), pods={"mix": "test", "pods": bare})
    assert [(each["serverType"], each["pricePerHour"], len(each["pods"])) for each in answer["nodes"]] == [
        ("two", 0.2, 1)
    ] * 2


def test_nodes_that_are_there_are_used_first_and_their_pods_count(files: Files) -> None:
    answer, _ = files.plan(pods=[pod("old", nodeName="there"), pod("new"), pod("newer")], nodes=[node("there")])
    assert answer["existing"] == [{"name": "there", "pods": ["default/new"]}]
    assert [each["pods"] for each in answer["nodes"]] == [["default/newer"]]


def test_limits_of_a_pool_leave_pods_unplaced_with_their_reason(files: Files) -> None:
    answer, _ = files.plan(pods=[pod("a"), pod("b")], pools=[pool(most=1)])
    assert len(answer["nodes"]) == 1
    ((unplaced,),) = [answer["unplaced"]]
    assert unplaced["pod"] == "default/b"
    assert "limit" in " ".join(unplaced["reasons"])


def test_machines_that_a_minimum_keeps_warm_take_pods_before_anything_is_bought(files: Files) -> None:
    answer, _ = files.plan(pods=[pod("a"), pod("b")], pools=[pool(least=1)])
    assert answer["existing"] == [{"name": "default-minimum-1", "pods": ["default/a"]}]
    assert len(answer["nodes"]) == 1


def test_a_pod_without_a_pool_is_told_so(files: Files) -> None:
    answer, _ = files.plan(pods=[pod("a", nodeSelector={"growth.dev/pool": "gone"})])
    assert answer["unplaced"] == [{"pod": "default/a", "reasons": ["NodePool gone does not exist"]}]


def test_a_pool_whose_types_are_not_for_sale_is_named_with_them(files: Files) -> None:
    elsewhere = {**pool(), "spec": {"serverTypes": [{"name": "cx32"}], "locations": ["fsn1"]}}
    answer, _ = files.plan(pods=[pod("a")], pools=[elsewhere])
    assert answer["unplaced"][0]["reasons"][-1] == (
        "NodePool default lists no server type that the provider sells (cx32 in fsn1)"
    )


def test_the_catalogue_that_kwok_has_built_in_can_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--pods", str(EXAMPLES / "pods.yaml"), "--offerings", "kwok", "--output", "json"]) == 0
    bought = json.loads(capsys.readouterr().out)["nodes"]
    assert bought
    assert all(each["offering"].startswith("kwok-") for each in bought)


def test_pods_may_come_from_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "offerings").write_text(CATALOGUE)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(pod("a")).encode())))
    assert main(["plan", "--pods", "-", "--offerings", str(tmp_path / "offerings"), "-o", "json"]) == 0
    assert [each["pods"] for each in json.loads(capsys.readouterr().out)["nodes"]] == [["default/a"]]


def test_a_file_that_is_missing_is_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--pods", "nope.yaml", "--offerings", "kwok"]) == 1
    assert capsys.readouterr().err == "growth: nope.yaml: No such file or directory\n"


def test_an_object_that_cannot_be_read_is_named_and_stops_no_other(files: Files) -> None:
    answer, said = files.plan(expected=1, pods=[pod("bad", cpu="many"), pod("good")])
    assert [each["pods"] for each in answer["nodes"]] == [["default/good"]]
    assert "Pod default/bad" in said


@pytest.mark.parametrize("content", ["{", "just words", "[1, 2"])
def test_a_file_that_says_nothing_is_one_line(files: Files, content: str) -> None:
    answer, said = files.plan(expected=1, pods=content)
    assert answer is None
    assert said.startswith("growth: ")
    assert said.count("\n") == 1


def test_a_catalogue_that_is_none_is_one_line(files: Files) -> None:
    answer, said = files.plan(expected=1, catalogue="[{}]", pods=[pod("a")])
    assert answer is None
    assert "not a benchmark catalogue" in said


def test_without_waiting_pods_nothing_is_bought(files: Files) -> None:
    answer, _ = files.plan(pods=[pod("old", nodeName="there")], nodes=[node("there")])
    assert answer["nodes"] == answer["unplaced"] == answer["existing"] == []


def test_the_table_of_the_example_shows_how_full_nodes_are_and_the_gap(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--pods", str(EXAMPLES / "pods.yaml"), "--offerings", str(EXAMPLES / "offerings.yaml")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["nodes", "pool", "server", "type", "zone", "price/h", "pods", "cpu", "memory"]
    assert sum(int(line.split()[5]) for line in lines[1:-1]) == 15
    assert "no plan for them costs less than" in lines[-1]
