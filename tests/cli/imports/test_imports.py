"""`growth import`: the pools of other tools become pools that the API server takes, and nothing is dropped unsaid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from growth.cli import main
from growth.kube.codec import Codec
from growth.model.nodepool import DisruptionBudget, NodePool, PoolTaint, ServerTypeChoice

EXAMPLES = Path("docs/examples/import")


def imported(capsys: pytest.CaptureFixture[str], *typed: str) -> tuple[dict[str, NodePool], str]:
    assert main(["import", *typed]) == 0
    text = capsys.readouterr().out
    pools = {}
    for item in yaml.safe_load_all(text):
        if item:
            noun = Codec().decode("NodePool", msgspec.json.encode(item)).noun
            assert isinstance(noun, NodePool)
            pools[noun.name] = noun
    return pools, text


def written(folder: Path, *items: dict[str, Any]) -> str:
    file = folder / "given.yaml"
    file.write_text(yaml.safe_dump_all(items))
    return str(file)


def test_karpenters_pool_becomes_growths(capsys: pytest.CaptureFixture[str]) -> None:
    file = str(EXAMPLES / "karpenter.yaml")
    pools, text = imported(capsys, "karpenter", "-f", file, "--server-types", "CX32, CX42")
    spec = pools["default"].spec
    assert [each.name for each in spec.server_types] == ["CX32", "CX42"]
    assert (spec.priority, spec.limits.cpu, spec.limits.memory) == (10, "200", "800Gi")
    assert (spec.consolidation, spec.scale_down_delay_seconds, spec.expire_after_seconds) == ("Full", 60, 2_592_000)
    assert spec.budgets == (DisruptionBudget("20%"), DisruptionBudget("0", "0 9 * * 1-5", 28_800))
    assert (dict(spec.labels), spec.architectures) == ({"team": "shop"}, ("amd64",))
    assert spec.taints == (PoolTaint("shop", "NoSchedule"),)
    assert "# not taken over: requirement karpenter.k8s.aws/instance-category In c, m" in text
    assert "providerSettings" in text


def test_flags_of_cluster_autoscaler_become_pools_and_settings(capsys: pytest.CaptureFixture[str]) -> None:
    pools, text = imported(capsys, "cluster-autoscaler", "-f", str(EXAMPLES / "cluster-autoscaler.txt"))
    assert pools["pool1"].spec.server_types == (ServerTypeChoice("CPX51", 1, 10),)
    assert pools["arm"].spec.locations == ("hel1",)
    assert pools["arm"].spec.scale_down_delay_seconds == 300
    assert pools["arm"].spec.readiness_wait_seconds == 600
    assert "#       nodes: 12" in text
    assert "# not taken over: --expander=least-waste" in text


def test_its_flags_are_found_in_its_deployment_and_groups_get_the_types_that_are_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    container = {"command": ["./cluster-autoscaler"], "args": ["--nodes=2:8:my_group", "--scale-down-enabled=false"]}
    deployment = {"kind": "Deployment", "spec": {"template": {"spec": {"containers": [container]}}}}
    file = written(tmp_path, deployment)
    pools, text = imported(capsys, "cluster-autoscaler", "-f", file, "--server-types", "CX32,CX42")
    spec = pools["my-group"].spec
    assert ([each.name for each in spec.server_types], spec.limits.nodes) == (["CX32", "CX42"], 8)
    assert spec.consolidation == "Off"
    assert "it kept at least 2 nodes" in text


def test_a_pool_that_cannot_be_applied_as_it_is_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = written(tmp_path, {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "any"}})
    assert main(["import", "karpenter", "-f", file]) == 0
    told = capsys.readouterr().out
    assert "# it names no server types: write what it may buy, or name them with --server-types" in told
    assert "# cannot be applied as it is: " in told


def test_never_consolidating_is_off_and_a_budget_for_one_reason_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    disruption = {"consolidateAfter": "Never", "budgets": [{"nodes": "1", "reasons": ["Drifted"]}]}
    item = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "calm"},
        "spec": {"disruption": disruption},
    }
    pools, text = imported(capsys, "karpenter", "-f", written(tmp_path, item), "--server-types", "CX32")
    assert pools["calm"].spec.consolidation == "Off"
    assert "not taken over: a budget for Drifted alone" in text


@pytest.mark.parametrize(("text", "words"), [("--nodes=ten:x", "as in 1:10:name"), ("--v=4", "nothing in it")])
def test_what_makes_no_pool_is_refused(
    text: str, words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "flags"
    file.write_text(text)
    assert main(["import", "cluster-autoscaler", "-f", str(file)]) == 1
    assert words in capsys.readouterr().err
