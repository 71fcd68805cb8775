"""The objects of a case: nodes, bound pods, namespaces and the waiting pod with the parts each rule looks at."""

from __future__ import annotations

from tests.oracle.draws import APPS, HOSTNAME, NAMESPACES, REGION, TOPOLOGY_KEYS, ZONE, ZONES, Draws, Json

TAINT_KEYS = ("gpu", "dedicated", "spot")
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
GPU = "example.com/gpu"
RESOURCES = {
    "cpu": ("100m", "250m", "1", "1500m"),
    "memory": ("64Mi", "1Gi", "1.5Gi", "1000000k"),
    "ephemeral-storage": ("1Gi", "500M"),
    GPU: ("1", "2"),
    "hugepages-2Mi": ("2Mi",),
}


def namespace(draws: Draws, name: str) -> Json:
    labels = {"team": name[-1]} if name.startswith("team") else {}
    return {"metadata": {"name": name, "labels": labels if draws.chance(0.8) else {}}}


def node(draws: Draws, name: str) -> Json:
    labels = {HOSTNAME: name, ZONE: draws.one(ZONES)}
    if draws.chance(0.08):
        del labels[draws.one((HOSTNAME, ZONE))]
    if draws.chance(0.4):
        labels["rack"] = draws.one(("1", "2"))
    if draws.chance(0.3):
        labels[REGION] = draws.one(("eu", "us"))
    if draws.chance(0.5):
        labels["disktype"] = draws.one(("ssd", "hdd"))
    if draws.chance(0.4):
        labels["size"] = draws.one(("1", "5", "10", "abc", "007", "9223372036854775808"))
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "20", "ephemeral-storage": "50Gi"}
    if draws.chance(0.3):
        allocatable |= {GPU: str(draws.number(0, 3)), "hugepages-2Mi": "4Mi"}
    return {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": {"allocatable": allocatable}}


def taint(draws: Draws) -> Json:
    value = draws.one(({"value": "true"}, {"value": "false"}, {"value": "7"}, {}))
    return {"key": draws.one(TAINT_KEYS), "effect": draws.one(EFFECTS), **value}


def toleration(draws: Draws) -> Json:
    if draws.chance(0.1):
        return {
            "key": draws.one(TAINT_KEYS),
            "operator": draws.one(("Gt", "Lt")),
            "value": draws.one(("5", "9", "007")),
            "effect": draws.one(EFFECTS),
        }
    operator = draws.one(("Exists", "Equal", None))
    made: Json = {} if operator is None else {"operator": operator}
    if draws.chance(0.9) or operator != "Exists":
        made["key"] = draws.one(TAINT_KEYS)
    if operator != "Exists" and draws.chance(0.8):
        made["value"] = draws.one(("true", "false", "7"))
    if draws.chance(0.6):
        made["effect"] = draws.one(EFFECTS)
    return made


def container(draws: Draws, name: str, share: float = 0.4) -> Json:
    requests = {
        key: draws.one(values)
        for key, values in RESOURCES.items()
        if draws.chance(share if key in ("cpu", "memory") else share / 4)
    }
    if "hugepages-2Mi" in requests:
        requests.setdefault("cpu", "100m")
    limits = {key: requests[key] for key in (GPU, "hugepages-2Mi") if key in requests}
    return {"name": name, "image": "image", "resources": {"requests": requests, "limits": limits}}


def pod(draws: Draws, name: str, share: float = 0.4) -> Json:
    spec: Json = {"containers": [container(draws, "main", share)]}
    if draws.chance(0.15):
        spec["initContainers"] = [container(draws, "first", share)]
        if draws.chance(0.5):
            spec["initContainers"][0]["restartPolicy"] = "Always"
    if draws.chance(0.05):
        spec["overhead"] = {"cpu": "50m"}
    if draws.chance(0.06):
        spec["resources"] = {"requests": {"cpu": "4", "memory": "3Gi"}}
    if draws.chance(0.05):
        spec["hostNetwork"] = True
        spec["containers"][0]["ports"] = [{"containerPort": 8080, "hostPort": 8080}]
    if draws.chance(0.08):
        resources = spec["containers"][0]["resources"]
        resources["limits"] = resources.pop("requests") | resources["limits"]
    return {
        "metadata": {"name": name, "namespace": draws.one(NAMESPACES), "uid": f"uid-{name}", "labels": draws.labels()},
        "spec": spec,
        "status": {},
    }


def resize(draws: Draws, target: Json) -> None:
    """A bound pod whose resources are being changed in place: what it has and what it was given count too."""
    amounts: tuple[Json, ...] = ({"cpu": "2", "memory": "1Gi"}, {"cpu": "50m"}, {"memory": "6Gi"}, {})
    status: Json = {
        "name": "main",
        "resources": {"requests": draws.one(amounts)},
        "allocatedResources": draws.one(amounts),
    }
    target["status"]["containerStatuses"] = [status]
    if draws.chance(0.4):
        reason = draws.one(("Infeasible", "Deferred"))
        target["status"]["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": reason}]
    if "resources" in target["spec"]:
        target["status"] |= {"resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"memory": "5Gi"}}


def host_port(draws: Draws) -> Json:
    port: Json = {
        "containerPort": 80,
        "hostPort": draws.one((8080, 8081)),
        "protocol": draws.one(("TCP", "TCP", "UDP")),
    }
    ip = draws.one((None, "0.0.0.0", "10.0.0.1", "10.0.0.2"))  # noqa: S104
    return port | ({"hostIP": ip} if ip else {})


def pod_term(draws: Draws) -> Json:
    term: Json = {"topologyKey": draws.one(TOPOLOGY_KEYS)}
    selector = draws.selector()
    if selector is not None:
        term["labelSelector"] = selector
    if draws.chance(0.3):
        term["namespaces"] = draws.at_least_one(NAMESPACES)
    if draws.chance(0.3):
        term["namespaceSelector"] = draws.namespace_selector()
    return term


def require(target: Json, part: str, terms: list[Json]) -> None:
    """Put required terms of pod affinity (or anti-affinity) into a pod."""
    affinity = target["spec"].setdefault("affinity", {})
    affinity.setdefault(part, {})["requiredDuringSchedulingIgnoredDuringExecution"] = terms


def node_expression(draws: Draws) -> Json:
    operator = draws.one(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    if operator in ("Gt", "Lt"):
        return {
            "key": draws.one(("size", "size", "disktype")),
            "operator": operator,
            "values": [draws.one(("0", "5", "8", "007"))],
        }
    key = draws.one(("disktype", ZONE, "size", HOSTNAME, "rack"))
    values = {
        "disktype": ("ssd", "hdd"),
        ZONE: ZONES,
        "size": ("1", "5", "10"),
        HOSTNAME: ("n0", "n1"),
        "rack": ("1", "2"),
    }[key]
    return {
        "key": key,
        "operator": operator,
        **({"values": draws.at_least_one(values)} if operator in ("In", "NotIn") else {}),
    }


def node_term(draws: Draws) -> Json:
    term: Json = {}
    if draws.chance(0.85):
        term["matchExpressions"] = [node_expression(draws) for _ in range(draws.number(1, 2))]
    if draws.chance(0.2):
        field = {
            "key": "metadata.name",
            "operator": draws.one(("In", "NotIn")),
            "values": [draws.one(("n0", "n1", "n2"))],
        }
        term["matchFields"] = [field]
        if draws.chance(0.2):
            term["matchFields"].append({**field, "values": ["n1"]})
    return term


def node_affinity(draws: Draws, target: Json) -> None:
    terms = [node_term(draws) for _ in range(draws.number(1, 2))]
    target["spec"].setdefault("affinity", {})["nodeAffinity"] = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
    }


def spread(draws: Draws) -> Json:
    made: Json = {
        "maxSkew": draws.one((1, 1, 2)),
        "topologyKey": draws.one(TOPOLOGY_KEYS),
        "whenUnsatisfiable": "DoNotSchedule" if draws.chance(0.9) else "ScheduleAnyway",
    }
    selector = draws.selector()
    if selector is not None:
        made["labelSelector"] = selector
    if draws.chance(0.25) and made["whenUnsatisfiable"] == "DoNotSchedule":
        made["minDomains"] = draws.number(1, 4)
    if draws.chance(0.3):
        made["nodeAffinityPolicy"] = draws.one(("Honor", "Ignore"))
    if draws.chance(0.3):
        made["nodeTaintsPolicy"] = draws.one(("Honor", "Ignore"))
    if draws.chance(0.15) and selector is not None:
        made["matchLabelKeys"] = draws.at_least_one(("version", "absent"))
    return made


def sibling_app(draws: Draws, target: Json) -> str:
    """Mostly the pod's own app: rules about one's like meet more often."""
    return str(target["metadata"]["labels"]["app"]) if draws.chance(0.6) else draws.one(APPS)
