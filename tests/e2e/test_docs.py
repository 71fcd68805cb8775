"""The pages, walked literally on a real control plane: every command that can run, runs, and prints what the page says.
Blocks that cannot run say so in the page, with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.chart import Helm
from tests.e2e.controlplane.cluster import ControlPlane
from tests.e2e.manifests import deployment
from tests.e2e.running import install, node_pool
from tests.e2e.walking import ROOT, Walk, blocks_of, missing_line

pytestmark = pytest.mark.timeout(300)

PAGES = (
    *("README.md", "docs/start/first-steps.md", "docs/guides/on-a-cluster.md", "docs/guides/install.md"),
    *("docs/guides/plan.md", "docs/guides/page.md", "docs/guides/buffers.md", "docs/guides/simulate.md"),
    *("docs/guides/hetzner.md", "docs/guides/warm-pools.md", "docs/guides/why-is-this-node-still-here.md"),
)


@pytest.fixture
def walk(cluster: ControlPlane, tmp_path: Path, helm: Helm) -> Iterator[Walk]:
    made = Walk(cluster, tmp_path, helm.binary)
    yield made
    made.end()


def growths_own(cluster: ControlPlane) -> list[str]:
    """What growth installed, by its name."""
    kinds = ("crd", "validatingadmissionpolicies", "validatingadmissionpolicybindings", "clusterroles", "namespaces")
    names = [item["metadata"]["name"] for kind in kinds for item in cluster.objects(kind)]
    return [name for name in names if name.endswith("growth.dev") or name in ("growth", "growth-system")]


def test_on_a_cluster_leads_from_nothing_to_running_pods_and_back_to_nothing(walk: Walk, cluster: ControlPlane) -> None:
    walk.page("docs/guides/on-a-cluster.md")
    cluster.wait_until(lambda: growths_own(cluster) == [], "everything of growth is gone")
    assert len(cluster.objects("nodes")) > 0, "nodes stay"


def test_install_leads_to_a_release_and_back_to_nothing(walk: Walk, cluster: ControlPlane) -> None:
    assert walk.page("docs/guides/install.md") > 5
    cluster.wait_until(lambda: growths_own(cluster) == [], "everything of growth is gone", 60)


def test_helm_takes_over_what_was_applied_before(walk: Walk, cluster: ControlPlane) -> None:
    page = (ROOT / "docs/guides/install.md").read_text()
    [command] = [block.code for block in blocks_of(page) if "helm install growth" in block.code]
    flags = re.findall(r"`(--take-ownership[^`]*)`", page)[0]
    walk.run("growth crds | kubectl apply --server-side -f -\ngrowth role --provider kwok | kubectl apply -f -")
    walk.run(f"{command.rstrip()} {flags}")
    [role] = [item for item in cluster.objects("clusterroles") if item["metadata"]["name"] == "growth"]
    assert role["metadata"]["annotations"]["meta.helm.sh/release-name"] == "growth"


@pytest.mark.parametrize("page", PAGES[4:])
def test_the_commands_of_other_pages_work_as_they_stand(walk: Walk, cluster: ControlPlane, page: str) -> None:
    """In a cluster with growth's kinds, a pool named default and a Deployment named web."""
    install(cluster)
    cluster.apply(node_pool("default", "CX33"), deployment("web", 2, cpu="500m", memory="512Mi"))
    commands = [block for block in blocks_of((ROOT / page).read_text()) if block.language == "sh"]
    assert walk.page(page) == sum(not block.how.startswith("not run") for block in commands)


def test_every_example_is_taken_by_the_api_server(walk: Walk) -> None:
    walk.run("growth crds | kubectl apply --server-side -f -\ngrowth crds --capacity-buffers | kubectl create -f -")
    walk.run("kubectl wait --for=condition=Established crd --all --timeout=30s")
    for folder in ("pools", "warm-pools", "buffers"):
        assert "serverside-applied" in walk.run(f"kubectl apply --server-side -f docs/examples/{folder}/")
    walk.run("kubectl apply --server-side -f deploy/examples/hetzner/pool.yaml --force-conflicts")


@pytest.mark.parametrize("page", PAGES)
def test_every_block_is_walked_or_says_why_not(page: str) -> None:
    hows = {block.how.split(",")[0] for block in blocks_of((ROOT / page).read_text()) if block.language == "sh"}
    assert hows <= {"", "stays", "Ctrl-C", "not run"}


def test_numbers_spaces_and_what_is_left_out_do_not_matter_but_words_do() -> None:
    assert missing_line("3 nodes   for 0.05\n…\n", "12 nodes for 1.0625\n") == ""
    assert missing_line("ok  pools  …", "one\nok   pools can buy\n") == ""
    assert missing_line("a\nb", "b\na\n") == "b"
    assert missing_line("3 nodes", "3 pods") == "3 nodes"
