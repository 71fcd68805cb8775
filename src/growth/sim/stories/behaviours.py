"""What do users do while faults happen? Behaviours: each puts objects into the embedded cluster and schedules steps on
them.

Drawn by the simulation, several for one seed. All steps happen before the faults stop; what the cluster should look
like in the end follows from the objects that are left, and from `expected` where not all pods of an app can be hosted.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import msgspec

from growth.model.labels import Labels
from growth.model.node import DO_NOT_DISRUPT
from growth.model.offering import CLUSTER_LABEL
from growth.model.scheduler import SchedulerSettings
from growth.model.settings import Settings
from growth.providers.simulated import NodeTemplate
from growth.sim.apiserver import objects
from growth.sim.apiserver.kinds import CLAIMED, NODE, Json
from growth.sim.apiserver.objects import deployment, disruption_budget, job, node_pool
from growth.sim.apiserver.store import Write
from growth.sim.clock import after
from growth.sim.faults.faults import draw, is_wide
from growth.sim.stories.oddities import ODDITIES
from growth.sim.stories.reserves import HOUR, RESERVES
from growth.sim.stories.script import Behaviour, Script
from growth.sim.stories.worlds import HASTY, WORLDS

CHANCE_OF_EACH: Final = 0.2
CHANCE_IN_A_WIDE_SEED: Final = 0.12
CHANCE_OF_ONE_ALONE: Final = 0.04
IMPROVING: Final = Settings(
    scheduler=SchedulerSettings(enabled=True, improves=True, improvement_saving=100, moves_per_minute=3)
)


def chosen_behaviours(seed: str, wanted: tuple[str, ...] = ()) -> list[Behaviour]:
    """The wanted ones, or else some drawn by chance."""
    if wanted:
        return [behaviour for behaviour in BEHAVIOURS if behaviour.name in wanted]
    if not is_wide(seed):
        return draw(seed, BEHAVIOURS, CHANCE_OF_EACH)
    alone = draw(seed, [each for each in BEHAVIOURS if each.is_alone], CHANCE_OF_ONE_ALONE)
    return alone[:1] or draw(seed, [each for each in BEHAVIOURS if not each.is_alone], CHANCE_IN_A_WIDE_SEED)


def settings_of(behaviours: Sequence[Behaviour]) -> Settings:
    """growth's settings where all of these happen."""
    changes = {
        name: getattr(behaviour.settings, name)
        for behaviour in behaviours
        for name in Settings.__struct_fields__
        if getattr(behaviour.settings, name) != getattr(Settings(), name)
    }
    return Settings(**changes)


def begin(script: Script, seed: str, behaviours: Sequence[Behaviour]) -> None:
    """The default pool, and each behaviour with its own source of chance."""
    sizes = (("CX33", 15), ("CX32", 10), ("CX31", 10))
    script.cluster.create(node_pool("default", *({"name": name, "max": most} for name, most in sizes)))
    for behaviour in behaviours:
        script.chance = random.Random(f"{seed}/scenario/{behaviour.name}")  # as seeds have always drawn it
        behaviour.begin(msgspec.structs.replace(script))


def _on(pool: str) -> Any:
    return {"nodeSelector": {"growth.dev/pool": pool}}


# ------------------------------------------------------------------------------ load comes and goes


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


def batch(script: Script) -> None:
    """Jobs that end by themselves."""
    for number in range(script.chance.randint(1, 3)):
        completions, seconds = script.chance.randint(2, 8), script.chance.randint(20, 200)
        made = job(f"sums-{number}", completions, "1", "1Gi", run_seconds=seconds)
        script.at_some_time(partial(script.cluster.create, made))


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
        script.at_some_time(script.delete_some_pod)


def tolerant_guests(script: Script) -> None:
    """Pods that tolerate everything land on nodes marked for scale-down."""
    script.cluster.create(deployment("ebb", script.chance.randint(3, 8), "1500m", "1Gi"))
    after(0.4 * script.lasts_seconds, partial(script.replicas, "ebb", 0))
    everything = [{"operator": "Exists"}]
    for number in range(6):
        guest = objects.pod(f"guest-{number}", "100m", "64Mi", labels={"app": "guests"}, tolerations=everything)
        script.at(0.4 * script.lasts_seconds + 12 + 12 * number, partial(script.visit_marked_node, guest))


def spare_room(script: Script) -> None:
    """Room that is kept free, taken by pods that come, and bought again; in the end it may be given up."""
    script.cluster.create(node_pool("roomy", "CX32", "CX33"))
    script.cluster.create(deployment("popular", script.chance.randint(0, 4), "1", "1Gi", **_on("roomy")))
    script.cluster.create(objects.capacity_buffer("spare", "popular", replicas=script.chance.randint(1, 6)))
    for _ in range(script.chance.randint(1, 4)):
        script.at_some_time(partial(script.replicas, "popular", script.chance.randint(0, 8)))
    if script.chance.random() < 0.3:
        script.at_some_time(partial(script.cluster.delete, "CapacityBuffer", "spare", "default"), earliest=0.5)


def moved_about(script: Script) -> None:
    """Deployments of growth's scheduler grow and shrink for hours; their pods are moved where a place costs less."""
    chance = script.chance
    for number in range(4):
        app = f"mover-{number}"
        size = chance.choice(("300m", "700m", "1"))
        script.cluster.create(deployment(app, chance.randint(2, 8), size, "512Mi", schedulerName="growth"))
        for _ in range(2):
            script.at_some_time(partial(script.cluster.scale, "Deployment", app, chance.randint(1, 8)))


def warm_pool(script: Script) -> None:
    """Pods that wait for work, some of which are taken and given back; so many shall always be available."""
    script.cluster.create(node_pool("ready", "CX33", "CX32"))
    script.cluster.create(deployment("agents", script.chance.randint(0, 12), "500m", "512Mi", **_on("ready")))
    in_use = {"matchExpressions": [{"key": CLAIMED, "operator": "Exists"}]}
    policy: Json = {"targetAvailable": script.chance.randint(2, 4), "tolerance": 1, "inUse": in_use}
    script.cluster.create(objects.pool_autoscaler("agents", "agents", 2, 10, **policy))
    for _ in range(script.chance.randint(2, 5)):
        script.at_some_time(partial(script.claim_agents, script.chance.randint(1, 4)))
        script.at_some_time(script.release_agents)


# -------------------------------------------------------------- pools have limits, machines run out


def sold_out(script: Script) -> None:
    """The cheapest offering cannot be had at first."""
    for location in ("fsn1", "nbg1", "hel1"):
        script.cluster.cloud.sold_out["sim-cx33", location] = None


def pool_too_small(script: Script) -> None:
    """More pods than the pool's max allows: the rest waits, with a reason."""
    room = script.chance.randint(1, 3)
    script.cluster.create(node_pool("tight", {"name": "CX33", "max": room}))
    script.cluster.create(deployment("crowd", room + 2, "3", "2Gi", **_on("tight")))
    script.expected["crowd"] = room


def limited_pool(script: Script) -> None:
    """A pool bounded by price and cores: the rest waits."""
    script.cluster.create(node_pool("cheap", "CX33", limits={"pricePerHour": "0.017", "cpu": "9"}))
    script.cluster.create(deployment("thrifty", 4, "3", "2Gi", **_on("cheap")))
    script.expected["thrifty"] = 2


def minimum(script: Script) -> None:
    """Nodes that are there without load."""
    script.cluster.create(node_pool("warm", {"name": "CX32", "min": script.chance.randint(1, 2), "max": 5}))
    script.cluster.create(deployment("visitor", 1, "3", "2Gi", **_on("warm")))
    script.at_some_time(partial(script.replicas, "visitor", script.chance.randint(0, 4)))


def thinned_out(script: Script) -> None:
    """A pool that is consolidated: pods leave its nodes, the others are moved together within their budgets; one of
    them must stay where it is.
    """
    budgets = [{"nodes": script.chance.choice(["1", "50%"]), "windowSeconds": 0}]
    script.cluster.create(node_pool("dense", "CX33", "CX32", consolidation="Full", budgets=budgets))
    script.cluster.create(deployment("sparse", 16, "900m", "1Gi", **_on("dense")))
    script.cluster.create(disruption_budget("sparse", "sparse", maxUnavailable=2))
    anchor = deployment("anchor", 1, "900m", "1Gi", **_on("dense"))
    anchor["spec"]["template"]["metadata"]["annotations"] = {DO_NOT_DISRUPT: "true"}
    script.cluster.create(anchor)
    for _ in range(script.chance.randint(1, 3)):
        script.at_some_time(partial(script.replicas, "sparse", script.chance.randint(2, 8)), earliest=0.2)
    script.at_some_time(script.delete_some_pod, earliest=0.4)


# ------------------------------------------------------------------------- others act beside growth


def strangers(script: Script) -> None:
    """Nodes and machines of others: never touched."""
    script.cluster.create(objects.node("stranger", cpu="1"))
    for name, labels in (("foreign", Labels({CLUSTER_LABEL: "another-cluster"})), ("bare", Labels({}))):
        buying = script.cluster.cloud.create_server(name, "sim-cx32", "fsn1", labels, NodeTemplate())
        _ = script.cluster.runtime.spawn(name, buying)


def meddling(script: Script) -> None:
    """A user deletes requests, takes our taints off, and pauses a pool for a while."""
    for _ in range(script.chance.randint(1, 3)):
        script.at_some_time(script.delete_some_request)
        script.at_some_time(script.take_taints_off)
    paused_at = script.chance.uniform(0, 0.6) * script.lasts_seconds
    script.at(paused_at, partial(script.pause_pool, True))
    script.at(paused_at + script.chance.uniform(5, 0.3 * script.lasts_seconds), partial(script.pause_pool, False))


def paused_pool(script: Script) -> None:
    """A pool is paused, load comes and goes meanwhile, and it is let go on."""
    script.cluster.create(deployment("patient", 4, "1500m", "1Gi"))
    paused_at = script.chance.uniform(0.2, 0.4) * script.lasts_seconds
    script.at(paused_at, partial(script.pause_pool, True))
    after(paused_at + 70, partial(script.replicas, "patient", script.chance.choice([0, 12])))
    script.at(paused_at + 160, partial(script.pause_pool, False))


def pool_made_again(script: Script) -> None:
    """A pool is deleted, and made again under the same name when it is gone."""
    budgets = [{"nodes": "50%", "windowSeconds": 0}]  # with the default window it would take an hour
    script.cluster.create(node_pool("second", "CX33", "CX32", budgets=budgets))
    script.cluster.create(deployment("tenant", script.chance.randint(2, 6), "1", "1Gi", **_on("second")))
    deleted_at = script.chance.uniform(0.2, 0.5) * script.lasts_seconds
    script.at(deleted_at, partial(script.cluster.delete, "NodePool", "second"))
    after(deleted_at + 1, partial(script.make_pool_again, "second", "CX33", "CX32", budgets=budgets))


def node_deleted(script: Script) -> None:
    """A user deletes the Node of a machine of ours: the machine is reported and left alone, and its pods come again
    elsewhere.
    """
    script.cluster.create(deployment("homeless", 3, "3", "1Gi"))
    script.at_some_time(script.delete_some_node, earliest=0.3)


def haunted_pool(script: Script) -> None:
    """Nodes of a pool get a taint from another controller as soon as they join, so none of its pods can ever run."""
    script.cluster.create(node_pool("haunted", {"name": "CX33", "max": 12}, bindPlannedPods=False))
    script.cluster.create(deployment("doomed", 2, "3", "1Gi", **_on("haunted")))
    script.expected["doomed"] = 0

    def add_taint(item: Json) -> None:
        taint = {"key": "example.com/haunted", "effect": "NoSchedule"}
        item["spec"]["taints"] = [*(item["spec"].get("taints") or []), taint]

    def haunt(write: Write) -> None:
        if write.kind is NODE and write.type == "ADDED" and write.key[1].startswith("haunted-"):
            modify = script.cluster.verbs.modify
            script.at(0.0, partial(modify, NODE, write.key[1], "", add_taint, "haunting"))

    script.cluster.store.on_write(haunt)


BEHAVIOURS: Final[tuple[Behaviour, ...]] = (
    Behaviour("burst", burst),
    Behaviour("churn", churn),
    Behaviour("scale to zero", scale_to_zero),
    Behaviour("come and go", come_and_go),
    Behaviour("sold out", sold_out),
    Behaviour("pool too small", pool_too_small),
    Behaviour("limited pool", limited_pool),
    Behaviour("minimum", minimum),
    Behaviour("batch", batch),
    Behaviour("strangers", strangers),
    Behaviour("tolerant guests", tolerant_guests),
    Behaviour("meddling", meddling),
    Behaviour("paused pool", paused_pool),
    Behaviour("pool made anew", pool_made_again),
    Behaviour("apart", apart),
    Behaviour("impatient users", impatient_users),
    Behaviour("node deleted", node_deleted),
    Behaviour("haunted pool", haunted_pool),
    Behaviour("thinned out", thinned_out, HASTY),
    Behaviour("spare room", spare_room),
    Behaviour("warm pool", warm_pool),
    Behaviour("moved about", moved_about, IMPROVING, is_wide=True, is_alone=True, lasts_seconds=6 * HOUR),
    *WORLDS,
    *RESERVES,
    *ODDITIES,
)
