"""What else do users do? Behaviours that seeds from 40000 on draw besides those of `sim/stories/behaviours`: every kind
of workload, nodes and machines of others, pods that can run nowhere, and worlds that last for hours.

A world that is alone has its own faults, and bounds that would concern everybody else.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from growth.model.labels import Labels
from growth.model.node import OFFERING_LABEL, POOL_LABEL, REQUEST_LABEL
from growth.model.nodepool import PoolLimits
from growth.model.offering import CLUSTER_LABEL
from growth.model.scheduler import SchedulerSettings
from growth.model.settings import Settings
from growth.sim.apiserver import objects
from growth.sim.apiserver.kinds import NODE, Json
from growth.sim.apiserver.objects import deployment, disruption_budget, job, node_pool, stateful_set
from growth.sim.apiserver.store import Write
from growth.sim.faults import kinds
from growth.sim.faults.duration import Duration
from growth.sim.stories.script import Behaviour, Script

EVERYTHING: Final = ({"operator": "Exists"},)
NO_WINDOW: Final = [{"nodes": "50%", "windowSeconds": 0}]
SLOW_GOODBYE_SECONDS: Final = 3600.0
ALL_POOLS: Final = 4  # nodes
HOUR: Final = 3600.0


def on(pool: str) -> Any:
    return {"nodeSelector": {POOL_LABEL: pool}}


# --------------------------------------------------------------------------- all kinds of workloads


def operators(script: Script) -> None:
    """Operators that tolerate every taint, on a pool that others leave, or that is deleted."""
    chance = script.chance
    script.cluster.create(node_pool("operated", "CX33", "CX32", budgets=NO_WINDOW))
    script.cluster.create(deployment("operator", chance.randint(1, 3), "100m", "64Mi", tolerations=EVERYTHING))
    script.cluster.create(deployment("operand", chance.randint(3, 8), "1", "1Gi", **on("operated")))
    leaves_at = chance.uniform(0.3, 0.6) * script.lasts_seconds
    script.at(leaves_at, partial(script.replicas, "operand", 0))
    if chance.random() < 0.6:
        script.at(leaves_at + 1, partial(script.cluster.delete, "NodePool", "operated"))


def made_anew(script: Script) -> None:
    """Jobs that are made again and again, each under a new name, as a CronJob does."""
    chance, every, at, number = script.chance, script.chance.uniform(40, 150), 5.0, 0
    while at < script.lasts_seconds:
        made = job(f"nightly-{number}", chance.randint(1, 3), "700m", "512Mi", run_seconds=chance.randint(10, 60))
        script.at(at, partial(script.cluster.create, made))
        at, number = at + every, number + 1


def databases(script: Script) -> None:
    """A StatefulSet under a budget, which grows and shrinks."""
    chance = script.chance
    script.cluster.create(stateful_set("database", chance.randint(2, 4), "1", "2Gi"))
    script.cluster.create(disruption_budget("database", "database", maxUnavailable=1))
    for _ in range(chance.randint(1, 3)):
        script.at_some_time(partial(script.cluster.scale, "StatefulSet", "database", chance.randint(1, 6)))


def gang(script: Script) -> None:
    """Pods that run together or not at all, placed by growth."""
    made = deployment("gang", script.chance.randint(2, 4), "3", "1Gi", schedulerName="growth")
    made["spec"]["template"]["metadata"]["annotations"] = {"growth.dev/gang": "gang"}
    script.cluster.create(made)


def volumes(script: Script) -> None:
    """Pods of growth's scheduler whose volumes are made once they have a node: soon, late, or not at the first attempt;
    two of them start together. Some are deleted, and come again where their volume is.
    """
    chance = script.chance
    for name, marks in (("soon", {}), ("late", {"seconds": "100"}), ("flaky", {"fails": "2"})):
        script.cluster.create(objects.storage_class(name, **marks))
        for number in range(2):
            app = f"{name}-{number}"
            volume = {"name": "data", "persistentVolumeClaim": {"claimName": app}}
            made = deployment(app, 1, "900m", "512Mi", schedulerName="growth", volumes=[volume])
            if name == "flaky":
                made["spec"]["template"]["metadata"]["annotations"] = {"growth.dev/gang": "flaky:2"}
            at = chance.uniform(0, 0.5) * script.lasts_seconds
            for item in (objects.volume_claim(app, name), made):
                script.at(at, partial(script.cluster.create, item))
    for _ in range(chance.randint(0, 4)):
        script.at_some_time(script.delete_some_pod, earliest=0.2)


def queue(script: Script) -> None:
    """Jobs of growth's scheduler for one node, which come faster than they end; some must be away from their like."""
    script.cluster.create(node_pool("lane", {"name": "CX33", "min": 1, "max": 1}, budgets=NO_WINDOW))
    for number in range(8):
        made = job(f"turn-{number}", 1, "3", "1Gi", run_seconds=script.chance.randint(200, 300))
        spec = made["spec"]["template"]["spec"]
        spec |= {"schedulerName": "growth", **on("lane")}
        if script.chance.random() < 0.5:
            selector = {"matchLabels": {"kind": "shy"}}
            made["spec"]["template"]["metadata"].setdefault("labels", {})["kind"] = "shy"
            away = [{"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}]
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": away}}
        script.at(60.0 + 70 * number, partial(script.cluster.create, made))


def swarm(script: Script) -> None:
    """Pods that tolerate every taint come one after the other, also onto nodes that growth is still filling, while a
    user takes growth's taints off some of them.
    """
    chance = script.chance
    script.cluster.create(node_pool("hive", "CX33", "CX32"))
    for number in range(3):
        made = deployment(f"comb-{number}", chance.randint(3, 6), "1200m", "1Gi", **on("hive"))
        script.at(chance.uniform(0, 120), partial(script.cluster.create, made))
    for number in range(40):
        cpu = chance.choice(["100m", "300m", "600m"])
        bee = objects.pod(f"bee-{number}", cpu, "64Mi", labels={"app": "bees"}, tolerations=EVERYTHING, **on("hive"))
        script.at(20 + 4 * number + chance.uniform(0, 4), partial(script.cluster.create, bee))
        script.at(150 + 4 * number, partial(script.cluster.delete, "Pod", f"bee-{number}", "default"))
    for _ in range(4):
        script.at(chance.uniform(15, 150), script.take_taints_off)


def asked_to_go(script: Script) -> None:
    """Persons write removals for nodes that work, several at once, and take some of them back."""
    chance = script.chance
    script.cluster.create(deployment("settled", chance.randint(4, 10), "1500m", "1Gi"))
    for _ in range(chance.randint(1, 2)):
        at = chance.uniform(0.2, 0.8) * script.lasts_seconds
        for number in range(chance.randint(1, 3)):
            script.at(at + number, script.ask_some_node_to_go)
        for number in range(chance.randint(0, 4)):
            script.at(at + chance.uniform(1, 60) * (number + 1), script.delete_some_removal)


def second_thoughts(script: Script) -> None:
    """Nodes are given back, and a person takes removals back, whatever has become of them."""
    chance = script.chance
    script.cluster.create(deployment("fickle", chance.randint(4, 10), "1500m", "1Gi"))
    for share in (0.25, 0.6):
        script.at(share * script.lasts_seconds, partial(script.replicas, "fickle", 0))
        script.at((share + 0.25) * script.lasts_seconds, partial(script.replicas, "fickle", chance.randint(1, 10)))
    for number in range(30):
        script.at(0.2 * script.lasts_seconds + 12 * number, script.delete_some_removal)


def called_off(script: Script) -> None:
    """Somebody deletes NodeRequests again and again, also while their machines are being ordered."""
    script.cluster.create(node_pool("vague", "CX33", "CX32"))
    script.cluster.create(deployment("unsure", script.chance.randint(3, 8), "1500m", "1Gi", **on("vague")))
    for number in range(20):
        script.at(3 + script.chance.uniform(5, 9) * number, script.delete_some_request)


def blocked(script: Script) -> None:
    """A budget that allows no eviction, on a pool that is deleted; in the end the budget goes."""
    script.cluster.create(node_pool("fort", "CX33", budgets=NO_WINDOW))
    script.cluster.create(deployment("knight", 2, "2", "1Gi", **on("fort")))
    script.cluster.create(disruption_budget("knight", "knight", maxUnavailable=0))
    script.at(0.4 * script.lasts_seconds, partial(script.cluster.delete, "NodePool", "fort"))
    script.at(0.45 * script.lasts_seconds, partial(script.move_to_pool, "knight", ""))
    script.at(0.8 * script.lasts_seconds, partial(script.cluster.delete, "PodDisruptionBudget", "knight", "default"))


def slow_goodbye(script: Script) -> None:
    """Pods that take the whole hour they are given to end, on a pool that is deleted."""
    script.cluster.create(node_pool("calm", "CX33", budgets=NO_WINDOW))
    made = deployment("elder", 2, "2", "1Gi", **on("calm"))
    made["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = int(SLOW_GOODBYE_SECONDS)
    made["spec"]["template"]["metadata"]["annotations"] = {"sim.growth.dev/stop-seconds": str(SLOW_GOODBYE_SECONDS)}
    script.cluster.create(made)
    script.at(0.5 * script.lasts_seconds, partial(script.cluster.delete, "NodePool", "calm"))
    script.at(0.5 * script.lasts_seconds + 5, partial(script.move_to_pool, "elder", ""))


# ------------------------------------------------------------------------- nodes and pods of others


def foreign_nodes(script: Script) -> None:
    """Nodes that growth did not make and that carry its labels, tiny and huge; some go again."""
    chance = script.chance
    for name, cpu, memory in (("tiny", "10m", "16Mi"), ("huge", "900", "900Gi"), ("plain", "4", "8Gi")):
        labels = {POOL_LABEL: "default", OFFERING_LABEL: "sim-cx33"}
        labels |= {REQUEST_LABEL: f"foreign-{name}"} if chance.random() < 0.5 else {}
        taints = [{"key": "example.com/foreign", "effect": "NoSchedule"}]
        made = objects.node(f"foreign-{name}", cpu, memory, labels, taints=taints)
        script.at_some_time(partial(script.cluster.create, made))
        if chance.random() < 0.4:
            script.at(script.lasts_seconds - 1, partial(script.cluster.delete, "Node", f"foreign-{name}"))


def protected_nodes(script: Script) -> None:
    """Nodes that must not be disturbed while their pods leave; some are let go in the end."""
    script.cluster.create(node_pool("museum", "CX33", "CX32", consolidation="Full", budgets=NO_WINDOW))
    script.cluster.create(deployment("exhibit", 6, "1500m", "1Gi", **on("museum")))
    protected, late = script.chance.uniform(0.3, 0.4) * script.lasts_seconds, script.chance.choice([0.0, 0.0, 40.0])
    for _ in range(2):
        script.at(protected + late, partial(script.protect_some_node, "museum", True))
    script.at(protected + 5, partial(script.replicas, "exhibit", script.chance.randint(0, 3)))
    if script.chance.random() < 0.5:
        script.at(script.lasts_seconds - 20, partial(script.protect_some_node, "museum", False))


def hopeless(script: Script) -> None:
    """Pods that can run nowhere, each for another reason, which it is told."""
    term = {"matchExpressions": [{"key": "example.com/moon", "operator": "In", "values": ["full"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    shapes: dict[str, Json] = {
        "too-large": {"cpu": "500"},
        "no-such-pool": on("nowhere"),
        "selector": {"nodeSelector": {"example.com/disk": "golden"}},
        "affinity": {"affinity": {"nodeAffinity": required}},
        "zone": {"nodeSelector": {"topology.kubernetes.io/zone": "atlantis"}},
        "device": {"requests": {"example.com/quantum": "1"}},
    }
    for name, shape in shapes.items():
        if script.chance.random() < 0.6:
            script.expected[f"hopeless-{name}"] = 0
            made = objects.pod(f"hopeless-{name}", labels={"app": f"hopeless-{name}"}, **shape)
            script.at_some_time(partial(script.cluster.create, made))


def tainted_pool(script: Script) -> None:
    """A pool whose nodes carry a taint of its own: only pods that tolerate it may use it."""
    taints = [{"key": "example.com/team", "value": "red", "effect": "NoSchedule"}]
    script.cluster.create(node_pool("red", "CX33", taints=taints))
    tolerations = [{"key": "example.com/team", "operator": "Equal", "value": "red", "effect": "NoSchedule"}]
    script.cluster.create(
        deployment("red", script.chance.randint(1, 5), "2", "1Gi", tolerations=tolerations, **on("red"))
    )
    script.cluster.create(deployment("blue", 1, "2", "1Gi", **on("red")))
    script.expected["blue"] = 0
    script.at_some_time(partial(script.replicas, "red", script.chance.randint(0, 5)))


# ------------------------------------------------------------------- worlds that are alone, and long


def limits_of_all(script: Script) -> None:
    """All pools together may have so many nodes: the rest waits, and is told."""
    for name in ("first", "other"):
        script.cluster.create(node_pool(name, "CX33"))
    count = script.chance.randint(0, ALL_POOLS)
    script.cluster.create(deployment("either", count, "3", "1Gi", **on("first")))
    after_a_while = deployment("or", ALL_POOLS + 2, "3", "1Gi", **on("other"))
    script.at(script.chance.uniform(0, 60), partial(script.cluster.create, after_a_while))
    script.expected["either+or"] = ALL_POOLS  # a place that a machine of one pool leaves may go to the other


def broken_image(script: Script) -> None:
    """No machine becomes Ready, for hours; then the image is mended."""
    chance, mended = script.chance, script.chance.uniform(0.5, 0.9) * script.lasts_seconds
    script.cluster.create(node_pool("broken", *chance.sample(["CX33", "CX32", "CX31"], chance.randint(1, 3))))
    script.cluster.create(deployment("stranded", chance.randint(1, 12), "1500m", "1Gi", **on("broken")))
    broken = chance.choice([kinds.NeverReady(), kinds.NeverBoots(), kinds.NeverReady(share=0.9)])
    script.plan_fault(replace(broken, until=Duration(mended)))
    if chance.random() < 0.5:
        _make_jobs(script, on("broken"))


def haunted_jobs(script: Script) -> None:
    """Nodes of a pool get a taint from another controller, so none of the Jobs made anew for it ever runs."""
    script.cluster.create(node_pool("cursed", {"name": "CX33", "max": 30}, bindPlannedPods=False))
    _make_jobs(script, on("cursed"), expected=0)
    _haunt(script, "cursed")


def broken_buffer(script: Script) -> None:
    """Spare room on machines that never become Ready."""
    script.cluster.create(node_pool("void", "CX33", "CX32"))
    script.cluster.create(deployment("seldom", 0, "1", "1Gi", **on("void")))
    script.cluster.create(objects.capacity_buffer("void", "seldom", replicas=script.chance.randint(2, 8)))
    script.plan_fault(kinds.NeverReady(until=Duration(0.7 * script.lasts_seconds)))


def sick_nodes(script: Script) -> None:
    """Most nodes are not Ready together, for a long while; some pools are small."""
    chance = script.chance
    for name, count in (("few", chance.randint(1, 3)), ("many", chance.randint(4, 9))):
        script.cluster.create(node_pool(name, "CX33", consolidation="Full", budgets=NO_WINDOW))
        script.cluster.create(deployment(f"of-{name}", count, "3", "1Gi", **on(name)))
    begins = chance.uniform(180, 260)
    until = begins + chance.uniform(400, 2400)
    silence = kinds.NotReady(share=chance.choice([0.3, 0.6, 1.0]))
    script.plan_fault(replace(silence, begins=Duration(begins), until=Duration(until)))
    script.at(begins + chance.uniform(0, 200), partial(script.replicas, "of-many", chance.randint(0, 4)))


def erased_records(script: Script) -> None:
    """Records vanish with their finalizers, as after a restore, while many machines never come up."""
    script.cluster.create(node_pool("amnesia", "CX33", "CX32"))
    script.cluster.create(deployment("forgotten", script.chance.randint(3, 8), "1500m", "1Gi", **on("amnesia")))
    script.plan_fault(kinds.NeverBoots(share=0.6, until=Duration(0.9 * script.lasts_seconds)))
    for _ in range(script.chance.randint(3, 8)):
        script.at_some_time(script.erase_some_request)


def sick_and_needed(script: Script) -> None:
    """Most nodes are not Ready together while ever more pods come, and buffers and a minimum want machines too."""
    chance = script.chance
    script.cluster.create(node_pool("ward", "CX33", budgets=NO_WINDOW))
    script.cluster.create(node_pool("nurses", {"name": "CX32", "min": chance.randint(1, 3)}, budgets=NO_WINDOW))
    script.cluster.create(deployment("patients", chance.randint(4, 8), "3", "1Gi", **on("ward")))
    script.cluster.create(objects.capacity_buffer("beds", "patients", replicas=chance.randint(1, 3)))
    begins = chance.uniform(180, 300)
    silence = kinds.NotReady(share=chance.choice([0.5, 1.0]))
    script.plan_fault(replace(silence, begins=Duration(begins), until=Duration(begins + chance.uniform(900, 1800))))
    for number in range(6):
        script.at(begins + 150 * number, partial(script.replicas, "patients", 8 + 5 * number))
    script.at(begins + 1000, partial(script.replicas, "patients", 4))


def at_hetzner(script: Script) -> None:
    """Machines of the fake Hetzner, beside servers of strangers in the same project; pools come and go."""
    chance = script.chance
    script.cluster.create(node_pool("cloudy", "CX33", "CX23", budgets=NO_WINDOW))
    script.cluster.create(deployment("renter", chance.randint(2, 8), "1500m", "1Gi", **on("cloudy")))
    for name, labels in (("web-1", {"team": "web"}), ("bare", {}), ("other", {CLUSTER_LABEL: "another-cluster"})):
        script.cluster.shop.add_foreign(name, "cx23", "fsn1", Labels(labels))
    for _ in range(chance.randint(2, 4)):
        script.at_some_time(partial(script.replicas, "renter", chance.randint(0, 10)))
    if chance.random() < 0.5:
        script.at_some_time(script.delete_some_request)


def _make_jobs(script: Script, where: Any, expected: int | None = None) -> None:
    every, at, number = script.chance.uniform(400, 900), 30.0, 0
    while at < script.lasts_seconds - 700:
        made = job(f"again-{number}", 1, "1500m", "1Gi", run_seconds=60)
        made["spec"]["template"]["spec"] |= where
        made["spec"]["template"]["metadata"]["labels"]["job-name"] = f"again-{number}"
        script.at(at, partial(script.cluster.create, made))
        script.at(at + 600, partial(script.cluster.delete, "Job", f"again-{number}", "default"))
        if expected is not None:
            script.expected[f"again-{number}"] = expected
        at, number = at + every, number + 1


def _haunt(script: Script, pool: str) -> None:
    def add_taint(item: Json) -> None:
        taint = {"key": "example.com/haunted", "effect": "NoSchedule"}
        item["spec"]["taints"] = [*(item["spec"].get("taints") or []), taint]

    def haunt(write: Write) -> None:
        if write.kind is NODE and write.type == "ADDED" and write.key[1].startswith(f"{pool}-"):
            script.at(0.0, partial(script.cluster.verbs.modify, NODE, write.key[1], "", add_taint, "haunting"))

    script.cluster.store.on_write(haunt)


HASTY: Final = Settings(settling_seconds=60.0, consolidation_interval_seconds=10.0, scale_down_delay_seconds=20.0)
OWN_SCHEDULER: Final = Settings(scheduler=SchedulerSettings(enabled=True))
LIMITED: Final = Settings(limits=PoolLimits(nodes=ALL_POOLS))


def _alone(name: str, begin: Callable[[Script], None], hours: float, **more: Any) -> Behaviour:
    return Behaviour(name, begin, is_wide=True, is_alone=True, lasts_seconds=hours * HOUR, **more)


WORLDS: Final[tuple[Behaviour, ...]] = (
    Behaviour("operators", operators, is_wide=True, settles_seconds=1800.0),
    Behaviour("swarm", swarm, is_wide=True),
    Behaviour("called off", called_off, is_wide=True),
    Behaviour("second thoughts", second_thoughts, is_wide=True),
    Behaviour("asked to go", asked_to_go, is_wide=True, settles_seconds=4500.0),
    Behaviour("jobs made anew", made_anew, is_wide=True),
    Behaviour("databases", databases, is_wide=True),
    Behaviour("gang", gang, OWN_SCHEDULER, is_wide=True),
    Behaviour("volumes", volumes, OWN_SCHEDULER, is_wide=True, settles_seconds=1800.0),
    Behaviour("queue", queue, OWN_SCHEDULER, is_wide=True, settles_seconds=3600.0),
    Behaviour("blocked", blocked, is_wide=True, settles_seconds=1800.0),
    Behaviour("slow goodbye", slow_goodbye, is_wide=True, settles_seconds=2 * SLOW_GOODBYE_SECONDS + 1800),
    Behaviour("foreign nodes", foreign_nodes, is_wide=True),
    Behaviour("protected nodes", protected_nodes, is_wide=True),
    Behaviour("hopeless", hopeless, is_wide=True),
    Behaviour("tainted pool", tainted_pool, is_wide=True),
    _alone("limits of all", limits_of_all, 0.0, settings=LIMITED),
    _alone("broken image", broken_image, 10.0, settles_seconds=3 * HOUR),
    _alone("haunted jobs", haunted_jobs, 8.0),
    _alone("broken buffer", broken_buffer, 8.0, settles_seconds=3 * HOUR),
    _alone("sick nodes", sick_nodes, 1.0),
    _alone("sick and needed", sick_and_needed, 1.0, settles_seconds=1800.0),
    _alone("erased records", erased_records, 0.2, settles_seconds=3 * HOUR),
    _alone("at Hetzner", at_hetzner, 0.0, is_at_hetzner=True),
)
