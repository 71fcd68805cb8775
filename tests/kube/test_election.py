from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth.controllers.loop.runtime import SystemRuntime
from growth.kube.api.transport import Request, TransportError
from growth.kube.election import Election, ElectionThread, LeaseSettings
from growth.kube.fence import Fence
from growth.sim.clock import SimRuntime, run_virtual
from tests.kube.scripted import Answer, Hung, Json, json_answer, status_answer


class LeaseStore:
    """One Lease with resourceVersions."""

    def __init__(self) -> None:
        self.lease: Json | None = None
        self.version = 0
        self.writes = 0

    def perform(self, request: Request) -> Answer:
        if request.method == "GET":
            return json_answer(self.lease) if self.lease else status_answer(404, "NotFound")
        given_lease: dict[str, Any] = msgspec.json.decode(request.body)
        if request.method == "POST" and self.lease:
            return status_answer(409, "AlreadyExists")
        if request.method == "PUT" and not self.lease:
            return status_answer(404, "NotFound")
        if (
            request.method == "PUT"
            and self.lease
            and given_lease["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]
        ):
            return status_answer(409, "Conflict")
        self.version += 1
        self.writes += 1
        given_lease["metadata"]["resourceVersion"] = str(self.version)
        self.lease = given_lease
        return json_answer(given_lease)

    @property
    def holder(self) -> str:
        return str(self.lease["spec"].get("holderIdentity", "")) if self.lease else ""


class Wire:
    """A contender's own connection to the store, with faults for its next requests."""

    def __init__(self, store: LeaseStore, faults: list[str] | None = None) -> None:
        self.store = store
        self.faults = deque(faults or [])
        self.is_cut = False

    async def send(self, request: Request) -> Answer:
        fault = self.faults.popleft() if self.faults else ""
        if self.is_cut or fault == "lost before":
            raise TransportError("cut")
        if fault == "hang before":
            await asyncio.sleep(10_000_000)
        if fault == "slow":
            await asyncio.sleep(1.2)
        if fault == "late effect":
            asyncio.get_running_loop().call_later(6.0, self.store.perform, request)
            raise TransportError("cut")
        answer = self.store.perform(request)
        if fault == "hang after":
            await asyncio.sleep(10_000_000)
        if fault == "lost after":
            raise TransportError("cut")
        return status_answer(500, "InternalError") if fault == "500" else answer


FAULTS = ("", "", "lost before", "lost after", "hang before", "hang after", "slow", "500", "late effect")


class Contender:
    def __init__(self, store: LeaseStore, name: str, faults: list[str] | None = None, skew: float = 0.0) -> None:
        runtime = SimRuntime(name)
        runtime.skew_seconds = skew
        self.wire = Wire(store, faults)
        self.election = Election(self.wire, runtime, name)
        self.task = asyncio.get_running_loop().create_task(self.election.run())

    def leads(self) -> bool:
        return self.election.fence.holds()

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.election.release()


def test_the_first_leads_and_the_second_waits() -> None:
    async def scene() -> None:
        store = LeaseStore()
        first = Contender(store, "one")
        await asyncio.sleep(1)
        second = Contender(store, "two", skew=-86_400)
        await asyncio.sleep(300)
        assert (first.leads(), second.leads(), second.election.holder) == (True, False, "one")
        assert store.lease is not None
        assert store.lease["spec"]["leaseTransitions"] == 1
        assert 140 <= store.writes <= 160

    run_virtual(scene())


def test_a_fence_falls_before_another_can_lead() -> None:
    async def scene() -> None:
        store = LeaseStore()
        first = Contender(store, "one")
        await asyncio.sleep(10.5)
        second = Contender(store, "two", skew=86_400)
        await asyncio.sleep(10)
        first.wire.is_cut = True
        fell = rose = 0.0
        for step in range(400):
            await asyncio.sleep(0.1)
            fell = fell or (step / 10 if not first.leads() else 0.0)
            rose = rose or (step / 10 if second.leads() else 0.0)
        assert 8 <= fell <= 10
        assert 13 <= rose <= 20
        assert second.election.fence.term == 1

    run_virtual(scene())


def test_a_leader_that_stops_lets_another_lead_at_once() -> None:
    async def scene() -> None:
        store = LeaseStore()
        first = Contender(store, "one")
        await asyncio.sleep(1)
        second = Contender(store, "two")
        await asyncio.sleep(5)
        await first.stop()
        assert (first.leads(), store.holder) == (False, "")
        await asyncio.sleep(3)
        assert second.leads()

    run_virtual(scene())


def test_a_short_fault_does_not_cost_leadership() -> None:
    async def scene() -> None:
        contender = Contender(LeaseStore(), "one")
        await asyncio.sleep(3)
        contender.wire.faults.extend(["lost after", "hang before", "500"])
        for _ in range(300):
            await asyncio.sleep(0.1)
            assert contender.leads()
        assert contender.election.fence.term == 1
        assert contender.election.failure is None

    run_virtual(scene())


def test_a_leader_cut_off_for_long_comes_back_in_a_new_term() -> None:
    async def scene() -> None:
        contender = Contender(LeaseStore(), "one")
        await asyncio.sleep(3)
        contender.wire.is_cut = True
        await asyncio.sleep(30)
        assert not contender.leads()
        assert isinstance(contender.election.failure, Exception)
        contender.wire.is_cut = False
        await asyncio.sleep(5)
        assert contender.leads()
        assert contender.election.fence.term == 2

    run_virtual(scene())


def test_a_lease_deleted_by_hand_goes_to_nobody_else_while_its_leader_may_write() -> None:
    async def scene() -> None:
        store = LeaseStore()
        first = Contender(store, "one")
        await asyncio.sleep(1)
        second = Contender(store, "two")
        await asyncio.sleep(4)
        first.wire.is_cut = True
        store.lease = None
        for _ in range(300):
            await asyncio.sleep(0.1)
            assert not (first.leads() and second.leads())
        assert second.leads()

    run_virtual(scene())


def test_a_record_of_ours_from_another_time_is_not_taken_for_leadership() -> None:
    async def scene() -> None:
        store = LeaseStore()
        one = Contender(store, "one")
        await asyncio.sleep(1)
        assert store.lease is not None
        store.lease["spec"]["holderIdentity"], store.lease["metadata"]["resourceVersion"] = (
            "two",
            "999",
        )  # an etcd restored from a snapshot
        two = Contender(store, "two")
        for _ in range(200):
            await asyncio.sleep(0.1)
            assert not (one.leads() and two.leads())
        assert one.leads() or two.leads()

    run_virtual(scene())


def test_a_hung_server_is_given_up_before_the_next_attempt() -> None:
    async def scene() -> None:
        election = Election(Hung(), SimRuntime("one"), "one")
        task = asyncio.get_running_loop().create_task(election.run())
        await asyncio.sleep(1.9)
        assert election.failure is not None
        task.cancel()

    run_virtual(scene())


def test_attempts_that_fail_in_a_row_are_told_and_one_that_fails_is_not() -> None:
    async def scenario() -> None:
        store, runtime = LeaseStore(), SimRuntime("a")
        wire = Wire(store, ["lost before"])
        election = Election(wire, runtime, "a")
        contending = runtime.spawn("a", election.run())
        await runtime.sleep(1.0)
        assert (election.failure is not None, election.why_not_leading()) == (True, "")
        await runtime.sleep(3.0)
        assert election.failure is None
        wire.is_cut = True
        await runtime.sleep(10.0)
        assert election.why_not_leading().startswith("the Lease growth-system/growth cannot be taken: ")
        assert election.why_not_trying() == ""
        wire.is_cut = False
        await runtime.sleep(3.0)
        assert election.why_not_leading() == ""
        contending.cancel()
        await runtime.sleep(31.0)
        assert election.why_not_trying().startswith("the lease was not tried for 3")

    run_virtual(scenario())


def test_a_lease_of_another_length_keeps_its_proportions() -> None:
    assert LeaseSettings.lasting(15, "growth", "growth-system") == LeaseSettings()
    short = LeaseSettings.lasting(5, "other", "elsewhere")
    assert (short.name, short.namespace, short.duration_seconds) == ("other", "elsewhere", 5)
    assert short.gap_seconds == pytest.approx(5 / 3)


def test_times_must_grow() -> None:
    with pytest.raises(ValueError, match="lease times must grow"):
        LeaseSettings(retry_seconds=12.0)


@given(
    st.lists(st.lists(st.sampled_from(FAULTS), max_size=25), min_size=2, max_size=3),
    st.lists(st.floats(-4000, 4000), min_size=3, max_size=3),
)
def test_never_two_and_at_last_one(faults: list[list[str]], skews: list[float]) -> None:
    async def scene() -> None:
        store = LeaseStore()
        contenders = [Contender(store, f"c{index}", each, skews[index]) for index, each in enumerate(faults)]
        for _ in range(480):
            await asyncio.sleep(0.25)
            assert sum(each.leads() for each in contenders) <= 1
        await asyncio.sleep(30)
        assert [each.election.identity for each in contenders if each.leads()] == [store.holder]

    run_virtual(scene())


def test_on_its_own_thread_it_leads_and_releases() -> None:
    store, fence, threads = LeaseStore(), Fence(time.monotonic), []

    @asynccontextmanager
    async def open_election(fence: Fence) -> AsyncIterator[Election]:
        threads.append(threading.current_thread().name)
        yield Election(Wire(store), SystemRuntime(), "one", fence=fence)

    thread = ElectionThread(fence, open_election)
    thread.start()
    deadline = time.monotonic() + 10
    while not fence.holds() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert (fence.holds(), store.holder, threads) == (True, "one", ["lease"])
    thread.stop()
    assert (fence.holds(), store.holder, thread.alive) == (False, "", False)
