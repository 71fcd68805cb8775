"""Prepared situations that people ask about: the real cause stands in the first sentence."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from growth.controllers.ask.explain import why_node, why_pod
from growth.model.labels import LabelSelector, Requirement
from growth.model.node import DO_NOT_DISRUPT
from growth.model.nodepool import PAUSED, NodePool, PoolTaint
from growth.model.pod import Owner, Pod, PodAffinityTerm, VolumeUse
from growth.model.settings import Settings
from tests.plan.builders import bound, limited, node, offering, pod, pool, world
from tests.plan.nodes_down.test_what_if import budget
from tests.plan.world.test_brake import nodes as well_and_ill
from tests.plan.world.test_trials import in_vain, pool_with

SMALL = offering("small", 2, 4096, 0.01)
WEB = LabelSelector((Requirement("app", "In", ("web",)),))
ZONE = "topology.kubernetes.io/zone"
MINE = Owner("ReplicaSet", "web")


def of_pod(of: Pod, *pools: NodePool, settings: Settings | None = None, **fields: Any) -> str:
    others = fields.pop("others", ())
    return why_pod(
        of, world((of, *others), pools or [pool()], fields.pop("sold", [SMALL]), **fields), settings or Settings()
    ).answer


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (of_pod(pod("a", node_selector={"growth.dev/pool": "gpuu"})), "NodePool gpuu does not exist"),
        (
            of_pod(pod("a"), pool("default", taints=(PoolTaint("gpu", "NoSchedule"),))),
            "untolerated taint gpu:NoSchedule",
        ),
        (of_pod(pod("a", node_selector={"disk": "sdd"})), "node selector disk=sdd"),
        (of_pod(pod("a", devices={"nvidia.com/gpu": 1})), "nvidia.com/gpu"),
        (
            of_pod(
                pod("a", 2),
                pool("default", limited("small", 1)),
                nodes=[node("n", of=SMALL)],
                others=[bound(pod("b", 2), "n")],
            ),
            "max 1",
        ),
        (of_pod(pod("a"), pool_with(in_vain=in_vain(10, 20, 30))), "NodePool default is failing"),
        (of_pod(pod("a"), settings=Settings(is_paused=True)), "growth is paused"),
        (of_pod(pod("a"), pool(annotations={PAUSED: "true"})), "NodePool default is paused"),
        (of_pod(pod("a", volumes=(VolumeUse("data"),))), "data"),
        (of_pod(replace(pod("a"), is_gated=True)), "waits for its scheduling gates"),
        (of_pod(pod("a", affinity=(PodAffinityTerm(ZONE, WEB),))), "affinity"),
    ],
)
def test_a_pod_hears_the_cause_first(answer: str, cause: str) -> None:
    assert cause in answer, answer


def of_node(*pods: Pod, of: str = "here", mode: str = "Full", **fields: Any) -> str:
    here = node(of, of=SMALL, annotations=fields.pop("annotations", {}))
    nodes = [here, *fields.pop("nodes", [node("other", of=SMALL)])]
    return why_node(here, world(pods, [pool(consolidation=mode)], [SMALL], nodes, **fields), Settings()).answer


LIGHT = bound(pod("a", 0.1, 16, owner=MINE, labels={"app": "web"}), "here")


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (of_node(LIGHT, disruption_budgets={"default/web": budget(allowed=0)}), "PodDisruptionBudget default/web"),
        (of_node(LIGHT, annotations={DO_NOT_DISRUPT: "true"}), "must not be disrupted"),
        (of_node(LIGHT, nodes=well_and_ill(3, 3)), "NotReady"),
        (of_node(LIGHT, mode="WhenEmpty"), "gives back empty nodes only"),
    ],
)
def test_a_node_hears_the_cause_first(answer: str, cause: str) -> None:
    assert cause in answer, answer
