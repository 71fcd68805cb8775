"""What else happens that nobody planned for? Behaviours that wide seeds draw: budgets, pools and pods that are changed
in the very moment in which growth relies on them, Nodes that come again, pools that look alike, writes that a webhook
refuses.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from growth.model.node import POOL_LABEL
from growth.sim.apiserver.kinds import BY_NAME, NODE, Json
from growth.sim.apiserver.objects import deployment, disruption_budget, node_pool, pod
from growth.sim.faults import kinds
from growth.sim.faults.duration import Duration
from growth.sim.stories.script import POOL, Behaviour, Script
from growth.sim.stories.worlds import EVERYTHING, HASTY, HOUR, NO_WINDOW, on

BUDGET: Final = BY_NAME["PodDisruptionBudget"]
REFUSED: Final = ("nodes", "nodepools", "noderequests", "noderemovalrequests", "pods")


def second_guessed(script: Script) -> None:
    """Budgets are changed again and again while nodes are emptied: nobody may leave, then one, then nobody."""
    chance = script.chance
    script.cluster.create(node_pool("moved", "CX33", "CX32", consolidation="Full", budgets=NO_WINDOW))
    script.cluster.create(deployment("mover", 12, "900m", "1Gi", **on("moved")))
    script.cluster.create(disruption_budget("mover", "mover", maxUnavailable=2))
    script.at(0.3 * script.lasts_seconds, partial(script.replicas, "mover", chance.randint(3, 7)))

    def allow(count: int, budget: Json) -> None:
        budget["spec"]["maxUnavailable"] = count

    for number in range(12):
        change = partial(allow, 0 if number % 2 == 0 else 2)
        at = (0.3 + 0.05 * number) * script.lasts_seconds + chance.uniform(0, 10)
        script.at(at, partial(script.cluster.verbs.modify, BUDGET, "mover", "default", change, "user"))


def edited_pool(script: Script) -> None:
    """No machine becomes Ready, and somebody changes the pool again and again; in the end it works."""
    chance, mended = script.chance, 0.7 * script.lasts_seconds
    script.cluster.create(node_pool("edited", *chance.sample(["CX33", "CX32", "CX31"], chance.randint(1, 2))))
    script.cluster.create(deployment("hoping", chance.randint(1, 8), "1500m", "1Gi", **on("edited")))
    script.plan_fault(kinds.NeverReady(until=Duration(mended)))

    def edit(number: int, pool: Json) -> None:
        pool["spec"]["labels"] = {"example.com/try": str(number)}

    at, number = 60.0, 0
    while at < 0.95 * script.lasts_seconds:
        script.at(at, partial(script.cluster.verbs.modify, POOL, "edited", "", partial(edit, number), "user"))
        at, number = at + chance.choice([30.0, 400.0, 1500.0]) * chance.uniform(0.5, 1.5), number + 1


def made_again(script: Script) -> None:
    """An operator deletes pods and makes them again under their names, also while machines for them come."""
    chance = script.chance
    script.cluster.create(node_pool("shift", "CX33"))

    def make(number: int) -> None:
        cpu = chance.choice(["1200m", "1500m"])
        script.cluster.create(pod(f"shift-{number}", cpu, "1Gi", labels={"app": "shift"}, **on("shift")))

    for number in range(chance.randint(2, 6)):
        script.at(chance.uniform(0, 10), partial(make, number))
        for _ in range(chance.randint(1, 4)):
            at = chance.uniform(10, script.lasts_seconds - 60)
            script.at(at, partial(script.cluster.delete, "Pod", f"shift-{number}", "default"))
            script.at(at + 40, partial(make, number))


def registered_again(script: Script) -> None:
    """A user deletes Nodes whose machines run, and their kubelets register them again a while later."""
    chance = script.chance
    script.cluster.create(deployment("resident", chance.randint(3, 6), "3", "1Gi"))

    def lose_some_node() -> None:
        names = [stored.name for stored in script.cluster.store.all(NODE) if stored.name.startswith("default-")]
        if names:
            name = chance.choice(names)
            script.cluster.delete("Node", name)
            script.at(chance.choice([1.0, 30.0, 120.0]), partial(script.cluster.kubelets.restarted, name))

    for _ in range(chance.randint(1, 3)):
        script.at_some_time(lose_some_node, earliest=0.2)


def twins(script: Script) -> None:
    """Two pools with the same labels, of which one never brings a node: the pods run on the other."""
    chance = script.chance
    for name, server_type in (("left", "CX33"), ("right", "CX32")):
        script.cluster.create(node_pool(name, server_type, labels={"example.com/team": "both"}, budgets=NO_WINDOW))
    term = {"matchExpressions": [{"key": POOL_LABEL, "operator": "In", "values": ["left", "right"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    script.cluster.create(
        deployment("either-side", chance.randint(1, 6), "1500m", "1Gi", affinity={"nodeAffinity": required})
    )
    broken = chance.choice([kinds.NeverReady(offering="sim-cx33"), kinds.NeverBoots(offering="sim-cx32")])
    script.plan_fault(broken)


def refusing_webhook(script: Script) -> None:
    """For ten minutes a webhook refuses what growth writes to objects of one kind."""
    chance = script.chance
    script.cluster.create(deployment("caller", chance.randint(2, 8), "1500m", "1Gi"))
    script.at(0.4 * script.lasts_seconds, partial(script.replicas, "caller", chance.randint(0, 10)))
    begins = chance.uniform(0, 0.6) * script.lasts_seconds
    until = Duration(min(begins + 600, 0.95 * script.lasts_seconds))
    for verb in ("create", "patch"):
        status, resource = chance.choice([403, 400]), chance.choice(REFUSED)
        script.plan_fault(
            kinds.ApiError(begins=Duration(begins), until=until, status=status, verb=verb, resource=resource)
        )


def wrong_clocks(script: Script) -> None:
    """Machines whose clocks are minutes off report when their nodes became Ready; load comes and goes."""
    chance = script.chance
    script.cluster.kubelets.clocks_off_seconds = chance.choice([-600.0, -120.0, 120.0, 600.0])
    script.cluster.create(deployment("timeless", chance.randint(3, 8), "1500m", "1Gi"))
    for share in (0.4, 0.7):
        script.at(share * script.lasts_seconds, partial(script.replicas, "timeless", chance.randint(0, 10)))


def other_names(script: Script) -> None:
    """Machines register under names of their own, or say that they are machines of nobody; pods come to them all the
    same. Later new machines are as they should be.
    """
    chance, kubelets = script.chance, script.cluster.kubelets
    script.cluster.create(node_pool("renamed", *chance.sample(["CX33", "CX32", "CX31"], chance.randint(1, 2))))
    script.cluster.create(deployment("tenant", chance.randint(1, 6), "1500m", "1Gi", **on("renamed")))
    script.cluster.create(deployment("agent", chance.randint(0, 2), "100m", "64Mi", tolerations=EVERYTHING))
    if chance.random() < 0.5:
        kubelets.name_for = lambda server: f"ip-10-0-0-{server.server_id}"
    else:
        kubelets.provider_id_for = lambda server: f"metal:///rack-7/{server.server_id}0"

    def mend() -> None:
        kubelets.name_for = kubelets.provider_id_for = None

    script.at(0.6 * script.lasts_seconds, mend)


ODDITIES: Final[tuple[Behaviour, ...]] = (
    Behaviour("second guessed", second_guessed, HASTY, is_wide=True, settles_seconds=1800.0),
    Behaviour("wrong clocks", wrong_clocks, is_wide=True, settles_seconds=1800.0),
    Behaviour("made again", made_again, is_wide=True),
    Behaviour("registered again", registered_again, is_wide=True, settles_seconds=1800.0),
    Behaviour(
        "edited pool", edited_pool, is_wide=True, is_alone=True, lasts_seconds=6 * HOUR, settles_seconds=4 * HOUR
    ),
    Behaviour(
        "other names", other_names, is_wide=True, is_alone=True, lasts_seconds=6 * HOUR, settles_seconds=4 * HOUR
    ),
    Behaviour("twins", twins, is_wide=True, is_alone=True, lasts_seconds=HOUR, settles_seconds=HOUR),
    Behaviour(
        "refusing webhook",
        refusing_webhook,
        is_wide=True,
        is_alone=True,
        lasts_seconds=0.4 * HOUR,
        settles_seconds=HOUR,
    ),
)
