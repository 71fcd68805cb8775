"""What can a user do to the embedded cluster in the middle of a behaviour? Steps that may come too late, and do nothing
then. Used by `sim/stories/behaviours` and `worlds`, whose rows are of the class at the end."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

from msgspec import Struct

from growth.model.node import DO_NOT_DISRUPT, POOL_LABEL, SCALE_DOWN_TAINT
from growth.model.settings import Settings
from growth.sim.apiserver.kinds import BY_NAME, CLAIMED, NODE, POD, Json
from growth.sim.apiserver.objects import node_pool
from growth.sim.apiserver.refusal import Refusal
from growth.sim.clock import after
from growth.sim.cluster import Cluster
from growth.sim.faults.kinds import Fault

POOL, REQUEST, REMOVAL = (BY_NAME[name] for name in ("NodePool", "NodeRequest", "NodeRemovalRequest"))
DEPLOYMENT = BY_NAME["Deployment"]


class Script(Struct):
    """What a behaviour works with. `expected`: how many pods of an app can be hosted, if not all."""

    cluster: Cluster
    chance: random.Random
    lasts_seconds: float
    expected: dict[str, int] = {}
    plan_fault: Callable[[Fault], None] = lambda _fault: None

    def at(self, seconds: float, step: Callable[[], object]) -> None:
        """The step is attempted so long from now."""
        after(seconds, partial(_attempt, step))

    def at_some_time(self, step: Callable[[], object], earliest: float = 0.0) -> None:
        """Once, before the faults stop."""
        self.at(self.chance.uniform(earliest * self.lasts_seconds, self.lasts_seconds), step)

    def replicas(self, name: str, count: int) -> None:
        self.cluster.scale("Deployment", name, count)

    # ------------------------------------------------------------------------------ nodes and pools

    def pause_pool(self, is_paused: bool) -> None:
        def annotate(item: Json) -> None:
            annotations = item["metadata"].setdefault("annotations", {})
            annotations.pop("growth.dev/paused", None)
            annotations |= {"growth.dev/paused": "true"} if is_paused else {}

        self.cluster.verbs.modify(POOL, "default", "", annotate, "user")

    def make_pool_again(self, name: str, *server_types: str, **spec: object) -> None:
        """As soon as the old one is gone."""
        if self.cluster.store.get(POOL, name) is None:
            self.cluster.create(node_pool(name, *server_types, **spec))
        else:
            after(5.0, partial(self.make_pool_again, name, *server_types, **spec))

    def delete_some_request(self) -> None:
        names = [stored.name for stored in self.cluster.store.all(REQUEST)]
        if names:
            self.cluster.delete("NodeRequest", self.chance.choice(names))

    def erase_some_request(self) -> None:
        """With its finalizers, so that growth cannot keep it."""

        def let_go(item: Json) -> None:
            item["metadata"]["finalizers"] = []

        names = [stored.name for stored in self.cluster.store.all(REQUEST)]
        if names:
            name = self.chance.choice(names)
            self.cluster.verbs.modify(REQUEST, name, "", let_go, "user")
            self.cluster.delete("NodeRequest", name)

    def delete_some_removal(self) -> None:
        names = [stored.name for stored in self.cluster.store.all(REMOVAL)]
        if names:
            self.cluster.delete("NodeRemovalRequest", self.chance.choice(names))

    def ask_some_node_to_go(self) -> None:
        """A person writes its removal, and does not say which machine it is."""
        nodes = [item["metadata"] for item in self.cluster.store.read_all(NODE)]
        pools = {each["name"]: (each.get("labels") or {}).get(POOL_LABEL, "") for each in nodes}
        asked = {stored.name for stored in self.cluster.store.all(REMOVAL)}
        if names := sorted(name for name, pool in pools.items() if pool and name not in asked):
            name = self.chance.choice(names)
            spec = {"nodeName": name, "pool": pools[name], "reason": "Expired"}
            about: Json = {
                "apiVersion": "growth.dev/v1alpha1",
                "kind": "NodeRemovalRequest",
                "metadata": {"name": name},
            }
            self.cluster.create(about | {"spec": spec})

    def take_taints_off(self) -> None:
        """Those of growth, from some node."""

        def untaint(item: Json) -> None:
            taints = item["spec"].get("taints") or []
            item["spec"]["taints"] = [taint for taint in taints if not taint["key"].startswith("growth.dev/")]

        names = [stored.name for stored in self.cluster.store.all(NODE)]
        if names:
            self.cluster.verbs.modify(NODE, self.chance.choice(names), "", untaint, "user")

    def delete_some_node(self) -> None:
        """One of the default pool that is to stay: elsewhere the machine that is left would use up a limit."""
        going = {stored.name for stored in self.cluster.store.all(REMOVAL)} | {*self._marked_nodes()}
        names = [stored.name for stored in self.cluster.store.all(NODE) if stored.name not in going]
        names = [name for name in names if name.startswith("default-")]
        if names:
            self.cluster.delete("Node", self.chance.choice(names))

    def protect_some_node(self, pool: str, is_protected: bool) -> None:
        """A node of the pool must not be disturbed, or none of them is protected any more."""

        def annotate(item: Json) -> None:
            annotations = item["metadata"].setdefault("annotations", {})
            annotations.pop(DO_NOT_DISRUPT, None)
            annotations |= {DO_NOT_DISRUPT: "true"} if is_protected else {}

        names = [stored.name for stored in self.cluster.store.all(NODE) if stored.name.startswith(f"{pool}-pool-")]
        for name in [self.chance.choice(names)] if names and is_protected else names:
            self.cluster.verbs.modify(NODE, name, "", annotate, "user")

    def move_to_pool(self, name: str, pool: str) -> None:
        """Pods of a Deployment that are made from now on ask for another pool, or for none."""

        def change(item: Json) -> None:
            item["spec"]["template"]["spec"]["nodeSelector"] = {POOL_LABEL: pool} if pool else {}

        self.cluster.verbs.modify(DEPLOYMENT, name, "default", change, "user")

    def _marked_nodes(self) -> list[str]:
        return [
            item["metadata"]["name"]
            for item in self.cluster.objects("Node")
            if any(taint["key"] == SCALE_DOWN_TAINT.key for taint in item["spec"].get("taints") or [])
        ]

    # ----------------------------------------------------------------------------------------- pods

    def delete_some_pod(self) -> None:
        names = [stored.name for stored in self.cluster.store.all(POD, "default")]
        if names:
            self.cluster.delete("Pod", self.chance.choice(names), "default")

    def visit_marked_node(self, guest: Json) -> None:
        """The pod comes to a node that is marked for scale-down, or to any, and goes after a while."""
        marked = self._marked_nodes()
        if marked:
            guest["spec"]["nodeSelector"] = {"kubernetes.io/hostname": self.chance.choice(marked)}
        self.cluster.create(guest)
        leave = partial(self.cluster.delete, "Pod", guest["metadata"]["name"], "default")
        self.at(self.chance.uniform(60, 150), leave)

    def claim_agents(self, count: int, app: str = "agents") -> None:
        """Take so many pods of the warm pool into use."""
        names = [name for name, is_claimed in self._running_agents(app) if not is_claimed]
        for name in self.chance.sample(names, min(count, len(names))):
            self._set_claimed(name, {CLAIMED: "yes"})

    def release_agents(self, app: str = "agents") -> None:
        """None of the warm pool's pods is in use any more."""
        for name, is_claimed in self._running_agents(app):
            if is_claimed:
                self._set_claimed(name, {})

    def _running_agents(self, app: str) -> list[tuple[str, bool]]:
        """Pods of the warm pool: name, and whether it is in use."""
        labelled = [(item, item["metadata"].get("labels") or {}) for item in self.cluster.objects("Pod", "default")]
        return [
            (item["metadata"]["name"], CLAIMED in labels)
            for item, labels in labelled
            if labels.get("app") == app and (item.get("status") or {}).get("phase") == "Running"
        ]

    def _set_claimed(self, name: str, label: dict[str, str]) -> None:
        def set_label(item: Json) -> None:
            labels = item["metadata"]["labels"]
            item["metadata"]["labels"] = {key: each for key, each in labels.items() if key != CLAIMED} | label

        self.cluster.verbs.modify(POD, name, "default", set_label, "user")


class Behaviour(Struct, frozen=True):
    """A row: what one kind of user does. One that is alone is drawn without others: what it does concerns them all."""

    name: str
    begin: Callable[[Script], None]
    settings: Settings = Settings()  # growth's own, where the behaviour would take hours with the usual ones
    is_wide: bool = False
    is_alone: bool = False
    is_at_hetzner: bool = False  # machines come from the fake Hetzner
    lasts_seconds: float = 0.0  # at least
    settles_seconds: float = 0.0  # it may take so long until all is as it should be


def _attempt(step: Callable[[], object]) -> None:
    try:
        step()
    except Refusal:
        return  # the object that the user meant is not there
