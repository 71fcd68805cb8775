"""`growth fits`: cases in, answers out, for scripts and for people."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth.cli.app import main
from growth.cli.fits import Answer, Unanswered, answer_line
from growth.kube.codec import Codec
from tests.oracle.batches import make_cases

Json = dict[str, Any]

NODES: list[Json] = [
    {"metadata": {"name": "plain"}, "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "10"}}},
    {
        "metadata": {"name": "gpu"},
        "spec": {"taints": [{"key": "gpu", "value": "true", "effect": "NoSchedule"}]},
        "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "10"}},
    },
    {"metadata": {"name": "large"}, "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "10"}}},
]
POD: Json = {
    "metadata": {"name": "new", "namespace": "default"},
    "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]},
}
CASE: Json = {"id": 7, "nodes": NODES, "pods": [], "pod": POD}


def answer(case: Json) -> Json:
    found: Json = json.loads(msgspec.json.encode(answer_line(json.dumps(case).encode(), Codec())))
    return found


def written(tmp_path: Path, *lines: str) -> str:
    path = tmp_path / "cases"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_an_answer_has_the_nodes_that_fit_and_the_first_reason_of_the_others() -> None:
    assert answer(CASE) == {
        "id": 7,
        "fits": ["large"],
        "fails": {
            "plain": ["resources", "insufficient cpu (needs 2, has 1)"],
            "gpu": ["toleration", "untolerated taint gpu=true:NoSchedule"],
        },
        "every": {
            "plain": {"NodeResourcesFit": ["resources", "insufficient cpu (needs 2, has 1)"]},
            "gpu": {"TaintToleration": ["toleration", "untolerated taint gpu=true:NoSchedule"]},
        },
    }


def test_bound_pods_count() -> None:
    bound = {**POD, "metadata": {"name": "old", "namespace": "default"}, "spec": {**POD["spec"], "nodeName": "large"}}
    assert answer({**CASE, "pods": [bound] * 4})["fits"] == []
    assert answer({**CASE, "pods": [bound] * 3})["fits"] == ["large"]


def test_a_pod_that_names_its_node_goes_there_or_nowhere() -> None:
    named = {**POD, "spec": {**POD["spec"], "nodeName": "plain"}}
    assert answer({**CASE, "pod": named})["fails"]["large"] == ["nodename", "not the requested node plain"]


def test_claims_volumes_classes_and_namespaces_are_seen() -> None:
    volume = {
        "metadata": {"name": "pv", "labels": {"topology.kubernetes.io/zone": "z1"}},
        "spec": {"claimRef": {"namespace": "default", "name": "data"}},
    }
    bind = {"pv.kubernetes.io/bind-completed": "yes"}
    claim = {
        "metadata": {"name": "data", "namespace": "default", "annotations": bind},
        "spec": {"volumeName": "pv"},
        "status": {"phase": "Bound"},
    }
    pod = {**POD, "spec": {**POD["spec"], "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}}
    nodes = [
        {**NODES[2], "metadata": {"name": zone, "labels": {"topology.kubernetes.io/zone": zone}}}
        for zone in ("z1", "z2")
    ]
    case = {"id": 1, "nodes": nodes, "pod": pod, "persistentVolumes": [volume], "persistentVolumeClaims": [claim]}
    assert answer(case)["fits"] == ["z1"]
    assert answer(case)["fails"]["z2"][0] == "volume"
    assert answer({**case, "persistentVolumeClaims": []})["fits"] == []


def test_malformed_objects_are_named_and_spoil_nothing_else() -> None:
    broken = {"metadata": {"name": "odd"}, "status": {"allocatable": {"cpu": "much"}}}
    found = answer({**CASE, "nodes": [*NODES, broken]})
    assert found["fits"] == ["large"]
    assert found["fails"]["odd"][0] == "malformed"
    assert "much" in found["malformed"][0]


def test_a_malformed_pod_fits_nowhere_and_says_why() -> None:
    found = answer(
        {**CASE, "pod": {**POD, "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "two"}}}]}}}
    )
    assert found["fits"] == []
    assert all(kind == "malformed" and "two" in words for kind, words in found["fails"].values())


def test_lines_in_and_lines_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, json.dumps(CASE), "", json.dumps({**CASE, "id": "second"}))
    assert main(["fits", path]) == 0
    assert [json.loads(line)["id"] for line in capsys.readouterr().out.splitlines()] == [7, "second"]


def test_a_line_that_cannot_be_read_ends_the_command_with_one_after_the_others_are_answered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, "{nonsense", '{"id": 3, "nodes": 5, "pod": {}}', json.dumps(CASE))
    assert main(["fits", path]) == 1
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [sorted(line) for line in lines[:2]] == [["error", "id"]] * 2
    assert lines[1]["id"] == 3
    assert lines[2]["fits"] == ["large"]


def test_a_table_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fits", written(tmp_path, json.dumps(CASE)), "--output", "table"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].strip() == "case 7"
    assert [line.split()[:3] for line in shown[1:5]] == [
        ["node", "fits", "kind"],
        ["large", "yes"],
        ["plain", "no", "resources"],
        ["gpu", "no", "toleration"],
    ]


def test_cases_come_from_standard_input_too() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "growth", "fits"], input=json.dumps(CASE), capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["fits"] == ["large"]


def test_answers_do_not_depend_on_the_hash_seed(tmp_path: Path) -> None:
    path = written(tmp_path, *(json.dumps(case) for case in make_cases("hash", 60)))
    runs = {
        subprocess.run(
            [sys.executable, "-m", "growth", "fits", path],
            capture_output=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=False,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(runs) == 1


def twisted(value: Any, random: Any) -> Any:
    """The same JSON with some parts replaced by others of any kind."""
    if random.random() < 0.03:
        return random.choice([None, -1, 2**70, 1e300, "", "x" * 300, "\x00", [], {}, [[]], {"a": {}}, True])
    if isinstance(value, dict):
        return {key: twisted(part, random) for key, part in value.items() if random.random() > 0.02}
    return [twisted(part, random) for part in value] if isinstance(value, list) else value


@given(st.randoms(use_true_random=False), st.integers(0, 500))
def test_whatever_the_objects_hold_there_is_an_answer(random: Any, seed: int) -> None:
    case = twisted(make_cases(f"twisted-{seed}", 1)[0], random)
    found = answer_line(json.dumps(case).encode(), Codec())
    if isinstance(found, Answer):
        assert not set(found.fits) & set(found.fails)
        assert all(kind and all(words) for kind, *words in found.fails.values())
    else:
        assert isinstance(found, Unanswered)
        assert found.error


@given(st.binary(max_size=60))
def test_whatever_the_bytes_there_is_an_answer(line: bytes) -> None:
    assert isinstance(answer_line(line, Codec()), Answer | Unanswered)
