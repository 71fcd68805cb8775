"""Twenty prepared situations that people ask about: the real cause stands in the first sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from growth.cli.explain import answer_for, with_inaction
from growth.cli.explain.buffer import answer_in_cluster, in_a_sentence
from growth.controllers.ask.explain import why_node, why_pod
from growth.controllers.ask.premises import Installed, why_nobody_acts
from growth.kube.api.resources import LEASES
from growth.model.capacitybuffer import ResourceQuota
from growth.model.gang import GANG
from growth.model.instant import format_instant
from growth.model.labels import LabelSelector, Requirement
from growth.model.node import DO_NOT_DISRUPT
from growth.model.nodepool import PAUSED, NodePool, PoolTaint
from growth.model.pod import Owner, Pod, PodAffinityTerm, TopologySpread, VolumeUse
from growth.model.scheduler import SchedulerSettings
from growth.model.settings import Settings
from growth.sim.clock import run_virtual
from tests.controllers.ask.clinic import Clinic
from tests.plan.buffers.worlds import buffer, buffer_world
from tests.plan.builders import NOW, bound, limited, machine, node, offering, pod, pool, request, world
from tests.plan.nodes_down.test_what_if import budget
from tests.plan.world.test_brake import nodes as well_and_ill
from tests.plan.world.test_trials import in_vain, pool_with

SMALL = offering("small", 2, 4096, 0.01)
WEB = LabelSelector((Requirement("app", "In", ("web",)),))
ZONE = "topology.kubernetes.io/zone"
HERE = offering("small", 2, 4096, 0.01, labels={ZONE: "here"})
MINE = Owner("ReplicaSet", "web")
LABELS = {"app": "web"}
LIGHT = bound(pod("a", 0.1, 16, owner=MINE, labels=LABELS), "here")
FULL: dict[str, Any] = {"nodes": [node("n", of=SMALL)], "others": [bound(pod("b", 2), "n")]}
GROWTHS = Settings(scheduler=SchedulerSettings(enabled=True))


def of_pod(of: Pod, *pools: NodePool, settings: Settings | None = None, **fields: Any) -> str:
    others = fields.pop("others", ())
    here = world((of, *others), pools or [pool()], fields.pop("sold", [SMALL]), **fields)
    return why_pod(of, here, settings or Settings()).answer


def of_node(*pods: Pod, mode: str = "Full", **fields: Any) -> str:
    here = node("here", of=SMALL, annotations=fields.pop("annotations", {}))
    nodes = [here, *fields.pop("nodes", [node("other", of=SMALL)])]
    return why_node(here, world(pods, [pool(consolidation=mode)], [SMALL], nodes, **fields), Settings()).answer


def of_spread() -> str:
    """Two of its kind stand in the only zone where something is sold; another zone has none."""
    rule = TopologySpread(1, ZONE, selector=WEB)
    nodes = [node("n", of=HERE), node("far", "", labels={ZONE: "there"}, is_unschedulable=True)]
    others = [bound(pod(name, 1, labels=LABELS), "n") for name in ("b", "c")]
    return of_pod(pod("a", labels=LABELS, spread=(rule,)), sold=[HERE], nodes=nodes, others=others)


def of_anti_affinity() -> str:
    term = PodAffinityTerm(ZONE, WEB)
    others = [bound(pod("b", labels=LABELS), "n")]
    return of_pod(pod("a", anti_affinity=(term,)), sold=[HERE], nodes=[node("n", of=HERE)], others=others)


def of_unmet() -> str:
    left = request("r", SMALL, "Unmet", expires_at=format_instant(NOW + 60))
    return of_pod(pod("a"), requests=[left], machines=())


def of_gang() -> str:
    """Three start together, and the limit lets two have a node."""
    members = [pod(name, 2, scheduler_name="growth", annotations={GANG: "train"}) for name in "abc"]
    return of_pod(members[0], pool("default", limited("small", 2)), others=members[1:], settings=GROWTHS, machines=())


def of_buffer(pools: list[NodePool], **fields: Any) -> str:
    here = world((), pools, [SMALL], buffers=buffer_world([buffer(replicas=3)], **fields), machines=())
    return in_a_sentence(answer_in_cluster("default/spare", here, Settings()))


def of_quota() -> str:
    small = ResourceQuota("default", "small", hard={"requests.cpu": 1000}, used={"requests.cpu": 0})
    return of_buffer([pool()], quotas=[small])


def when_nobody_acts(acts: bool = True, lease: Mapping[str, Any] | None = None) -> str:
    async def ask() -> str:
        clinic = Clinic()
        await clinic.install()
        if lease is not None:
            spec = {**lease, "renewTime": format_instant(clinic.runtime.now() - 600)}
            meta = {"name": "growth", "namespace": "growth-system"}
            await clinic.client.create(LEASES, {"metadata": meta, "spec": spec})
        return await why_nobody_acts(clinic.client, Installed("kwok", "growth", "growth-system", acts=acts))

    waits = pod("a")
    return with_inaction(
        answer_for("pod", waits.key, world((waits,), [pool()], [SMALL]), Settings()), run_virtual(ask())
    ).answer


DEAD = {"holderIdentity": "gone-1", "leaseDurationSeconds": 15}
TAINTED = pool("default", taints=(PoolTaint("gpu", "NoSchedule"),))
SITUATIONS: Mapping[str, tuple[Callable[[], str], str]] = {
    "missing pool": (
        lambda: of_pod(pod("a", node_selector={"growth.dev/pool": "gpuu"})),
        "NodePool gpuu does not exist",
    ),
    "taint": (lambda: of_pod(pod("a"), TAINTED), "untolerated taint gpu:NoSchedule"),
    "selector typo": (lambda: of_pod(pod("a", node_selector={"disk": "sdd"})), "node selector disk=sdd"),
    "no GPU pool": (lambda: of_pod(pod("a", devices={"nvidia.com/gpu": 1})), "nvidia.com/gpu"),
    "limit": (
        lambda: of_pod(pod("a", 2), pool("default", limited("small", 1)), **FULL),
        "limit reached: max 1 of small",
    ),
    "Unmet": (of_unmet, "1 of 1 offerings of NodePool default are Unmet"),
    "BackOff": (lambda: of_pod(pod("a", 64)), "insufficient cpu (needs 64"),
    "Failing pool": (
        lambda: of_pod(pod("a"), pool_with(in_vain=in_vain(10, 20, 30))),
        "NodePool default is failing",
    ),
    "PDB": (
        lambda: of_node(LIGHT, disruption_budgets={"default/web": budget(allowed=0)}),
        "PodDisruptionBudget default/web",
    ),
    "anti-affinity": (of_anti_affinity, "anti-affinity"),
    "spread": (of_spread, "spread"),
    "claim": (lambda: of_pod(pod("a", volumes=(VolumeUse("data"),))), "data"),
    "do-not-disrupt": (lambda: of_node(LIGHT, annotations={DO_NOT_DISRUPT: "true"}), "must not be disrupted"),
    "buffer": (lambda: of_buffer([pool("default", limited("small", 1))]), "chunks have no room"),
    "quota": (of_quota, "ResourceQuota small (requests.cpu) admits 1 of 3 chunks"),
    "hopeless gang": (of_gang, "gang default/train: 3 more must start together, and 2 have a place"),
    "not leader": (lambda: when_nobody_acts(lease=DEAD), "no growth leads: gone-1 last renewed the Lease"),
    "brake": (lambda: of_node(LIGHT, nodes=well_and_ill(3, 3)), "NotReady"),
    "paused": (lambda: of_pod(pod("a"), pool(annotations={PAUSED: "true"})), "NodePool default is paused"),
    "observe": (lambda: when_nobody_acts(acts=False), "growth only observes, and changes nothing"),
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_the_cause_comes_first(name: str) -> None:
    ask, cause = SITUATIONS[name]
    assert cause in ask()


def test_there_are_twenty() -> None:
    assert len(SITUATIONS) == 20


MORE: Mapping[str, tuple[Callable[[], str], str]] = {
    "growth paused": (lambda: of_pod(pod("a"), settings=Settings(is_paused=True)), "growth is paused"),
    "gated": (lambda: of_pod(replace(pod("a"), is_gated=True)), "waits for its scheduling gates"),
    "affinity": (lambda: of_pod(pod("a", affinity=(PodAffinityTerm(ZONE, WEB),))), "affinity"),
    "empty nodes only": (lambda: of_node(LIGHT, mode="WhenEmpty"), "gives back empty nodes only"),
    "a node held for a buffer": (
        lambda: of_node(nodes=[], buffers=buffer_world([buffer(replicas=1)]), machines=[machine("here", SMALL)]),
        "it is spare room of CapacityBuffer default/spare",
    ),
    "never a leader": (when_nobody_acts, "no growth leads here: there is no Lease growth-system/growth"),
}


@pytest.mark.parametrize("name", MORE)
def test_so_it_does_in_others(name: str) -> None:
    ask, cause = MORE[name]
    assert cause in ask()


def test_what_is_so_whether_or_not_somebody_acts_is_told_as_it_is() -> None:
    standing = bound(pod("a"), "n")
    found = answer_for("pod", standing.key, world([standing], [pool()], [SMALL], [node("n", of=SMALL)]), Settings())
    assert with_inaction(found, "no growth leads").answer.startswith("it has its place")


def test_a_gang_that_can_start_is_planned_for_like_any_pod() -> None:
    members = [pod(name, 2, scheduler_name="growth", annotations={GANG: "train"}) for name in "ab"]
    answer = of_pod(members[0], others=members[1:], settings=GROWTHS, machines=())
    assert answer.startswith("planned onto a new")
