"""What do users do while the faults rage? Scenarios: each puts objects into the embedded cluster and schedules steps on
them.

Drawn by the simulation, several for one seed. All steps happen before the faults stop; what the cluster should look
like in the end follows from the objects that are left, and from `expected` where not all pods of an app can be hosted.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec
from msgspec import Struct

from growth.model.labels import Labels
from growth.model.node import DO_NOT_DISRUPT, SCALE_DOWN_TAINT
from growth.model.offering import CLUSTER_LABEL
from growth.model.settings import Settings
from growth.providers.simulated import NodeTemplate
from growth.sim.apiserver.kinds import BY_NAME, NODE, POD, Json
from growth.sim.apiserver.objects import (
    capacity_buffer,
    deployment,
    disruption_budget,
    job,
    node,
    node_pool,
    pod,
    pool_autoscaler,
)
from growth.sim.apiserver.refusal import Refusal
from growth.sim.apiserver.store import Write
from growth.sim.clock import after
from growth.sim.cluster import Cluster
from growth.sim.laws.warm_pools import CLAIMED

CHANCE_OF_EACH: Final = 0.2
POOL: Final = BY_NAME["NodePool"]
REQUEST: Final = BY_NAME["NodeRequest"]


class Script(Struct):
    """What a scenario works with."""

    cluster: Cluster
    chance: random.Random
    lasts_seconds: float
    expected: dict[str, int] = {}

    def at_some_time(self, step: Callable[[], object], earliest: float = 0.0) -> None:
        """Once, before the faults stop."""
        after(self.chance.uniform(earliest * self.lasts_seconds, self.lasts_seconds), partial(_try, step))

    def replicas(self, name: str, count: int) -> None:
        self.cluster.scale("Deployment", name, count)


def _try(step: Callable[[], object]) -> None:
    try:
        step()
    except Refusal:
        return  # the object the user meant is not there: so be it


class Scenario(Struct, frozen=True):
    name: str
    begin: Callable[[Script], None]
    settings: Settings = Settings()  # growth's own, where the scenario would take hours with the usual ones


def burst(script: Script) -> None:
    """Pods of three shapes at once."""
    shapes = [("small", "200m", "256Mi"), ("medium", "900m", "1Gi"), ("large", "2500m", "3Gi")]
    for name, cpu, memory in shapes:
        script.cluster.create(deployment(name, script.chance.randint(2, 14), cpu, memory))


def churn(script: Script) -> None:
    """Workloads grow and shrink again and again."""
    script.cluster.create(deployment("tide", script.chance.randint(0, 10), "700m", "700Mi"))
    for _ in range(script.chance.randint(3, 7)):
        script.at_some_time(partial(script.replicas, "tide", script.chance.randint(0, 16)))


def scale_to_zero(script: Script) -> None:
    """Load comes, goes for good or comes back."""
    script.cluster.create(deployment("guest", script.chance.randint(4, 12), "1", "1Gi"))
    gone_at = script.chance.uniform(0.2, 0.6) * script.lasts_seconds
    after(gone_at, partial(script.replicas, "guest", 0))
    if script.chance.random() < 0.5:
        after(gone_at + script.chance.uniform(50, 140), partial(script.replicas, "guest", script.chance.randint(1, 12)))


def come_and_go(script: Script) -> None:
    """Load comes, fills whole machines, and goes for good."""
    script.cluster.create(deployment("traveller", 6, "1500m", "1Gi"))
    after(0.5 * script.lasts_seconds, partial(script.replicas, "traveller", 0))


def sold_out(script: Script) -> None:
    """The cheapest offering cannot be had at first."""
    for location in ("fsn1", "nbg1", "hel1"):
        script.cluster.cloud.sold_out["sim-cx33", location] = None


def pool_too_small(script: Script) -> None:
    """More pods than the pool's max allows: the rest waits, with a reason."""
    room = script.chance.randint(1, 3)
    script.cluster.create(node_pool("tight", {"name": "CX33", "max": room}))
    script.cluster.create(deployment("crowd", room + 2, "3", "2Gi", nodeSelector={"growth.dev/pool": "tight"}))
    script.expected["crowd"] = room


def limited_pool(script: Script) -> None:
    """A pool bounded by price and cores: the rest waits."""
    script.cluster.create(node_pool("cheap", "CX33", limits={"pricePerHour": "0.017", "cpu": "9"}))
    script.cluster.create(deployment("thrifty", 4, "3", "2Gi", nodeSelector={"growth.dev/pool": "cheap"}))
    script.expected["thrifty"] = 2


def minimum(script: Script) -> None:
    """Nodes that are there without load."""
    script.cluster.create(node_pool("warm", {"name": "CX32", "min": script.chance.randint(1, 2), "max": 5}))
    script.cluster.create(deployment("visitor", 1, "3", "2Gi", nodeSelector={"growth.dev/pool": "warm"}))
    script.at_some_time(partial(script.replicas, "visitor", script.chance.randint(0, 4)))


def batch(script: Script) -> None:
    """Jobs that end by themselves."""
    for number in range(script.chance.randint(1, 3)):
        made = job(
            f"sums-{number}", script.chance.randint(2, 8), "1", "1Gi", run_seconds=script.chance.randint(20, 200)
        )
        script.at_some_time(partial(script.cluster.create, made))


def strangers(script: Script) -> None:
    """Nodes and machines of others: never touched."""
    script.cluster.create(node("stranger", cpu="1"))
    cloud, template = script.cluster.cloud, NodeTemplate()
    for name, labels in (("foreign", Labels({CLUSTER_LABEL: "another-cluster"})), ("bare", Labels({}))):
        _ = script.cluster.runtime.spawn(
            name, _have_server(cloud.create_server(name, "sim-cx32", "fsn1", labels, template))
        )


async def _have_server(call: Any) -> None:
    await call


def tolerant_guests(script: Script) -> None:
    """Pods that tolerate everything land on nodes marked for scale-down."""
    script.cluster.create(deployment("ebb", script.chance.randint(3, 8), "1500m", "1Gi"))
    after(0.4 * script.lasts_seconds, partial(script.replicas, "ebb", 0))
    everything = [{"operator": "Exists"}]
    for number in range(6):
        guest = pod(f"guest-{number}", "100m", "64Mi", labels={"app": "guests"}, tolerations=everything)
        after(0.4 * script.lasts_seconds + 12 + 12 * number, partial(_try, partial(_arrive_on_marked, script, guest)))


def _arrive_on_marked(script: Script, guest: Json) -> None:
    marked = [one for one in script.cluster.objects("Node") if _is_marked(one)]
    if marked:
        guest["spec"]["nodeSelector"] = {"kubernetes.io/hostname": script.chance.choice(marked)["metadata"]["name"]}
    script.cluster.create(guest)
    after(
        script.chance.uniform(60, 150),
        partial(_try, partial(script.cluster.delete, "Pod", guest["metadata"]["name"], "default")),
    )


def meddling(script: Script) -> None:
    """A user deletes requests, takes our taints off, and pauses a pool for a while."""
    for _ in range(script.chance.randint(1, 3)):
        script.at_some_time(partial(_delete_some_request, script))
        script.at_some_time(partial(_take_taints_off, script))
    paused_at = script.chance.uniform(0, 0.6) * script.lasts_seconds
    after(paused_at, partial(_try, partial(_annotate_pool, script, "true")))
    after(
        paused_at + script.chance.uniform(5, 0.3 * script.lasts_seconds),
        partial(_try, partial(_annotate_pool, script, None)),
    )


def paused_pool(script: Script) -> None:
    """A pool is paused, load comes and goes meanwhile, and it is let go on."""
    script.cluster.create(deployment("patient", 4, "1500m", "1Gi"))
    paused_at = script.chance.uniform(0.2, 0.4) * script.lasts_seconds
    after(paused_at, partial(_try, partial(_annotate_pool, script, "true")))
    after(paused_at + 70, partial(script.replicas, "patient", script.chance.choice([0, 12])))
    after(paused_at + 160, partial(_try, partial(_annotate_pool, script, None)))


def _delete_some_request(script: Script) -> None:
    names = [stored.name for stored in script.cluster.store.all(REQUEST)]
    if names:
        script.cluster.delete("NodeRequest", script.chance.choice(names))


def _take_taints_off(script: Script) -> None:
    names = [stored.name for stored in script.cluster.store.all(NODE)]

    def untaint(item: Json) -> None:
        item["spec"]["taints"] = [
            taint for taint in item["spec"].get("taints") or [] if not taint["key"].startswith("growth.dev/")
        ]

    if names:
        script.cluster.verbs.modify(NODE, script.chance.choice(names), "", untaint, "user")


def _annotate_pool(script: Script, value: str | None) -> None:
    def annotate(item: Json) -> None:
        annotations = item["metadata"].setdefault("annotations", {})
        annotations |= {"growth.dev/paused": value} if value else {}
        if not value:
            annotations.pop("growth.dev/paused", None)

    script.cluster.verbs.modify(POOL, "default", "", annotate, "user")


def pool_made_anew(script: Script) -> None:
    """A pool is deleted, and made again under the same name when it is gone."""
    made = node_pool(
        "second", "CX33", "CX32", budgets=[{"nodes": "50%", "windowSeconds": 0}]
    )  # with the default window it would take an hour
    script.cluster.create(made)
    script.cluster.create(
        deployment("tenant", script.chance.randint(2, 6), "1", "1Gi", nodeSelector={"growth.dev/pool": "second"})
    )
    deleted_at = script.chance.uniform(0.2, 0.5) * script.lasts_seconds
    after(deleted_at, partial(_try, partial(script.cluster.delete, "NodePool", "second")))
    after(deleted_at + 1, partial(_make_again, script, made))


def _make_again(script: Script, made: Json) -> None:
    if script.cluster.store.get(POOL, "second") is None:
        script.cluster.create(made)
    else:
        after(5.0, partial(_make_again, script, made))


def apart(script: Script) -> None:
    """Pods that refuse each other's company, and a budget on them."""
    term = {"labelSelector": {"matchLabels": {"app": "apart"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    script.cluster.create(deployment("apart", script.chance.randint(2, 5), "300m", "256Mi", affinity=affinity))
    script.cluster.create(disruption_budget("apart", "apart", maxUnavailable=1))


def impatient_users(script: Script) -> None:
    """Pending pods are deleted while machines for them are on their way."""
    script.cluster.create(deployment("moody", 6, "1800m", "1Gi"))
    for _ in range(6):
        script.at_some_time(partial(_delete_some_pod, script))


def _delete_some_pod(script: Script) -> None:
    names = [stored.name for stored in script.cluster.store.all(POD, "default")]
    if names:
        script.cluster.delete("Pod", script.chance.choice(names), "default")


def node_deleted(script: Script) -> None:
    """A user deletes the Node of a machine of ours: the machine is reported and left alone, and its pods come again
    elsewhere.
    """
    script.cluster.create(deployment("homeless", 3, "3", "1Gi"))
    script.at_some_time(partial(_delete_some_node, script), earliest=0.3)


def _delete_some_node(script: Script) -> None:
    removed = {stored.name for stored in script.cluster.store.all(BY_NAME["NodeRemovalRequest"])}
    staying = [
        one["metadata"]["name"]
        for one in script.cluster.objects("Node")
        if one["metadata"]["name"] not in removed and not _is_marked(one)
    ]
    names = [
        name for name in staying if name.startswith("default-")
    ]  # elsewhere the machine that stays would use up a limit
    if names:
        script.cluster.delete("Node", script.chance.choice(names))


def _is_marked(item: Json) -> bool:
    return any(taint["key"] == SCALE_DOWN_TAINT.key for taint in item["spec"].get("taints") or [])


def haunted_pool(script: Script) -> None:
    """Nodes of a pool get a taint from somebody else as soon as they join, so none of its pods can ever run there."""
    script.cluster.create(node_pool("haunted", {"name": "CX33", "max": 12}, bindPlannedPods=False))
    script.cluster.create(deployment("doomed", 2, "3", "1Gi", nodeSelector={"growth.dev/pool": "haunted"}))
    script.expected["doomed"] = 0

    def haunt(write: Write) -> None:
        if write.kind is NODE and write.type == "ADDED" and write.key[1].startswith("haunted-"):
            after(
                0.0, partial(_try, partial(script.cluster.verbs.modify, NODE, write.key[1], "", _add_taint, "haunting"))
            )

    script.cluster.store.on_write(haunt)


def _add_taint(item: Json) -> None:
    item["spec"]["taints"] = [
        *(item["spec"].get("taints") or []),
        {"key": "example.com/haunted", "effect": "NoSchedule"},
    ]


def thinned_out(script: Script) -> None:
    """A pool that is consolidated: pods leave its nodes, the others are moved together within their budgets; one of
    them must stay where it is.
    """
    spec: dict[str, Any] = {
        "consolidation": "Full",
        "budgets": [{"nodes": script.chance.choice(["1", "50%"]), "windowSeconds": 0}],
    }
    script.cluster.create(node_pool("dense", "CX33", "CX32", **spec))
    script.cluster.create(deployment("sparse", 16, "900m", "1Gi", nodeSelector={"growth.dev/pool": "dense"}))
    script.cluster.create(disruption_budget("sparse", "sparse", maxUnavailable=2))
    anchor = deployment("anchor", 1, "900m", "1Gi", nodeSelector={"growth.dev/pool": "dense"})
    anchor["spec"]["template"]["metadata"]["annotations"] = {DO_NOT_DISRUPT: "true"}
    script.cluster.create(anchor)
    for _ in range(script.chance.randint(1, 3)):
        script.at_some_time(partial(script.replicas, "sparse", script.chance.randint(2, 8)), earliest=0.2)
    script.at_some_time(partial(_try, partial(_delete_some_pod, script)), earliest=0.4)


def spare_room(script: Script) -> None:
    """Room that is kept free, taken by pods that come, and bought again; in the end it may be given up."""
    script.cluster.create(node_pool("roomy", "CX32", "CX33"))
    script.cluster.create(
        deployment("popular", script.chance.randint(0, 4), "1", "1Gi", nodeSelector={"growth.dev/pool": "roomy"})
    )
    script.cluster.create(capacity_buffer("spare", "popular", replicas=script.chance.randint(1, 6)))
    for _ in range(script.chance.randint(1, 4)):
        script.at_some_time(partial(script.replicas, "popular", script.chance.randint(0, 8)))
    if script.chance.random() < 0.3:
        script.at_some_time(partial(script.cluster.delete, "CapacityBuffer", "spare", "default"), earliest=0.5)


def warm_pool(script: Script) -> None:
    """Pods that wait for work, some of which are taken and given back; so many shall always be available."""
    script.cluster.create(node_pool("ready", "CX33", "CX32"))
    script.cluster.create(
        deployment("agents", script.chance.randint(0, 12), "500m", "512Mi", nodeSelector={"growth.dev/pool": "ready"})
    )
    in_use = {"matchExpressions": [{"key": CLAIMED, "operator": "Exists"}]}
    script.cluster.create(
        pool_autoscaler(
            "agents", "agents", 2, 10, targetAvailable=script.chance.randint(2, 4), tolerance=1, inUse=in_use
        )
    )
    for _ in range(script.chance.randint(2, 5)):
        script.at_some_time(partial(_claim, script, script.chance.randint(1, 4)))
        script.at_some_time(partial(_release, script))


def _claim(script: Script, count: int) -> None:
    names = [
        one["metadata"]["name"]
        for one in script.cluster.objects("Pod", "default")
        if _is_agent(one) and CLAIMED not in one["metadata"]["labels"]
    ]
    for name in script.chance.sample(names, min(count, len(names))):
        script.cluster.verbs.modify(POD, name, "default", partial(_set_claimed, "yes"), "user")


def _release(script: Script) -> None:
    """Whoever took some is done with all of them."""
    for one in script.cluster.objects("Pod", "default"):
        if _is_agent(one) and CLAIMED in one["metadata"]["labels"]:
            script.cluster.verbs.modify(POD, one["metadata"]["name"], "default", partial(_set_claimed, None), "user")


def _set_claimed(value: str | None, item: Json) -> None:
    kept = {key: each for key, each in item["metadata"]["labels"].items() if key != CLAIMED}
    item["metadata"]["labels"] = kept if value is None else {**kept, CLAIMED: value}


def _is_agent(item: Json) -> bool:
    return (item["metadata"].get("labels") or {}).get("app") == "agents" and (item.get("status") or {}).get(
        "phase"
    ) == "Running"


HASTY: Final = Settings(settling_seconds=60.0, consolidation_interval_seconds=10.0, scale_down_delay_seconds=20.0)


SCENARIOS: Final[tuple[Scenario, ...]] = (
    Scenario("burst", burst),
    Scenario("churn", churn),
    Scenario("scale to zero", scale_to_zero),
    Scenario("come and go", come_and_go),
    Scenario("sold out", sold_out),
    Scenario("pool too small", pool_too_small),
    Scenario("limited pool", limited_pool),
    Scenario("minimum", minimum),
    Scenario("batch", batch),
    Scenario("strangers", strangers),
    Scenario("tolerant guests", tolerant_guests),
    Scenario("meddling", meddling),
    Scenario("paused pool", paused_pool),
    Scenario("pool made anew", pool_made_anew),
    Scenario("apart", apart),
    Scenario("impatient users", impatient_users),
    Scenario("node deleted", node_deleted),
    Scenario("haunted pool", haunted_pool),
    Scenario("thinned out", thinned_out, HASTY),
    Scenario("spare room", spare_room),
    Scenario("warm pool", warm_pool),
)


def begin_some(script: Script, seed: str, wanted: tuple[str, ...] = ()) -> list[Scenario]:
    """The default pool, and the wanted scenarios, or else some drawn by chance.

    Each scenario has its own source of chance, so that a new row of the table changes nothing for the others.
    """
    script.cluster.create(
        node_pool("default", {"name": "CX33", "max": 15}, {"name": "CX32", "max": 10}, {"name": "CX31", "max": 10})
    )
    chosen = [
        scenario for scenario in SCENARIOS if (scenario.name in wanted if wanted else _is_drawn(seed, scenario.name))
    ]
    for scenario in chosen:
        script.chance = random.Random(f"{seed}/scenario/{scenario.name}")
        scenario.begin(msgspec.structs.replace(script))
    return chosen


def _is_drawn(seed: str, name: str) -> bool:
    return random.Random(f"{seed}/draw/{name}").random() < CHANCE_OF_EACH
