"""How many pods may be disrupted now? Keeps the status of PodDisruptionBudgets, which evictions look at."""

from __future__ import annotations

import math
from functools import partial
from typing import Final

from growth.sim.agents.timers import Nudge
from growth.sim.agents.workloads import is_active, is_ready
from growth.sim.apiserver.kinds import BY_NAME, POD, Json
from growth.sim.apiserver.refusal import Refusal
from growth.sim.apiserver.selecting import matches_selector
from growth.sim.apiserver.store import Write
from growth.sim.apiserver.verbs import Verbs

BUDGET: Final = BY_NAME["PodDisruptionBudget"]
STEP_SECONDS: Final = 0.1


class DisruptionBudgets:
    """All budgets, whenever a pod or a budget changes."""

    def __init__(self, verbs: Verbs) -> None:
        self._verbs = verbs
        self._step = Nudge(STEP_SECONDS, self._count)
        verbs.store.on_write(self._hear)

    def _hear(self, write: Write) -> None:
        if write.kind is BUDGET or (write.kind is POD and self._verbs.store.shelf(BUDGET).items):
            self._step()

    def _count(self) -> None:
        for budget in list(self._verbs.store.read_all(BUDGET)):
            status = {**(budget.get("status") or {}), **self._status(budget)}
            if status != budget.get("status"):
                metadata = budget["metadata"]
                try:
                    self._verbs.modify(
                        BUDGET,
                        metadata["name"],
                        metadata["namespace"],
                        partial(_set, status),
                        "disruption-controller",
                        "status",
                    )
                except Refusal:
                    continue  # changed meanwhile: heard of again

    def _status(self, budget: Json) -> Json:
        spec, namespace = budget["spec"], budget["metadata"]["namespace"]
        pods = [
            pod
            for pod in self._verbs.store.read_all(POD, namespace)
            if matches_selector(spec.get("selector"), pod["metadata"].get("labels") or {})
        ]
        expected = sum(pod["status"].get("phase") not in ("Succeeded", "Failed") for pod in pods)
        going = {
            name
            for name in (budget.get("status") or {}).get("disruptedPods") or {}
            if any(pod["metadata"]["name"] == name and is_active(pod) for pod in pods)
        }
        healthy = sum(is_ready(pod) and pod["metadata"]["name"] not in going for pod in pods)
        desired = (
            _amount(spec["minAvailable"], expected)
            if "minAvailable" in spec
            else max(0, expected - _amount(spec.get("maxUnavailable", 1), expected))
        )
        disrupted = {
            name: at for name, at in ((budget.get("status") or {}).get("disruptedPods") or {}).items() if name in going
        }
        counts: Json = {
            "expectedPods": expected,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "disruptionsAllowed": max(0, healthy - desired),
        }
        return {**counts, "disruptedPods": disrupted, "observedGeneration": budget["metadata"].get("generation", 0)}


def _amount(value: int | str, total: int) -> int:
    return math.ceil(total * int(value.rstrip("%")) / 100) if isinstance(value, str) else value


def _set(status: Json, item: Json) -> None:
    item["status"] = status
