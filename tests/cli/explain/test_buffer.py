"""`growth explain buffer`: sizes from files alone, in both modes; the examples of the documents are among them."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from growth.cli import main
from growth.cli.explain.buffer import read_world

EXAMPLES = Path(__file__).parents[3] / "docs/examples/buffers"

WORKLOAD = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 15
  template:
    spec:
      containers:
      - {name: main, resources: {requests: {cpu: 500m, memory: 1Gi}}}
"""
BUFFER = """
apiVersion: autoscaling.x-k8s.io/v1beta1
kind: CapacityBuffer
metadata: {name: spare}
spec: {scalableRef: {kind: Deployment, name: web, apiGroup: apps}, percentage: 10}
"""


def test_a_buffer_is_sized_from_its_file_in_both_modes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "all.yaml"
    file.write_text(f"{WORKLOAD}---{BUFFER}")
    assert main(["explain", "buffer", "-f", str(file)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "CapacityBuffer default/spare: it asks for room for 1 chunks of cpu 500m, memory 1Gi",
        "  size: 1 (1 by capped, 2 by upstream)",
        "  workload: Deployment web, 15 replicas",
        "  calculated: percentage = 10 % of 15 replicas, rounded down = 1",
        "  calculated: size = 1",
        "  one chunk: cpu 500m, memory 1Gi",
        "  together: cpu 500m, memory 1Gi",
        "  AttributesSetSuccessfully: 1 chunks of cpu 500m, memory 1Gi",
        "  virtual pods: capacitybuffer-spare-0",
    ]
    assert main(["explain", "buffer", "-f", str(file), "--sizing", "upstream", "--output", "json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)
    assert (answer["size"], answer["virtualPods"]) == (2, ["capacitybuffer-spare-0", "capacitybuffer-spare-1"])


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{WORKLOAD}---{BUFFER}"))
    assert main(["explain", "buffer", "-f", "-"]) == 0
    assert "CapacityBuffer default/spare" in capsys.readouterr().out


def test_what_is_missing_or_limits_is_said_and_ends_with_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quota = (
        "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: team}\nspec: {hard: {pods: 1}}\n"
        "status: {used: {pods: 1}}\n"
    )
    file = tmp_path / "some.yaml"
    file.write_text(BUFFER)
    assert main(["explain", "buffer", "-f", str(file)]) == 1
    assert "ScalableRefNotFound: Deployment web is not in namespace default" in capsys.readouterr().out
    file.write_text(f"{WORKLOAD}---{BUFFER}---\n{quota}")
    assert main(["explain", "buffer", "-f", str(file)]) == 0
    assert "quota: ResourceQuota team (pods) admits 0 of 1 chunks" in capsys.readouterr().out
    file.write_text(WORKLOAD)
    assert main(["explain", "buffer", "-f", str(file)]) == 1
    assert "there is no CapacityBuffer in it" in capsys.readouterr().err


def test_an_object_that_cannot_be_read_is_named_and_the_others_are_answered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "odd.yaml"
    file.write_text(
        f"{WORKLOAD}---{BUFFER}---{BUFFER.replace('spare', 'odd').replace('percentage: 10', 'replicas: many')}"
    )
    assert main(["explain", "buffer", "-f", str(file)]) == 1
    told = capsys.readouterr()
    assert "CapacityBuffer default/spare" in told.out
    assert "CapacityBuffer default/odd" in told.err


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("simple", {"default/headroom": 3}),
        ("deployment", {"default/web": 5}),
        ("percentage", {"default/search": 6}),
        ("several", {"default/large-jobs": 2, "default/small-jobs": 16}),
        ("scheduled", {"default/desks": 1}),
    ],
)
def test_the_examples_have_the_sizes_their_comments_say(
    name: str, sizes: dict[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "buffer", "-f", str(EXAMPLES / f"{name}.yaml"), "--output", "json"]) == 0
    assert {answer["buffer"]: answer["size"] for answer in json.loads(capsys.readouterr().out)} == sizes


def test_every_example_is_read_whole() -> None:
    for path in sorted(EXAMPLES.glob("*.yaml")):
        assert read_world(path.read_text())[1] == [], path.name
