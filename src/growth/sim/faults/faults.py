"""Which faults does a seed turn on? A table with one row for each; a seed draws some of them, and later all stop.

Asked by the simulation. A fault only changes what the world around growth does: the network, the cloud, the machines,
the process itself. Whatever a scenario file can say (`sim/faults/kinds`), a seed can draw.

| seeds | draw from |
| --- | --- |
| below 40000 | the narrow rows: their stories stay as they were |
| all others | all rows, each less often |
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from growth.sim.apiserver.kinds import BY_NAME
from growth.sim.clock import after
from growth.sim.cloud.cloud import Cloud, Trouble
from growth.sim.cluster import Cluster
from growth.sim.faults import kinds
from growth.sim.faults.duration import Duration
from growth.sim.faults.network import ApiTrouble
from growth.sim.faults.schedule import FaultSchedule

CHANCE_OF_EACH: Final = 0.3
CHANCE_IN_A_WIDE_SEED: Final = 0.1
WIDE_FROM: Final = 40_000


class Row(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def is_wide(self) -> bool: ...


Drawable = TypeVar("Drawable", bound=Row)


def is_wide(seed: str) -> bool:
    """Does the seed draw from all rows?"""
    return seed.isdigit() and int(seed) >= WIDE_FROM


def draw(seed: str, rows: Sequence[Drawable], chance: float) -> list[Drawable]:
    """Each row has its own source of chance, so that a new row changes nothing for the others."""
    found = [row for row in rows if is_wide(seed) or not row.is_wide]
    return [row for row in found if random.Random(f"{seed}/draw/{row.name}").random() < chance]


class Crash(Struct):
    """Kill growth at its n-th write from now, before it or after it, and start it again after a while."""

    writes_left: int
    moment: str  # before | after | lost: growth lives on, and does not get the answer
    restart_seconds: float


class Adversity(Struct):
    """The switches that faults turn. `trouble` is shared with the process's transport."""

    cluster: Cluster
    trouble: ApiTrouble
    chance: random.Random
    lasts_seconds: float
    schedule: FaultSchedule
    crashes: list[Crash] = []
    clock_steps: list[tuple[float, float]] = []  # (when, by how much growth's wall clock is off)
    pauses: list[tuple[float, float]] = []  # (when, for how long growth stands still)

    @property
    def cloud(self) -> Cloud:
        return self.cluster.cloud

    def moment(self) -> float:
        return self.chance.uniform(0.0, self.lasts_seconds)


class DrawnFault(Struct, frozen=True):
    name: str
    turn_on: Callable[[Adversity], None]
    is_wide: bool = False


def _api(name: str, least: float, most: float) -> DrawnFault:
    return DrawnFault(f"api {name}", lambda each: setattr(each.trouble, name, each.chance.uniform(least, most)))


def _cloud(name: str, least: float, most: float) -> DrawnFault:
    return DrawnFault(f"cloud {name}", lambda each: setattr(each.cloud.trouble, name, each.chance.uniform(least, most)))


def _api_down(adversity: Adversity) -> None:
    for _ in range(adversity.chance.randint(1, 3)):
        seconds = adversity.chance.choice([5.0, 20.0, 90.0, 240.0])
        after(adversity.moment(), partial(_take_down, adversity, seconds))


def _take_down(adversity: Adversity, seconds: float) -> None:
    if adversity.lasts_seconds:
        now = adversity.cluster.runtime.monotonic()
        adversity.trouble.down_until = max(adversity.trouble.down_until, now + seconds)
        for watch in list(adversity.cluster.api.watches):
            watch.cut()


def _compactions(adversity: Adversity) -> None:
    chance = adversity.chance

    def compact() -> None:
        for kind in ("Pod", "Node", "NodeRequest", "NodeRemovalRequest"):
            adversity.cluster.store.compact(BY_NAME[kind], keep=chance.randint(0, 5))
        adversity.cluster.api.pages.forget_tokens()

    for _ in range(4):
        after(adversity.moment(), compact)


def _crashes(adversity: Adversity) -> None:
    for _ in range(adversity.chance.randint(1, 4)):
        moment = adversity.chance.choice(["before", "after"])
        writes, seconds = adversity.chance.randint(1, 60), adversity.chance.choice([0.5, 5.0, 60.0])
        adversity.crashes.append(Crash(writes, moment, seconds))


def _clock_steps(adversity: Adversity) -> None:
    adversity.clock_steps.append((adversity.moment(), adversity.chance.choice([-3600.0, 3600.0, 90.0])))


def _stock_outs(adversity: Adversity) -> None:
    offerings = [(offering.name, offering.location) for offering in adversity.cluster.world.catalogue.offerings()]
    for offering in adversity.chance.sample(offerings, len(offerings) // 2):
        after(adversity.moment(), partial(_sell_out, adversity, offering))


def _sell_out(adversity: Adversity, offering: tuple[str, str]) -> None:
    if adversity.lasts_seconds:
        adversity.cloud.sold_out[offering] = None


def _flapping_nodes(adversity: Adversity) -> None:
    chance = adversity.chance

    def flap() -> None:
        names = sorted(adversity.cluster.kubelets.alive)
        if names and adversity.lasts_seconds:
            adversity.cluster.kubelets.fall_ill(chance.choice(names), chance.uniform(10, 90))

    for _ in range(5):
        after(adversity.moment(), flap)


def _lagging_scheduler(adversity: Adversity) -> None:
    adversity.cluster.scheduler.lag_seconds = adversity.chance.uniform(0.05, 0.6)


# ------------------------------------------------------------------- faults that scenarios know too


def _timed(name: str, make: Callable[[random.Random], kinds.Fault]) -> DrawnFault:
    """A fault of scenario files, over a part of the time."""

    def turn_on(adversity: Adversity) -> None:
        chance, lasts = adversity.chance, adversity.lasts_seconds
        begins = chance.uniform(0.05, 0.6) * lasts
        until = begins + chance.uniform(0.1, 1.0) * (lasts - begins)
        adversity.schedule.plan(replace(make(chance), begins=Duration(begins), until=Duration(until)))

    return DrawnFault(name, turn_on, is_wide=True)


def _seconds(chance: random.Random, least: float, most: float) -> Duration:
    return Duration(chance.uniform(least, most))


def _launch_error(chance: random.Random) -> kinds.Fault:
    statuses: list[Any] = [500, 502, 503, 409, "locked", "timeout"]
    status = chance.choice(statuses)
    return kinds.LaunchError(status=status, effect=chance.random() < 0.3, share=chance.choice([0.3, 1.0]))


def _forbidden(chance: random.Random) -> kinds.Fault:
    resource = chance.choice(_FORBIDDEN)
    return kinds.ApiError(status=403, resource=resource, verb=chance.choice(["*", "list", "get"]))


def _refused_subresource(chance: random.Random) -> kinds.Fault:
    subresource = chance.choice(["eviction", "binding", "status", "scale"])
    return kinds.ApiError(status=chance.choice([403, 409, 429, 500]), subresource=subresource, share=0.7)


def _unreadable(chance: random.Random) -> kinds.Fault:
    """One kind that buffers or warm pools look at cannot be read, or be read only now and then."""
    status, share = chance.choice([403, 429, 500, 503]), chance.choice([0.5, 1.0])
    return kinds.ApiError(status=status, resource=chance.choice(_LOOKED_AT), share=share)


_LOOKED_AT: Final = (
    "podtemplates", "resourcequotas", "limitranges", "priorityclasses", "deployments", "statefulsets", "replicasets",
    "jobs", "sandboxsets", "sandboxwarmpools", "capacitybuffers", "poolautoscalers", "namespaces",
)  # fmt: skip


def _deaf(adversity: Adversity) -> None:
    """Of one kind growth hears nothing more for most of the time; single objects can be read, and the rest goes on."""
    resource = adversity.chance.choice(["nodepools", "nodes", "noderequests", "noderemovalrequests"])
    begins, until = Duration(adversity.chance.uniform(0.05, 0.15) * adversity.lasts_seconds), adversity.lasts_seconds
    for verb in ("list", "watch"):
        refused = kinds.ApiError(status=403, resource=resource, verb=verb)
        adversity.schedule.plan(replace(refused, begins=begins, until=Duration(until)))
    adversity.schedule.plan(kinds.WatchCut(begins=Duration(begins + 1.0), until=Duration(until)))


_FORBIDDEN: Final = (
    "pods", "nodes", "nodepools", "noderequests", "noderemovalrequests", "capacitybuffers", "poolautoscalers",
    "poddisruptionbudgets", "deployments", "persistentvolumeclaims",
)  # fmt: skip


def _two_growths(adversity: Adversity) -> None:
    """Two that elect a leader, who may lose its lease, have a slow line, or stand still."""
    chance = adversity.chance
    adversity.schedule.replicas.append(None)
    sorrows = [kinds.LeaseLost(), kinds.LeaseSlow(seconds=_seconds(chance, 1, 22)), None]
    for _ in range(chance.randint(1, 3)):
        begins, sorrow = adversity.moment(), chance.choice(sorrows)
        if sorrow is None:
            adversity.pauses.append((begins, chance.choice([12.0, 25.0, 70.0])))
            continue
        until = min(adversity.lasts_seconds, begins + chance.uniform(10, 120))
        adversity.schedule.plan(replace(sorrow, begins=Duration(begins), until=Duration(until)))


def _pauses(adversity: Adversity) -> None:
    for _ in range(adversity.chance.randint(1, 3)):
        adversity.pauses.append((adversity.moment(), adversity.chance.choice([3.0, 12.0, 25.0, 70.0])))


FAULTS: Final[tuple[DrawnFault, ...]] = (
    _api("slow", 0.01, 0.1),
    _api("conflict", 0.02, 0.2),
    _api("throttled", 0.02, 0.2),
    _api("error_before", 0.02, 0.15),
    _api("error_after", 0.02, 0.15),
    _api("lost_before", 0.02, 0.15),
    _api("lost_after", 0.02, 0.15),
    _api("hung_before", 0.005, 0.03),
    _api("hung_after", 0.005, 0.03),
    _api("unauthorized", 0.01, 0.05),
    _api("expired", 0.1, 0.5),
    _api("torn_answer", 0.01, 0.05),
    _api("watch_lag_seconds", 0.5, 10.0),
    _api("watch_silent", 0.05, 0.3),
    _api("watch_closed", 0.2, 0.8),
    _api("watch_cut", 0.2, 0.8),
    _api("watch_torn", 0.1, 0.5),
    _api("watch_expired", 0.1, 0.5),
    _api("watch_repeated", 0.2, 0.8),
    DrawnFault("api down", _api_down),
    DrawnFault("api compactions", _compactions),
    _cloud("lost_before_effect", 0.05, 0.3),
    _cloud("lost_after_effect", 0.05, 0.3),
    _cloud("rate_limited", 0.05, 0.4),
    _cloud("server_error", 0.05, 0.3),
    _cloud("never_boots", 0.1, 0.5),
    _cloud("boots_not_ready", 0.1, 0.4),
    _cloud("smaller_share", 0.001, 0.05),
    _cloud("refuses_delete", 0.1, 0.6),
    _cloud("empty_lists", 0.05, 0.4),
    _cloud("stale_lists", 0.05, 0.5),
    _cloud("failed_lists", 0.05, 0.5),
    _cloud("vanishes", 0.05, 0.3),
    _cloud("lingers_seconds", 2.0, 60.0),
    DrawnFault("cloud stock-outs", _stock_outs),
    DrawnFault("nodes flap", _flapping_nodes),
    DrawnFault("scheduler lags", _lagging_scheduler),
    DrawnFault("growth crashes", _crashes),
    DrawnFault("growth's clock steps", _clock_steps),
    DrawnFault("two growths", _two_growths, is_wide=True),
    DrawnFault("growth pauses", _pauses, is_wide=True),
    DrawnFault("deaf to one kind", _deaf, is_wide=True),
    _timed("lease lost", lambda _: kinds.LeaseLost()),
    _timed("lease slow", lambda chance: kinds.LeaseSlow(seconds=_seconds(chance, 1, 22))),
    _timed("solver hangs", lambda _: kinds.SolverHangs()),
    _timed("provider slow", lambda chance: kinds.SlowProvider(seconds=_seconds(chance, 2, 22))),
    _timed("provider late", lambda chance: kinds.LateEffect(seconds=_seconds(chance, 35, 150), share=0.4)),
    _timed("launch errors", _launch_error),
    _timed("quota", lambda chance: kinds.Quota(machines=chance.randint(2, 12))),
    _timed("deletes refused", lambda _: kinds.DeleteRefused()),
    _timed("labels lost", lambda chance: kinds.LabelsLost(share=chance.uniform(0.1, 0.5))),
    _timed("lists garbage", lambda chance: kinds.ListGarbage(share=chance.choice([0.3, 1.0]))),
    _timed("sick machines", lambda chance: kinds.SmallerThanSold(by=0.8, share=chance.uniform(0.1, 0.4))),
    _timed("never ready", lambda _: kinds.NeverReady()),
    _timed("never boot", lambda _: kinds.NeverBoots()),
    _timed("nodes not ready", lambda chance: kinds.NotReady(share=chance.uniform(0.2, 1.0))),
    _timed("machines off", lambda chance: kinds.PoweredOff(share=chance.uniform(0.1, 0.5))),
    _timed("interruptions", lambda chance: kinds.Interruption(share=chance.uniform(0.1, 0.6))),
    _timed("machines vanish", lambda chance: kinds.Vanish(share=chance.uniform(0.1, 1.0))),
    _timed("forbidden", _forbidden),
    _timed("subresource refused", _refused_subresource),
    _timed("kind unreadable", _unreadable),
    _timed("api slow writes", lambda chance: kinds.ApiSlow(seconds=_seconds(chance, 1, 25), verb="create")),
    _timed("watches silent", lambda _: kinds.WatchSilent()),
    _timed("watches cut", lambda chance: kinds.WatchCut(seconds=_seconds(chance, 2, 30))),
    _timed("history gone", lambda chance: kinds.HistoryGone(seconds=_seconds(chance, 5, 60))),
)


def turn_on_some(adversity: Adversity, seed: str, wanted: tuple[str, ...] | None = None) -> list[str]:
    """Turn on the wanted faults, or else some drawn by chance; their names. Each fault has its own source of chance."""
    chosen = drawn_faults(seed) if wanted is None else [fault for fault in FAULTS if fault.name in wanted]
    for fault in chosen:
        adversity.chance = random.Random(f"{seed}/fault/{fault.name}")
        fault.turn_on(adversity)
    return [fault.name for fault in chosen]


def drawn_faults(seed: str) -> list[DrawnFault]:
    return draw(seed, FAULTS, CHANCE_IN_A_WIDE_SEED if is_wide(seed) else CHANCE_OF_EACH)


def turn_off_all(adversity: Adversity) -> None:
    """From now on the world behaves. What was broken stays as it was left; nothing new breaks."""
    adversity.lasts_seconds = 0.0
    adversity.crashes.clear()
    for field in ApiTrouble.__struct_fields__:
        setattr(adversity.trouble, field, 0.0)
    adversity.cloud.trouble = Trouble()
    adversity.cloud.sold_out.clear()
    adversity.cluster.scheduler.lag_seconds = adversity.cluster.world.scheduler_lag_seconds
    for watch in list(adversity.cluster.api.watches):
        watch.end()
