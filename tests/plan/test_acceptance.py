"""May this node go? The acceptance criteria of safe scale-down, one by one, put to the row that decides: marked, or
kept with its reason.

The fifth, that like is never replaced by like, is with the question that finds replacements
(`tests/solver/existing/test_exchange.py`)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from growth.model.labels import HOSTNAME, Labels, LabelSelector, Requirement
from growth.model.node import Taint
from growth.model.pod import PodAffinityTerm, PreferredPods, Toleration
from growth.model.settings import Settings
from tests.plan.builders import node
from tests.plan.nodes_down.test_consolidation import SMALL, cluster, marked_names, plan, why, works

GPU = Taint("gpu", "true")
TOLERATES_GPU = Toleration("gpu", "Equal", "true", "NoSchedule")
WEB = PodAffinityTerm(HOSTNAME, LabelSelector((Requirement("app", "In", ("web",)),)))
KEEPS_B = {"growth.dev/do-not-disrupt": "true"}


def verdict(
    fields: dict[str, Any], remaining: dict[str, Any] | None = None, there: dict[str, Any] | None = None
) -> str:
    """Of node a with one such pod, beside node b, which itself must stay."""
    of_nodes = [node("a", of=SMALL), node("b", of=SMALL, annotations=KEEPS_B, **(remaining or {}))]
    decision = plan(cluster(of_nodes, [works("p", "a", 0.5, **fields), works("q", "b", 0.5, **(there or {}))]))
    return "ALLOW" if marked_names(decision) == ["a"] else f"BLOCK: {why(decision)}"


@pytest.mark.parametrize(
    ("tolerations", "taints", "answer"),
    [
        ((TOLERATES_GPU,), (GPU,), "ALLOW"),
        ((TOLERATES_GPU,), (), "ALLOW"),  # as ruled: tolerations permit and never require
        (
            (TOLERATES_GPU,),
            (Taint("gpu", "false"),),
            "BLOCK: the node stays: pod default/p cannot be rescheduled: taint gpu=false:NoSchedule",
        ),
        ((), (GPU,), "BLOCK: the node stays: pod default/p cannot be rescheduled: taint gpu=true:NoSchedule"),
        ((Toleration(operator="Exists"),), (GPU, Taint("other", "x", "NoExecute")), "ALLOW"),
    ],
)
def test_ac1_tolerations(tolerations: tuple[Toleration, ...], taints: tuple[Taint, ...], answer: str) -> None:
    assert verdict(
        {"tolerations": tolerations}, {"taints": taints}, {"tolerations": (Toleration(operator="Exists"),)}
    ).startswith(answer)


@pytest.mark.parametrize(
    ("selector", "labels", "answer"), [("ssd", "ssd", "ALLOW"), ("ssd", "hdd", "BLOCK"), ("", "hdd", "ALLOW")]
)
def test_ac2_node_selectors(selector: str, labels: str, answer: str) -> None:
    wanted = {"node_selector": Labels({"disktype": selector})} if selector else {}
    assert verdict(wanted, {"labels": {"disktype": labels}}).startswith(answer)


@pytest.mark.parametrize(
    ("fields", "there", "answer"),
    [
        ({"anti_affinity": (WEB,)}, "db", "ALLOW"),
        ({"anti_affinity": (WEB,)}, "web", "BLOCK"),
        ({"preferred_anti_affinity": (PreferredPods(100, WEB),)}, "web", "ALLOW"),
    ],
)
def test_ac3_anti_affinity(fields: dict[str, Any], there: str, answer: str) -> None:
    assert verdict(fields, there={"labels": Labels({"app": there})}).startswith(answer)


def test_ac4_the_message_names_pod_kind_and_constraint() -> None:
    of_nodes = [node("a", of=SMALL), node("b", of=SMALL, taints=(GPU,))]
    (note,) = [note for note in plan(cluster(of_nodes, [works("p", "a")])).notes if note.about.name == "a"]
    told = dict(note.fields)
    assert (told["blocked"], told["node"], told["pod"], told["constraintType"]) == (
        "scale-down blocked",
        "a",
        "default/p",
        "toleration",
    )
    assert "gpu=true:NoSchedule" in str(told["constraint"])
    assert "pod default/p cannot be rescheduled" in note.message


def test_ac6_pods_without_wishes_move_as_long_as_all_of_them_fit_with_headroom() -> None:
    def decide(cpu: float, headroom: float) -> list[str]:
        of_nodes = [node("a", of=SMALL), node("b", of=SMALL, annotations=KEEPS_B)]
        settings = replace(Settings(disruption_window_seconds=0.0), scale_down_headroom=headroom)
        return marked_names(plan(cluster(of_nodes, [works("p", "a", cpu), works("q", "b", 1)]), settings=settings))

    assert decide(2.5, 0.2) == ["a"]
    assert decide(2.6, 0.2) == []
    assert decide(2.6, 0.0) == ["a"]
