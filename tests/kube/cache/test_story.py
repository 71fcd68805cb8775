"""However events, listings, answers and our own writes interleave, the cache ends as the server stands and never goes
back in time.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule
from msgspec import Raw

from growth.kube.api.resources import NODE_REQUESTS
from growth.kube.cache import Cache, as_number
from growth.kube.codec import Codec
from growth.kube.watch.stream import ChangeType
from growth.model.noderequest import NodeRequest
from tests.kube.objects import Json, raw
from tests.kube.samples import node_request

NAMES = ("a", "b", "c")
PHASES = ("Pending", "Provisioning", "Ready", "Unmet")


class Story(RuleBasedStateMachine):
    """A server with a history, a watch that lags behind it, and us."""

    answers = Bundle("answers")

    @initialize()
    def begin(self) -> None:
        self.codec = Codec()
        self.cache: Cache[NodeRequest] = Cache(NODE_REQUESTS, self.codec)
        self.objects: dict[str, Json] = {}
        self.history: list[tuple[int, ChangeType, Json]] = []
        self.version = 1000
        self.delivered = 1000
        self.ours: dict[str, int] = {}  # the newest version of each object that we have seen or written
        self.restores = 0
        self._list()

    def _write(self, change: ChangeType, name: str, phase: str) -> Json:
        self.version += 1
        item = node_request(name, self.version, phase)
        if change is ChangeType.DELETED:
            del self.objects[name]
        else:
            self.objects[name] = item
        self.history.append((self.version, change, item))
        return item

    def _put(self, name: str, phase: str) -> Json:
        return self._write(ChangeType.MODIFIED if name in self.objects else ChangeType.ADDED, name, phase)

    def _list(self) -> None:
        self.cache.relisting()
        self.cache.listed([Raw(raw(item)) for item in self.objects.values()])
        self.cache.relisted(str(self.version))
        self.delivered = self.version
        self.ours = {}

    @rule(name=st.sampled_from(NAMES), phase=st.sampled_from(PHASES))
    def others_write(self, name: str, phase: str) -> None:
        self._put(name, phase)

    @rule(name=st.sampled_from(NAMES))
    def others_delete(self, name: str) -> None:
        if name in self.objects:
            self._write(ChangeType.DELETED, name, "Pending")

    @rule(name=st.sampled_from(NAMES), phase=st.sampled_from(PHASES))
    def we_write(self, name: str, phase: str) -> None:
        item = self._put(name, phase)
        self.cache.learned(raw(item))
        self.ours[name] = self.version

    @rule(target=answers, name=st.sampled_from(NAMES), phase=st.sampled_from(PHASES))
    def we_write_and_the_answer_is_late(self, name: str, phase: str) -> object:
        return (self.restores, raw(self._put(name, phase)))

    @rule(answer=answers)
    def a_late_answer_comes(self, answer: tuple[int, bytes]) -> None:
        if answer[0] == self.restores:  # no answer outlives the server that gave it
            self.cache.learned(answer[1])

    @rule(name=st.sampled_from(NAMES))
    def we_delete(self, name: str) -> None:
        if name in self.objects:
            self._write(ChangeType.DELETED, name, "Pending")
            self.cache.forgot(name)
            self.ours.pop(name, None)

    @rule(count=st.integers(1, 4))
    def events_come(self, count: int) -> None:
        for version, change, item in [event for event in self.history if event[0] > self.delivered][:count]:
            self.cache.changed(change, Raw(raw(item)))
            self.delivered = version
            if change is ChangeType.DELETED:
                self.ours.pop(item["metadata"]["name"], None)

    @rule()
    def a_bookmark_comes(self) -> None:
        self.cache.bookmarked(str(self.delivered))

    @rule()
    def everything_is_listed_again(self) -> None:
        self._list()

    @rule()
    def etcd_is_restored(self) -> None:
        """To an empty store, at a version below what the watch had told; the reflector notices and lists."""
        self.objects, self.history, self.version = {}, [], self.delivered - 1
        self.restores += 1
        self._list()

    @invariant()
    def our_own_writes_are_never_undone_by_something_older(self) -> None:
        for name, version in getattr(self, "ours", {}).items():
            held = self.cache.get(name)
            assert held is not None, f"{name} is gone"
            assert as_number(held.resource_version) >= version

    def teardown(self) -> None:
        """Once all events have come, the cache is the server."""
        if not hasattr(self, "cache"):
            return
        self.events_come(10_000)
        self.cache.bookmarked(str(self.version))
        wanted = {name: self.codec.decode("NodeRequest", raw(item)).noun for name, item in self.objects.items()}
        assert dict(self.cache.view()) == wanted


TestStory = Story.TestCase
TestStory.settings = settings(stateful_step_count=30)
