"""May this node go? The table of cases, row by row: what is on the node, what remains, the answer."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from growth.model.labels import HOSTNAME, ZONE, Labels, NodeSelectorTerm, Requirement
from growth.model.node import SCALE_DOWN_TAINT, Node, Taint
from growth.model.pod import HostPort, Owner, Pod, PreferredPods, TopologySpread, VolumeUse
from growth.model.resources import Resources
from growth.model.snapshot import VolumeWorld
from growth.model.volumes import Claim, Volume
from growth.solver.existing.what_if import Verdict, WhatIf
from tests.solver.rules.scenes import GPU, apps, near, node, pod, term, tolerates

GONE = node("gone", cpu=32)
TOLERANT = tolerates("gpu", "true", "NoSchedule")
ANY = tolerates(operator="Exists")
WEB_APART: dict[str, Any] = {"anti_affinity": (near("web"),)}


def moved(name: str = "p", **fields: Any) -> Pod:
    """A pod on the node that shall go."""
    return pod(name, "gone", **fields)


def asked(
    movers: list[Pod], remaining: list[Node], others: tuple[Pod, ...] = (), gone: Node = GONE, **world: Any
) -> Verdict:
    return WhatIf.once([gone, *remaining], [*movers, *others], **world).judge([gone.name])


def answer(verdict: Verdict) -> str:
    return "ALLOW" if verdict.block is None else f"BLOCK, {verdict.block.check_type.removeprefix('rescheduling_')}"


def moves(verdict: Verdict) -> list[tuple[str, str]]:
    """Each pod, and the node it goes to."""
    return [(mover.name, target) for mover, target in zip(verdict.movers, verdict.targets, strict=True)]


def labelled(**labels: str) -> Node:
    return node("a", labels=labels)


def zoned_claim(zone: str) -> VolumeWorld:
    where = (NodeSelectorTerm((Requirement(ZONE, "In", (zone,)),)),)
    return VolumeWorld(
        claims={"default/data": Claim("default", "data", "volume-1", is_bound=True)},
        volumes={"volume-1": Volume("volume-1", node_affinity=where, claim="default/data", phase="Bound")},
    )


TABLE: dict[str, tuple[list[Pod], list[Node], tuple[Pod, ...], str]] = {
    "tolerated taint only": ([moved(tolerations=(TOLERANT,))], [node("a", taints=(GPU,))], (), "ALLOW"),
    "tolerations never require": ([moved(tolerations=(TOLERANT,))], [node("a")], (), "ALLOW"),
    "another value": (
        [moved(tolerations=(TOLERANT,))], [node("a", taints=(Taint("gpu", "false"),))], (), "BLOCK, toleration",
    ),
    "no toleration, NoSchedule": ([moved()], [node("a", taints=(GPU,))], (), "BLOCK, toleration"),
    "no toleration, NoExecute": (
        [moved()], [node("a", taints=(Taint("gpu", "", "NoExecute"),))], (), "BLOCK, toleration",
    ),
    "PreferNoSchedule": ([moved()], [node("a", taints=(Taint("gpu", "", "PreferNoSchedule"),))], (), "ALLOW"),
    "Exists tolerates any": (
        [moved(tolerations=(ANY,))], [node("a", taints=(GPU, Taint("x", "y", "NoExecute")))], (), "ALLOW",
    ),
    "effect before wildcard": (
        [moved(tolerations=(tolerates(operator="Exists", effect="NoExecute"),))],
        [node("a", taints=(GPU,))], (), "BLOCK, toleration",
    ),
    "unknown operator": (
        [moved(tolerations=(tolerates("gpu", "true", operator="Near"),))],
        [node("a", taints=(GPU,))], (), "BLOCK, toleration",
    ),
    "selector present": ([moved(node_selector=Labels({"disktype": "ssd"}))], [labelled(disktype="ssd")], (), "ALLOW"),
    "selector absent": ([moved(node_selector=Labels({"disktype": "ssd"}))], [node("a")], (), "BLOCK, nodeselector"),
    "anti-affinity, no match there": ([moved(**WEB_APART)], [node("a")], (pod("x", "a", app="db"),), "ALLOW"),
    "anti-affinity, a match there": ([moved(**WEB_APART)], [node("a")], (pod("x", "a"),), "BLOCK, antiaffinity"),
    "preferred anti-affinity": (
        [moved(preferred_anti_affinity=(PreferredPods(100, near("web")),))], [node("a")], (pod("x", "a"),), "ALLOW",
    ),
    "symmetry": ([moved()], [node("a")], (pod("x", "a", app="db", **WEB_APART),), "BLOCK, antiaffinity"),
    "five apart, four nodes": (
        [moved(f"p{n}", **WEB_APART) for n in range(5)], [node(f"n{n}") for n in range(4)], (), "BLOCK, antiaffinity",
    ),
    "five apart, five nodes": (
        [moved(f"p{n}", **WEB_APART) for n in range(5)], [node(f"n{n}") for n in range(5)], (), "ALLOW",
    ),
    "anti-affinity by zone": (
        [moved(anti_affinity=(near("web", key=ZONE),))],
        [node("a", "z2"), node("b", "z2")], (pod("x", "b"),), "BLOCK, antiaffinity",
    ),
    "NotIn on a missing label": (
        [moved(node_affinity=(term(Requirement("tier", "NotIn", ("x",))),))], [node("a")], (), "ALLOW",
    ),
    "an empty term": ([moved(node_affinity=(term(),))], [node("a")], (), "BLOCK, nodeaffinity"),
    "two of 3 cpu, one node": ([moved("p", cpu=3), moved("q", cpu=3)], [node("a")], (), "BLOCK, capacity"),
    "two of 3 cpu, two nodes": ([moved("p", cpu=3), moved("q", cpu=3)], [node("a"), node("b")], (), "ALLOW"),
    "affinity, a db in the zone": (
        [moved(affinity=(near("db", key=ZONE),))], [node("a")], (pod("x", "a", app="db"),), "ALLOW",
    ),
    "affinity, none": ([moved(affinity=(near("db", key=ZONE),))], [node("a")], (), "BLOCK, affinity"),
    "affinity, only itself": ([moved(app="db", affinity=(near("db", key=ZONE),))], [node("a")], (), "ALLOW"),
    "pod count": ([moved()], [node("a", pods=1)], (pod("x", "a"),), "BLOCK, resources"),
    "Gt 5, label 10": (
        [moved(node_affinity=(term(Requirement("size", "Gt", ("5",))),))], [labelled(size="10")], (), "ALLOW",
    ),
    "Gt 5, label abc": (
        [moved(node_affinity=(term(Requirement("size", "Gt", ("5",))),))],
        [labelled(size="abc")], (), "BLOCK, nodeaffinity",
    ),
    "nothing left": ([moved()], [], (), "BLOCK, no_nodes"),
    "only cordoned and not ready": (
        [moved()], [node("a", is_unschedulable=True), node("b", is_ready=False)], (), "BLOCK, no_nodes",
    ),
    "only a marked node, whatever is tolerated": (
        [moved(tolerations=(ANY,))], [node("a", pool="web", taints=(SCALE_DOWN_TAINT,))], (), "BLOCK, no_nodes",
    ),
    "only a stranger's node with that taint, which is tolerated": (
        [moved(tolerations=(ANY,))], [node("a", taints=(SCALE_DOWN_TAINT,))], (), "ALLOW",
    ),
    "host port taken everywhere": (
        [moved(host_ports=(HostPort(80),))], [node("a"), node("b")],
        (pod("x", "a", host_ports=(HostPort(80),)), pod("y", "b", host_ports=(HostPort(80),))), "BLOCK, hostport",
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", TABLE)
def test_the_table_of_cases(row: str) -> None:
    movers, remaining, others, expected = TABLE[row]
    assert answer(asked(movers, remaining, others)) == expected


def test_pods_of_4_3_and_3_cpu_need_another_order_than_first_fit() -> None:
    movers, remaining = [moved("p", cpu=4), moved("q", cpu=3), moved("r", cpu=3)], [node("a", cpu=6), node("b", cpu=4)]
    found = asked(movers, remaining, headroom=0.0)
    assert dict(moves(found)) == {"default/p": "b", "default/q": "a", "default/r": "a"}
    assert answer(asked(movers, remaining)) == "BLOCK, capacity"


def test_a_volume_in_zone_a_does_not_move_to_zone_b() -> None:
    mover = moved(volumes=(VolumeUse("data"),))
    assert answer(asked([mover], [node("a", "zone-b")], volumes=zoned_claim("zone-a"))) == "BLOCK, volume"
    assert answer(asked([mover], [node("a", "zone-a")], volumes=zoned_claim("zone-a"))) == "ALLOW"


def test_topology_spread_that_would_be_exceeded_blocks() -> None:
    spread = {"spread": (TopologySpread(1, ZONE, selector=apps("web")),)}
    staying = (pod("x", "a"), pod("y", "b"))
    remaining = [node("a", "z1", pods=2), node("b", "z2")]
    assert (
        answer(asked([moved("p", **spread), moved("q", **spread)], remaining, staying)) == "ALLOW"
    )  # one to each zone
    empty_zone = node("c", "z3", is_unschedulable=True)  # counts as a domain, takes nobody
    assert answer(asked([moved("p", **spread)], [*remaining, empty_zone], staying)) == "BLOCK, spread"


def test_daemon_set_mirror_finished_and_leaving_pods_need_no_place() -> None:
    huge = moved(cpu=30)
    skipped = [
        replace(huge, owner=Owner("DaemonSet", "agent")),
        replace(huge, is_mirror=True),
        replace(huge, phase="Succeeded"),
        replace(huge, phase="Failed"),
        replace(huge, deleted_at=1.0),
    ]
    assert answer(asked(skipped, [node("a")])) == "ALLOW"
    assert answer(asked([*skipped, huge], [node("a")])) == "BLOCK, capacity"


def test_pod_affinity_to_a_pod_that_moves_too_is_found_by_moving_that_one_first() -> None:
    needy = moved("a-needs-db", app="web", affinity=(near("db"),))
    database = moved("z-db", app="db")
    assert answer(asked([needy, database], [node("a"), node("b")])) == "ALLOW"


def test_all_resources_are_looked_at_and_devices_need_no_fraction_of_one_as_headroom() -> None:
    def with_gpus(count: int) -> Node:
        return replace(
            node("a"), allocatable=Resources({"cpu": 4000, "memory": 2**33, "pods": 110, "nvidia.com/gpu": count})
        )

    mover = replace(moved(), shape=replace(moved().shape, requests=Resources({"cpu": 100, "nvidia.com/gpu": 1})))
    assert answer(asked([mover], [with_gpus(1)])) == "ALLOW"
    assert answer(asked([mover], [with_gpus(0), node("b")])) == "BLOCK, capacity"


def test_hostname_spread_is_judged_as_if_the_node_were_gone() -> None:
    apart: dict[str, Any] = {"spread": (TopologySpread(1, HOSTNAME, selector=apps("web")),)}
    assert (
        answer(asked([moved(**apart)], [node("a"), node("b")], (pod("x", "a", **apart), pod("y", "b", **apart))))
        == "ALLOW"
    )


def test_a_selector_that_no_key_had_before_splits_classes_and_changes_no_answer() -> None:
    others = tuple(pod(f"x{n}", "a", app=f"app-{n}") for n in range(3))
    picky = moved(anti_affinity=(near("app-1"),))
    assert answer(asked([picky], [node("a"), node("b")], others)) == "ALLOW"
