"""A cluster that is followed answers every what-if as one that is made anew, whatever came, changed and went before."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from growth.model.labels import HOSTNAME, ZONE, Labels, LabelSelector, Requirement
from growth.model.node import Node, Taint
from growth.model.pod import HostPort, Owner, Pod, TopologySpread
from growth.solver.existing.cluster import Cluster
from growth.solver.existing.what_if import Holding, Verdict, WhatIf
from tests.solver.rules.scenes import apps, near, node, pod, shape

World = tuple[dict[str, Node], dict[str, tuple[Pod, ...]], tuple[Holding, ...]]
TIER = LabelSelector((Requirement("tier", "In", ("front",)),))
RULES: tuple[dict[str, Any], ...] = (
    *({},) * 6,
    {"anti_affinity": (near("web"),)},
    {"affinity": (near("db", key=ZONE),)},
    {"spread": (TopologySpread(1, HOSTNAME, selector=apps("web")),)},
    {"spread": (TopologySpread(1, ZONE, "ScheduleAnyway", TIER),)},
    {"host_ports": (HostPort(80),)},
    {"node_selector": Labels({ZONE: "z1"})},
)


class Story:
    """Nodes and pods come, change and go."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, tuple[Pod, ...]] = {}
        self.made = 0
        for _ in range(6):
            self.node_comes()
        for _ in range(20):
            self.pod_comes()

    def worlds(self) -> Iterator[World]:
        changes = (self.pod_comes, self.pod_comes, self.pod_goes, self.pod_goes, self.pod_is_deleted)
        for _ in range(12):
            for _ in range(self.chance.randint(0, 4)):
                self.chance.choice((*changes, *changes, self.node_comes, self.node_changes, self.node_goes))()
            waiting = [Holding("waiting", self.some_shape(), 2)] if self.chance.random() < 0.3 else []
            yield dict(self.nodes), dict(self.pods), tuple(waiting)

    def some_shape(self) -> Any:
        app, rules = self.chance.choice(("web", "db")), self.chance.choice(RULES)
        made = shape(app, self.chance.choice((0, 1, 1, 2)), **rules)
        more = {"tier": self.chance.choice(("front", "back")), "hash": self.chance.choice("abc")}
        return replace(made, labels=Labels({**made.labels, **more}))

    def pod_comes(self) -> None:
        if self.nodes:
            self.made += 1
            name = self.chance.choice(list(self.nodes))
            owner = Owner("DaemonSet" if self.chance.random() < 0.1 else "ReplicaSet", "of", "uid-of")
            came = replace(pod(f"p{self.made}", name), shape=self.some_shape(), owner=owner)
            self.pods[name] = (*self.pods.get(name, ()), came)

    def pod_goes(self) -> None:
        name = self.chance.choice(list(self.pods) or [""])
        self.pods[name] = tuple(each for each in self.pods.get(name, ()) if self.chance.random() < 0.5)

    def pod_is_deleted(self) -> None:
        name = self.chance.choice(list(self.pods) or [""])
        self.pods[name] = tuple(replace(each, deleted_at=1.0) for each in self.pods.get(name, ()))

    def node_comes(self) -> None:
        self.made += 1
        name = f"n{self.made}"
        self.nodes[name] = node(name, self.chance.choice(("z1", "z2")), self.chance.choice((3, 4, 6)))

    def node_changes(self) -> None:
        for name in self.chance.sample(list(self.nodes), min(1, len(self.nodes))):
            taints = self.chance.choice(((), (Taint("gpu", "true"),)))
            is_ready, is_closed = self.chance.random() < 0.7, self.chance.random() < 0.3
            self.nodes[name] = replace(self.nodes[name], taints=taints, is_ready=is_ready, is_unschedulable=is_closed)

    def node_goes(self) -> None:
        self.nodes.pop(self.chance.choice(list(self.nodes) or [""]), None)


def answers(cluster: Cluster, world: World) -> list[Any]:
    """Of every node alone; and again after one that may go has gone."""
    nodes, pods, holdings = world
    cluster.follow(nodes, pods, shapes=[each.shape for each in holdings])
    what_if = WhatIf(cluster, holdings=holdings, leaving=[*nodes][:1], headroom=0.0)
    found = [what_if.judge([name]) for name in nodes]
    for verdict in [each for each in found if each.may_go][:1]:
        what_if.keep(verdict)
        found += [what_if.judge([name]) for name in nodes if name not in verdict.nodes]
    return [what_if.without_room, *map(told, found)]


def told(verdict: Verdict) -> tuple[object, ...]:
    return verdict.nodes, verdict.block, [mover.name for mover in verdict.movers], verdict.targets


@pytest.mark.parametrize("seed", range(120))
def test_a_cluster_that_is_followed_answers_as_one_made_anew(seed: int) -> None:
    followed = Cluster()
    for world in Story(seed).worlds():
        assert answers(followed, world) == answers(Cluster(), world)


def test_what_a_what_if_tried_is_taken_back_when_the_cluster_is_followed_again() -> None:
    nodes = {name: node(name) for name in "abc"}
    pods = {"a": (pod("x", "a", cpu=3),), "b": (pod("y", "b", cpu=3),)}
    cluster = Cluster()
    for _ in range(2):
        cluster.follow(nodes, pods)
        what_if = WhatIf(cluster, headroom=0.0)
        verdict = what_if.judge(["a"])
        assert verdict.targets == ("c",)
        what_if.keep(verdict)
        assert not what_if.judge(["b"]).may_go


def test_a_trial_is_taken_back_and_begins_as_if_nothing_had_been_asked() -> None:
    what_if = WhatIf.once([node(name) for name in "abc"], [pod("x", "a", cpu=3), pod("y", "b", cpu=3)], headroom=0.0)
    before = what_if.judge(["b"])
    with what_if.trial():
        what_if.keep(what_if.judge(["a"]))
        assert not what_if.judge(["b"]).may_go
    assert told(what_if.judge(["b"])) == told(before)


def test_an_index_that_was_interrupted_begins_anew() -> None:
    nodes, cluster = {"a": node("a"), "b": node("b")}, Cluster()
    cluster.follow(nodes, {"a": (pod("x", "a", cpu=3),)})

    class Broken(dict[str, tuple[Pod, ...]]):
        def get(self, key: str, default: Any = None) -> Any:
            if key == "b":
                raise ValueError("a mistake")
            return ()

    with pytest.raises(ValueError, match="a mistake"):
        cluster.follow(nodes, Broken())
    assert cluster.follow(nodes, {"a": (pod("x", "a", cpu=3),)}).is_anew
    assert WhatIf(cluster, headroom=0.0).judge(["a"]).targets == ("b",)
