"""growth as a scheduler on a real control plane, beside kube-scheduler: as quick, as even, never against its rules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.e2e.controlplane.cluster import ControlPlane
from tests.e2e.crowd import (
    Meter,
    Rate,
    bind_blindly,
    create,
    empty,
    measure,
    nodes,
    pods,
    wait_until_bound,
    wait_until_served,
)
from tests.e2e.running import refused_calls, running_growth
from tests.oracle.build import oracle_or_skip
from tests.oracle.oracle import ask_all

Json = dict[str, Any]
NODES, PODS, RAW_PODS = 500, 3_000, 1_000
SETTINGS = {
    "requestsPerSecond": 10_000,
    "leaderElection": False,
    "logLevel": "warning",
    "plans": {"scheduler": {"enabled": True}},
}


@pytest.mark.timeout(600)
def test_growth_binds_as_quickly_as_kube_scheduler_and_never_against_its_rules(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    rates = {"Binding requests alone": _raw(control_plane)}
    rates["kube-scheduler"], theirs = _kube_scheduler(control_plane)
    rates["growth"], ours, placed, refused = _growth(control_plane, tmp_path)
    _show(rates)
    for name, spent in (("kube-scheduler", theirs), ("growth", ours)):
        print(
            f"CPU seconds while {name} binds: "
            + ", ".join(f"{who} {seconds:.1f}" for who, seconds in sorted(spent.items(), key=lambda item: -item[1]))
        )
    assert _against_the_rules(*placed) == []
    assert refused == []
    assert rates["growth"].per_second >= rates["kube-scheduler"].per_second
    assert rates["growth"].load_deviation <= 1.1 * rates["kube-scheduler"].load_deviation


def _raw(cluster: ControlPlane) -> Rate:
    empty(cluster)
    targets, made = nodes(NODES), pods(RAW_PODS, "nobody")
    create(cluster, [*targets, *made])
    wait_until_served(cluster)
    cluster.forget_audit_events()
    with _silent_kubelets(cluster):
        bind_blindly(cluster, [one["metadata"]["name"] for one in made], [one["metadata"]["name"] for one in targets])
        return measure(cluster, RAW_PODS)


@contextmanager
def _silent_kubelets(cluster: ControlPlane) -> Iterator[None]:
    """kwok writes the status of each pod that was bound, and the API server's time for that is taken from whoever
    binds: the more, the less CPU the scheduler itself leaves to kwok. Nodes stay Ready for most of a minute without it.
    """
    cluster.stop_component("kwok", kill=True)
    try:
        yield
    finally:
        cluster.start_component("kwok")


def _kube_scheduler(cluster: ControlPlane) -> tuple[Rate, dict[str, float]]:
    """Pods first, then the scheduler: so its own speed is measured, not that of their maker."""
    empty(cluster)
    cluster.stop_component("kube-scheduler")
    create(cluster, [*nodes(NODES), *pods(PODS, "default-scheduler")])
    wait_until_served(cluster)
    cluster.forget_audit_events()
    with _silent_kubelets(cluster):
        cluster.start_component("kube-scheduler")
        meter = Meter(cluster)
        wait_until_bound(cluster, 120)
        spent = meter.spent()
        return measure(cluster, PODS), spent


def _growth(
    cluster: ControlPlane, folder: Path
) -> tuple[Rate, dict[str, float], tuple[list[Json], list[Json]], list[str]]:
    empty(cluster)
    create(cluster, [*nodes(NODES), *pods(PODS, "growth")])
    wait_until_served(cluster)
    cluster.forget_audit_events()
    with _silent_kubelets(cluster), running_growth(cluster, folder, SETTINGS) as growth:
        meter = Meter(cluster, growth=growth.pid)
        wait_until_bound(cluster, 120)
        spent = meter.spent()
        rate = measure(cluster, PODS)
    placed = [_at_rest(node) for node in cluster.objects("nodes")], cluster.objects("pods", "--namespace=default")
    refused = refused_calls(cluster)
    empty(cluster)  # the next test finds nothing of all this
    return rate, spent, placed, refused


def _at_rest(node: Json) -> Json:
    """Without the taints of a node whose heartbeat came late: on a busy machine some come after the pods."""
    late = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
    taints = [taint for taint in node["spec"].get("taints", ()) if taint["key"] not in late]
    return {**node, "spec": {**node["spec"], "taints": taints}}


def _show(rates: dict[str, Rate]) -> None:
    print(
        "\n| who | pods bound | per second | of the raw rate | deviation of load | price of used nodes |\n"
        "| --- | ---: | ---: | ---: | ---: | ---: |"
    )
    raw = rates["Binding requests alone"].per_second
    for name, rate in rates.items():
        print(
            f"| {name} | {rate.bound} | {rate.per_second:.0f} | {rate.per_second / raw:.0%} | "
            f"{rate.load_deviation:.4f} | {rate.price_per_hour:.1f} |"
        )


# ------------------------------------------------------------ kube-scheduler's own plugins as judge


def _against_the_rules(found: list[Json], placed: list[Json]) -> list[str]:
    """Each pod taken off and asked about again: which would kube-scheduler's plugins not put back where they were?"""
    cases = [*_by_node(found, placed), *_by_zone(found, placed)]
    truths = ask_all(oracle_or_skip(), [msgspec.json.encode(case) for case, _ in cases])
    assert len(truths) == len(cases) > NODES
    return [
        f"{case['pod']['metadata']['name']} on {node}: {truth.fails} {truth.error}"
        for (case, node), truth in zip(cases, truths, strict=True)
        if truth.fits != [node]
    ]


def _by_node(found: list[Json], placed: list[Json]) -> list[tuple[Json, str]]:
    """What a node alone can tell: one pod of each template on each node, before all others there. A spread is asked
    about by zone.
    """
    here: dict[str, list[Json]] = defaultdict(list)
    for pod in placed:
        here[pod["spec"]["nodeName"]].append(pod)
    cases = []
    for node in found:
        name = node["metadata"]["name"]
        for one in {pod["metadata"]["labels"]["app"]: pod for pod in here[name]}.values():
            others = [pod for pod in here[name] if pod is not one]
            cases.append(({"id": 0, "pod": _unbound(one, with_spread=False), "nodes": [node], "pods": others}, name))
    return cases


def _by_zone(found: list[Json], placed: list[Json]) -> list[tuple[Json, str]]:
    """Pods of one template in one zone are alike to a spread: one of each zone is asked about, on its own node, with a
    node of every other zone beside it.
    """
    zone_of = {node["metadata"]["name"]: node["metadata"]["labels"]["topology.kubernetes.io/zone"] for node in found}
    spread = [pod for pod in placed if pod["spec"].get("topologySpreadConstraints")]
    cases = []
    for one in {zone_of[pod["spec"]["nodeName"]]: pod for pod in spread}.values():
        own = one["spec"]["nodeName"]
        full = [
            {**node, "status": {**node["status"], "allocatable": {"cpu": "0", "memory": "0", "pods": "0"}}}
            for node in found
            if node["metadata"]["name"] != own
        ]
        others = [pod for pod in spread if pod is not one]
        cases.append(
            (
                {
                    "id": 0,
                    "pod": _unbound(one, with_spread=True),
                    "nodes": [*full, *(node for node in found if node["metadata"]["name"] == own)],
                    "pods": others,
                },
                own,
            )
        )
    return cases


def _unbound(pod: Json, *, with_spread: bool) -> Json:
    spec = {
        name: value
        for name, value in pod["spec"].items()
        if name != "nodeName" and (with_spread or name != "topologySpreadConstraints")
    }
    return {**pod, "spec": spec}
