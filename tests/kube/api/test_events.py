from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from growth.kube.api.client import Client
from growth.kube.api.events import NOTE_BYTES, EventSettings, Recorder, Regarding
from growth.kube.api.transport import Request, TransportError
from growth.sim.clock import SimRuntime, run_virtual
from tests.kube.scripted import Answer, Json, ScriptedTransport, Step, status_answer

NODE = Regarding("v1", "Node", "node-1", uid="u1")
POD = Regarding("v1", "Pod", "web", "shop", "u2")


class Notebook:
    """What reached the server."""

    def __init__(self, *steps: Step) -> None:
        self.transport = ScriptedTransport(*(steps or (Answer(201, b"{}"),)))

    def recorder(self, settings: EventSettings | None = None) -> Recorder:
        runtime = SimRuntime("events")
        return Recorder(Client(self.transport, runtime), runtime, "growth-0", settings)

    @property
    def bodies(self) -> list[Json]:
        return [msgspec.json.decode(request.body) for request in self.transport.requests]

    @property
    def asked(self) -> list[tuple[str, str]]:
        return [
            (request.method, request.path.rpartition(".")[0] or request.path) for request in self.transport.requests
        ]


def play(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run_virtual(scene())


def test_an_event_is_written_as_describe_wants_it() -> None:
    async def scene() -> None:
        notebook = Notebook()
        notebook.recorder().record(POD, "Warning", "NoPool", "no pool named gpu")
        await asyncio.sleep(1)
        [body] = notebook.bodies
        name = body["metadata"].pop("name")
        assert name.startswith("web.")
        assert body == {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"namespace": "shop"},
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingController": "growth.dev/growth",
            "reportingInstance": "growth-0",
            "action": "NoPool",
            "reason": "NoPool",
            "regarding": {"apiVersion": "v1", "kind": "Pod", "name": "web", "namespace": "shop", "uid": "u2"},
            "note": "no pool named gpu",
            "type": "Warning",
        }

    play(scene)


def test_events_of_objects_without_a_namespace_live_in_default() -> None:
    async def scene() -> None:
        notebook = Notebook()
        notebook.recorder().record(NODE, "Normal", "Marked", "not needed")
        await asyncio.sleep(1)
        assert notebook.bodies[0]["metadata"]["namespace"] == "default"

    play(scene)


def test_repetition_is_counted_and_written_now_and_then() -> None:
    async def scene() -> None:
        notebook = Notebook()
        recorder = notebook.recorder()
        for _ in range(100):
            recorder.record(NODE, "Normal", "Marked", "not needed")
            await asyncio.sleep(10)
        assert [method for method, _ in notebook.asked] == ["POST", "PATCH", "PATCH", "PATCH"]
        assert [body["series"]["count"] for body in notebook.bodies[1:]] == [31, 61, 91]
        assert notebook.bodies[1]["series"]["lastObservedTime"] == "2026-01-01T00:05:00.000000Z"

    play(scene)


def test_repetition_before_the_first_write_is_part_of_it() -> None:
    async def scene() -> None:
        notebook = Notebook()
        recorder = notebook.recorder()
        for _ in range(3):
            recorder.record(NODE, "Normal", "Marked", "not needed")
        await asyncio.sleep(1)
        assert [body["series"]["count"] for body in notebook.bodies] == [3]

    play(scene)


def test_an_event_that_the_server_has_forgotten_is_written_anew() -> None:
    async def scene() -> None:
        notebook = Notebook(Answer(201, b"{}"), status_answer(404, "NotFound"), Answer(201, b"{}"))
        recorder = notebook.recorder()
        recorder.record(NODE, "Normal", "Marked", "not needed")
        await asyncio.sleep(3500)  # a server that keeps them for less than an hour
        recorder.record(NODE, "Normal", "Marked", "not needed")
        await asyncio.sleep(1)
        assert [method for method, _ in notebook.asked] == ["POST", "PATCH", "POST"]
        assert "series" not in notebook.bodies[2]
        assert notebook.bodies[0]["metadata"]["name"] != notebook.bodies[2]["metadata"]["name"]

    play(scene)


def test_one_noisy_object_does_not_drown_the_others() -> None:
    async def scene() -> None:
        notebook = Notebook()
        recorder = notebook.recorder()
        for number in range(50):
            recorder.record(NODE, "Normal", "Marked", f"because of {number}")
        recorder.record(POD, "Normal", "Bound", "to node-1")
        await asyncio.sleep(10)
        assert len(notebook.bodies) == 21
        assert recorder.dropped == 30
        await asyncio.sleep(120)
        for number in range(5):
            recorder.record(NODE, "Normal", "Marked", f"then because of {number}")
        await asyncio.sleep(10)
        assert len(notebook.bodies) == 23

    play(scene)


def test_many_events_are_written_ten_a_second_warnings_first_and_none_is_lost() -> None:
    async def scene() -> None:
        notebook = Notebook()
        recorder = notebook.recorder()
        for number in range(3000):
            recorder.record(Regarding("v1", "Pod", f"pod-{number}", "shop"), "Normal", "Bound", "to node-1")
        recorder.record(POD, "Warning", "Unplaced", "no place for this pod")
        await asyncio.sleep(10)
        assert 95 <= len(notebook.bodies) <= 101
        assert notebook.bodies[0]["reason"] == "Unplaced"
        await asyncio.sleep(300)
        assert (len(notebook.bodies), recorder.waiting, recorder.dropped) == (3001, 0, 0)

    play(scene)


def test_what_happened_several_times_at_once_is_one_event_with_its_count() -> None:
    async def scene() -> None:
        notebook = Notebook()
        recorder = notebook.recorder()
        recorder.record(POD, "Warning", "Unplaced", "no place", count=2)
        for _ in range(3):
            recorder.record(POD, "Warning", "Unplaced", "no place")
        await asyncio.sleep(1)
        assert [body["series"]["count"] for body in notebook.bodies] == [5]

    play(scene)


def test_a_lost_answer_makes_no_second_event() -> None:
    async def scene() -> None:
        notebook = Notebook(TransportError("cut"), status_answer(409, "AlreadyExists"))
        recorder = notebook.recorder()
        recorder.record(NODE, "Normal", "Marked", "not needed")
        await asyncio.sleep(30)
        names = [body["metadata"]["name"] for body in notebook.bodies]
        assert len(names) == 2
        assert names[0] == names[1]
        assert recorder.dropped == 0

    play(scene)


def test_what_cannot_be_written_is_dropped_and_the_caller_never_knows() -> None:
    async def scene() -> None:
        notebook = Notebook(status_answer(403, "Forbidden"))
        recorder = notebook.recorder()
        recorder.record(NODE, "Normal", "Marked", "one")
        recorder.record(NODE, "Normal", "Marked", "two")
        await asyncio.sleep(30)
        assert recorder.dropped == 2
        assert len(notebook.bodies) == 2

    play(scene)


def test_memory_is_bounded_while_the_server_is_away() -> None:
    async def scene() -> None:
        def away(_request: Request) -> Answer:
            raise TransportError("away")

        recorder = Notebook(away).recorder(EventSettings(remembered=50, waiting=10))
        for number in range(500):
            recorder.record(Regarding("v1", "Pod", f"pod-{number}", "shop"), "Normal", "Bound", "to node-1")
        assert recorder.dropped == 490
        assert (len(recorder._occasions), len(recorder._budgets), recorder.waiting) == (50, 50, 10)
        await asyncio.sleep(600)
        assert (recorder.dropped, recorder.waiting) == (490, 10)
        await asyncio.sleep(3700)
        assert (recorder.dropped, recorder.waiting) == (500, 0)

    play(scene)


def test_what_servers_have_forgotten_is_forgotten_here_too_and_written_anew() -> None:
    async def scene() -> None:
        notebook = Notebook()
        recorder = notebook.recorder()
        for number in range(30):
            recorder.record(Regarding("v1", "Pod", f"pod-{number}", "shop"), "Normal", "Bound", "to node-1")
        await asyncio.sleep(3700)
        recorder.record(NODE, "Normal", "Marked", "not needed")
        assert (len(recorder._occasions), len(recorder._budgets)) == (1, 1)
        recorder.record(Regarding("v1", "Pod", "pod-0", "shop"), "Normal", "Bound", "to node-1")
        await asyncio.sleep(1)
        assert [method for method, _ in notebook.asked] == ["POST"] * 32

    play(scene)


def test_what_was_said_while_the_server_was_away_is_written_when_it_is_back() -> None:
    async def scene() -> None:
        away: list[Step] = [
            TransportError("away"),
            status_answer(401, "Unauthorized"),
            status_answer(503, "ServiceUnavailable"),
        ]
        notebook = Notebook(*away * 7, Answer(201, b"{}"))
        recorder = notebook.recorder()
        recorder.record(NODE, "Normal", "Marked", "not needed")
        recorder.record(POD, "Warning", "Unplaced", "no place for this pod")
        await asyncio.sleep(900)
        assert {body["regarding"]["name"] for body in notebook.bodies[21:]} == {"node-1", "web"}
        assert (len(notebook.bodies), recorder.dropped) == (23, 0)

    play(scene)


def test_an_event_that_the_server_never_takes_holds_up_no_other() -> None:
    async def scene() -> None:
        def picky(request: Request) -> Answer:
            return status_answer(500, "InternalError") if b"node-1" in request.body else Answer(201, b"{}")

        notebook = Notebook(picky)
        recorder = notebook.recorder()
        recorder.record(NODE, "Normal", "Marked", "not needed")
        recorder.record(POD, "Warning", "Unplaced", "no place for this pod")
        await asyncio.sleep(5)
        assert "web" in [body["regarding"]["name"] for body in notebook.bodies]
        await asyncio.sleep(4000)
        assert recorder.dropped == 1

    play(scene)


@given(st.text(st.characters(), max_size=3000))
def test_a_note_never_exceeds_its_bound_and_stays_text(note: str) -> None:
    async def scene() -> None:
        notebook = Notebook()
        notebook.recorder().record(NODE, "Normal", "Marked", note)
        await asyncio.sleep(1)
        written = notebook.bodies[0]["note"]
        assert len(written.encode()) <= NOTE_BYTES
        assert written == note.encode(errors="replace").decode() or written.endswith("…")

    play(scene)
