"""What do users do who keep room and pools ready? Behaviours drawn at random: CapacityBuffers of every form under every
rule, limit and quota, and warm pools of every kind, claimed, released and scaled by hand.

Each buffer has a pool of nodes of its own, so that the laws can reckon what it is owed (`sim/laws/room`); a rival that
exists may want the same nodes. Each warm pool is an app of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from growth.model.node import POOL_LABEL
from growth.sim.apiserver import objects
from growth.sim.apiserver.kinds import BY_NAME, CLAIMED, Json
from growth.sim.stories.script import Behaviour, Script

HOUR: Final = 3600.0
ZONE: Final = "topology.kubernetes.io/zone"
HOST: Final = "kubernetes.io/hostname"
_KINDS: Final = ("Deployment", "StatefulSet", "ReplicaSet", "PodTemplate")
_MAKERS: Final[dict[str, Callable[..., Json]]] = {
    "Deployment": objects.deployment,
    "StatefulSet": objects.stateful_set,
    "ReplicaSet": objects.replica_set,
}


# ------------------------------------------------------------------------------------------- buffers


def reserves(script: Script) -> None:
    """Buffers of all forms, their workloads scaled, their sizes and limits changed, some deleted."""
    for number in range(script.chance.randint(1, 3)):
        _reserve(script, f"reserve-{number}")


def _reserve(script: Script, name: str) -> None:
    chance, namespace = script.chance, name
    script.cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    cpu, kind = chance.choice(["300m", "900m", "1500m", "3", "90"]), chance.choice(_KINDS)
    cpu = "3" if cpu == "90" and chance.random() < 0.7 else cpu  # too large for any machine, now and then
    types = chance.sample(["CX33", "CX32", "CX31"], chance.randint(1, 3))
    script.cluster.create(objects.node_pool(name, *_choices(script, types), **_limits(script)))
    shape: Any = {"nodeSelector": {POOL_LABEL: name}, **_rule(script, name)}
    if kind == "PodTemplate":
        script.cluster.create(objects.pod_template(name, cpu, "256Mi", namespace, **shape))
    else:
        script.cluster.create(_MAKERS[kind](name, chance.randint(0, 3), cpu, "256Mi", namespace, **shape))
        script.expected[name] = 0  # rules and limits may keep pods out; the laws of room tell which
        for _ in range(chance.randint(0, 4)):
            script.at_some_time(partial(script.cluster.scale, kind, name, chance.randint(0, 6), namespace))
    script.cluster.create(_buffer(script, name, namespace, kind))
    _changes(script, name, namespace)
    if chance.random() < 0.4:
        rival = objects.deployment(f"rival-{name}", 0, chance.choice(["1", "3500m"]), "256Mi", namespace)
        rival["spec"]["template"]["spec"]["nodeSelector"] = {POOL_LABEL: name}
        script.cluster.create(rival)
        script.expected[f"rival-{name}"] = 0
        for _ in range(chance.randint(1, 3)):
            step = partial(script.cluster.scale, "Deployment", f"rival-{name}", chance.randint(0, 3), namespace)
            script.at_some_time(step)


def reserve_in_the_way(script: Script) -> None:
    """A buffer fills a pool up to its limits with small machines; then pods come that only larger ones hold."""
    chance, name = script.chance, "narrow"
    limits = chance.choice([{"nodes": chance.randint(1, 2)}, {"cpu": str(chance.choice([14, 16]))}])
    script.cluster.create(objects.node_pool(name, "CX33", "GEX44", limits=limits))
    script.cluster.create(objects.pod_template(name, "900m", "256Mi", nodeSelector={POOL_LABEL: name}))
    metadata, reference = {"name": name, "namespace": "default"}, {"podTemplateRef": {"name": name}}
    buffer = {"apiVersion": "autoscaling.x-k8s.io/v1alpha1", "kind": "CapacityBuffer", "metadata": metadata}
    script.cluster.create({**buffer, "spec": {"replicas": chance.randint(1, 8), **reference}})
    large = objects.deployment(f"large-{name}", 0, "13", "256Mi")
    large["spec"]["template"]["spec"]["nodeSelector"] = {POOL_LABEL: name}
    script.cluster.create(large)
    script.expected[f"large-{name}"] = 0
    script.at_some_time(partial(script.cluster.scale, "Deployment", f"large-{name}", 1), earliest=0.3)


def _choices(script: Script, types: list[str]) -> list[Json]:
    chance = script.chance
    return [{"name": each, **({"max": chance.randint(1, 4)} if chance.random() < 0.4 else {})} for each in types]


def _limits(script: Script) -> Any:
    drawn = script.chance.random()
    if drawn < 0.2:
        return {"limits": {"nodes": script.chance.randint(1, 4)}}
    return {"limits": {"cpu": str(script.chance.choice([4, 8, 10, 16]))}} if drawn < 0.4 else {}


def _rule(script: Script, app: str) -> Any:
    """What a chunk says of other pods."""
    selector, chance = {"labelSelector": {"matchLabels": {"app": app}}}, script.chance
    drawn = chance.choice(["", "", "apart", "zones apart", "port", "zones", "hosts"])
    if drawn in ("apart", "zones apart"):
        term = {**selector, "topologyKey": HOST if drawn == "apart" else ZONE}
        return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    if drawn in ("zones", "hosts"):
        keys = {"topologyKey": ZONE if drawn == "zones" else HOST, "whenUnsatisfiable": "DoNotSchedule"}
        return {"topologySpreadConstraints": [{**selector, **keys, "maxSkew": chance.randint(1, 2)}]}
    return {"hostPort": chance.randint(8000, 8005)} if drawn == "port" else {}


def _buffer(script: Script, name: str, namespace: str, kind: str) -> Json:
    chance = script.chance
    spec: Json = {"replicas": chance.randint(0, 5)}
    if kind == "PodTemplate":
        spec["podTemplateRef"] = {"name": name}
    else:
        spec["scalableRef"] = {"apiGroup": "apps", "kind": kind, "name": name}
        drawn = chance.random()
        spec |= {"percentage": chance.choice([10, 50, 100, 200])} if drawn < 0.4 else {}
        if drawn < 0.2:
            del spec["replicas"]
    spec |= {"limits": {"cpu": str(chance.randint(1, 12))}} if chance.random() < 0.2 else {}
    version = chance.choice(["v1alpha1", "v1beta1"])
    metadata = {"name": name, "namespace": namespace}
    return {
        "apiVersion": f"autoscaling.x-k8s.io/{version}",
        "kind": "CapacityBuffer",
        "metadata": metadata,
        "spec": spec,
    }


def _changes(script: Script, name: str, namespace: str) -> None:
    chance, cluster = script.chance, script.cluster
    if chance.random() < 0.3:
        hard = (
            {"pods": str(chance.randint(0, 4))}
            if chance.random() < 0.5
            else {"requests.cpu": str(chance.randint(1, 6))}
        )
        script.at_some_time(partial(cluster.create, objects.resource_quota("team", namespace, **hard)))
        if chance.random() < 0.5:
            script.at_some_time(partial(cluster.delete, "ResourceQuota", "team", namespace), earliest=0.6)
    if chance.random() < 0.4:
        change = {"replicas": chance.randint(0, 8)}
        script.at_some_time(partial(_change, script, "CapacityBuffer", name, namespace, change))
    if chance.random() < 0.3:
        limits = {"limits": {"nodes": chance.randint(1, 6)}}
        script.at_some_time(partial(_change, script, "NodePool", name, "", limits))
    if chance.random() < 0.1:
        script.at_some_time(partial(cluster.delete, "CapacityBuffer", name, namespace), earliest=0.5)


def _change(script: Script, kind: str, name: str, namespace: str, spec: Json) -> None:
    def change(item: Json) -> None:
        item["spec"] |= spec

    script.cluster.verbs.modify(BY_NAME[kind], name, namespace, change, "user")


# ---------------------------------------------------------------------------------------- warm pools


def kept_warm(script: Script) -> None:
    """Warm pools of all kinds; members are claimed and released, people scale by hand, bounds are raised."""
    script.cluster.create(objects.node_pool("warmth", "CX33", "CX32"))
    for number in range(script.chance.randint(1, 3)):
        _keep_warm(script, f"agents-{number}")


def _keep_warm(script: Script, name: str) -> None:
    chance = script.chance
    kind = chance.choice([*_MAKERS, "SandboxSet", "SandboxWarmPool"])
    shape: Any = {"nodeSelector": {POOL_LABEL: "warmth"}}
    replicas = chance.randint(0, 12)
    if kind == "SandboxWarmPool":
        script.cluster.create(objects.sandbox_template(f"{name}-template", name, "200m", "128Mi", **shape))
        script.cluster.create(objects.sandbox_warm_pool(name, replicas, f"{name}-template"))
    else:
        make: Callable[..., Json] = _MAKERS.get(kind, objects.sandbox_set)
        script.cluster.create(make(name, replicas, "200m", "128Mi", **shape))
    for scaler in (name, f"{name}-again")[: 2 if chance.random() < 0.15 else 1]:
        script.cluster.create(_autoscaler(script, scaler, name, kind))
    for _ in range(chance.randint(2, 5)):
        script.at_some_time(partial(script.claim_agents, chance.randint(1, 5), name))
        script.at_some_time(partial(script.release_agents, name))
    for _ in range(chance.randint(0, 3)):
        script.at_some_time(partial(script.cluster.scale, kind, name, chance.randint(0, 15)))
    if chance.random() < 0.3:
        more = {"maxReplicas": chance.randint(20, 30)}
        script.at_some_time(partial(_change, script, "PoolAutoscaler", name, "default", more))
    if chance.random() < 0.2:
        script.at_some_time(
            partial(_change, script, "PoolAutoscaler", name, "default", {"suspend": True}), earliest=0.6
        )


def _autoscaler(script: Script, name: str, of: str, kind: str) -> Json:
    chance = script.chance
    made = objects.pool_autoscaler(name, of, chance.randint(0, 3), chance.randint(6, 14))
    groups = {"SandboxSet": "agents.kruise.io/v1alpha1", "SandboxWarmPool": "extensions.agents.x-k8s.io/v1alpha1"}
    made["spec"]["scaleTargetRef"] |= {"apiVersion": groups.get(kind, "apps/v1"), "kind": kind}
    policy: Json = {"targetAvailable": chance.randint(2, 6), "tolerance": 1 if chance.random() < 0.5 else "10%"}
    if chance.random() < 0.4:
        policy = {"targetAvailable": f"{chance.randint(30, 80)}%", "tolerance": f"{chance.choice([10, 20])}%"}
        policy |= {"tolerance": 1} if chance.random() < 0.3 else {}
    if chance.random() < 0.2:
        policy["scaleDown"] = {"tolerance": "30%" if isinstance(policy["targetAvailable"], str) else 2}
    if kind in _MAKERS and chance.random() < 0.85:
        policy["inUse"] = {"matchExpressions": [{"key": CLAIMED, "operator": "Exists"}]}
    if chance.random() < 0.85:
        made["spec"]["capacityPolicy"] = policy
    else:
        del made["spec"]["capacityPolicy"]
    return made


RESERVES: Final[tuple[Behaviour, ...]] = (
    Behaviour("reserves", reserves, is_wide=True, settles_seconds=3 * HOUR),
    Behaviour("reserve in the way", reserve_in_the_way, is_wide=True, settles_seconds=3 * HOUR),
    Behaviour("kept warm", kept_warm, is_wide=True, settles_seconds=3 * HOUR),
)
