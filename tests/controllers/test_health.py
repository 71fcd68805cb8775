"""What is wrong is told once and then each minute, and only what is wrong inside makes a process look dead."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from structlog.testing import capture_logs

from growth.controllers.health import Health
from growth.kube.election import LeaseSettings
from growth.sim.clock import SimRuntime, run_virtual


class Patient:
    """All that Health asks, to be set by a test."""

    def __init__(self) -> None:
        self.runtime = SimRuntime("health")
        self.dead: tuple[str, ...] = ()
        self.unsure: tuple[str, ...] = ()
        self.is_filled = True
        self.leads = True
        self.missing: tuple[str, ...] = ()
        self.alive, self.holder, self.trying, self.leading = True, "another", "", ""
        self.health = Health(self._growth(), self, self._thread())  # type: ignore[arg-type]

    def _growth(self) -> Any:
        fence = SimpleNamespace(holds=lambda: self.leads)
        return SimpleNamespace(
            runtime=self.runtime, fence=fence, why_not_alive=lambda: self.dead, why_not_sure=lambda: self.unsure
        )

    def _thread(self) -> Any:
        patient = self

        class Election:
            settings = LeaseSettings()
            holder = property(lambda _self: patient.holder)

            def why_not_trying(self) -> str:
                return patient.trying

            def why_not_leading(self) -> str:
                return patient.leading

        class Thread:
            election = Election()
            alive = property(lambda _self: patient.alive)

        return Thread()

    async def told(self, seconds: int) -> list[tuple[str, str, str]]:
        """Level, event and reason of each line in so many seconds."""
        with capture_logs() as lines:
            for _ in range(seconds):
                self.health.tell()
                await self.runtime.sleep(1.0)
        return [(line["log_level"], line["event"], line.get("why", "")) for line in lines]


def examined(test: Callable[[Patient], Any]) -> None:
    async def run() -> None:
        await test(Patient())

    run_virtual(run())


def test_what_growth_waits_for_is_told_at_once_and_each_minute_and_that_it_is_over() -> None:
    async def test(patient: Patient) -> None:
        patient.leads, patient.missing = False, ("the namespace nowhere does not exist",)
        waits = ("warning", "growth waits", "the namespace nowhere does not exist")
        lease = ("info", "growth waits for leadership", "the Lease growth-system/growth is held by another")
        assert await patient.told(130) == [waits, lease] * 3
        patient.leads, patient.missing = True, ()
        assert await patient.told(200) == [("info", "growth is ready", ""), ("info", "growth leads", "")]

    examined(test)


def test_once_it_was_ready_it_does_not_wait_but_cannot_act_and_numbers_that_grow_are_no_news() -> None:
    async def test(patient: Patient) -> None:
        await patient.told(1)
        said = []
        for seconds in range(56, 86):
            patient.unsure = (f"the list is {seconds} s old",)
            said += await patient.told(1)
        assert said == [("warning", "growth cannot act", "the list is 56 s old")]

    examined(test)


def test_only_what_is_inside_makes_it_look_dead_and_that_is_an_error() -> None:
    async def test(patient: Patient) -> None:
        patient.unsure, patient.missing, patient.leading = ("provider",), ("right",), "the Lease cannot be taken"
        assert patient.health.why_not_alive() == ()
        assert patient.health.why_not_ready() == ("right", "the Lease cannot be taken", "provider")
        patient.dead, patient.trying = ("a task has ended: loop",), "the lease was not tried for 31 s"
        assert patient.health.why_not_alive() == ("a task has ended: loop", "the lease was not tried for 31 s")
        assert ("error", "growth is not alive", "a task has ended: loop") in await patient.told(1)
        patient.alive = False
        assert "the thread of the lease has ended" in patient.health.why_not_alive()

    examined(test)
