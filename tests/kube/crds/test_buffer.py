"""The CapacityBuffer definition: the standard's fields in both versions, bounded, with a scale; the shipped files are
the same.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from growth.cli import main
from growth.kube.crds.buffer import buffer_definition

ROOT = Path(__file__).parents[3]
Json = dict[str, Any]


def versions() -> dict[str, Json]:
    return {each["name"]: each for each in buffer_definition()["spec"]["versions"]}


def test_both_versions_are_served_with_one_schema_and_the_newer_is_stored() -> None:
    found = versions()
    assert {name: (each["served"], each["storage"]) for name, each in found.items()} == {
        "v1beta1": (True, True),
        "v1alpha1": (True, False),
    }
    assert found["v1alpha1"]["schema"] == found["v1beta1"]["schema"]


def test_a_buffer_can_be_scaled_through_its_subresource() -> None:
    for each in versions().values():
        assert each["subresources"] == {
            "status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
        }


def test_counts_are_not_negative_and_references_are_exclusive() -> None:
    spec = versions()["v1beta1"]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert [spec["properties"][name]["minimum"] for name in ("replicas", "percentage")] == [0, 0]
    assert {rule["rule"] for rule in spec["x-kubernetes-validations"]} == {
        "!(has(self.podTemplateRef) && has(self.scalableRef))",
        "has(self.podTemplateRef) || has(self.scalableRef)",
        "!has(self.podTemplateRef) || has(self.replicas) || has(self.limits)",
    }


def test_growth_crds_prints_it_only_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["crds", "--capacity-buffers"]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == buffer_definition()
    assert main(["crds"]) == 0
    printed = [each["metadata"]["name"] for each in yaml.safe_load_all(capsys.readouterr().out)]
    assert printed
    assert buffer_definition()["metadata"]["name"] not in printed


@pytest.mark.parametrize(
    "path", ["deploy/crds/optional/capacitybuffers.yaml", "deploy/chart/generated/capacitybuffers.yaml"]
)
def test_the_shipped_files_are_up_to_date(path: str) -> None:
    assert yaml.safe_load((ROOT / path).read_text()) == buffer_definition()
