"""What can go wrong? The table of faults; each one is begun, lasts for a while, and ends.

| where | faults |
| --- | --- |
| the line to the API server | late, cut, dead without a word (half-open), refused |
| its answers | 429, 5xx before and after the effect, cut short, 410 in the stream |
| the control plane | kube-apiserver or etcd killed and started, history forgotten, etcd restored from a snapshot |
| who leads | the Lease deleted or stolen, a replica that stands still for longer than its Lease |
| credentials | the service account made anew, its old tokens void |
| the provider | answers lost before and after their effect, 5xx, 429 for all, lists empty or old, slow, out of reach |

Kills of growth come on top of them: `rounds.py`. A new fault is a function here and its row in `FAULTS`."""

from __future__ import annotations

import math
import random
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Final

from msgspec import Struct

from growth.model.instant import format_precise_instant
from growth.sim.cloud.hetzner.project import FakeTrouble
from tests.chaos.gateway import Lie
from tests.chaos.world import LEASE, LEASE_SECONDS, Replica, World
from tests.e2e.running import NAMESPACE

Acting = Callable[[World, random.Random], AbstractContextManager[None]]

NODE_LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
ACCOUNT: Final = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"


class Fault(Struct, frozen=True):
    """`needs_api` to change the demand: that comes before the fault, and otherwise within it."""

    act: Acting
    needs_api: bool = False
    seconds: tuple[float, float] = (1.5, 5.0)


# ---------------------------------------------------------------------------------------------- the line


@contextmanager
def _blind(world: World) -> Iterator[None]:
    """No replica hears the API server; what is deleted meanwhile is deleted blindly."""
    world.witness.blind_since = time.monotonic()
    try:
        yield
    finally:
        world.witness.blind_since = math.inf


def _some(world: World, chance: random.Random) -> list[Replica]:
    """The one that leads, or both."""
    leader = world.leader()
    return [leader] if leader is not None and chance.random() < 0.5 else list(world.replicas)


@contextmanager
def late(world: World, chance: random.Random) -> Iterator[None]:
    hit = _some(world, chance)
    for replica in hit:
        replica.line.delay(chance.uniform(0.05, 0.3))
    try:
        yield
    finally:
        for replica in hit:
            replica.line.delay(0.0)


@contextmanager
def cut(world: World, chance: random.Random) -> Iterator[None]:
    for _ in range(chance.randint(1, 4)):
        for replica in world.replicas:
            replica.line.cut()
        time.sleep(chance.uniform(0.0, 0.5))
    yield


@contextmanager
def _line(dead: Callable[[Replica], None], world: World, chance: random.Random) -> Iterator[None]:
    hit = _some(world, chance)
    try:
        for replica in hit:
            dead(replica)
        if len(hit) == len(world.replicas):
            with _blind(world):
                yield
        else:
            yield
    finally:
        for replica in hit:
            replica.line.forward()


half_open = partial(_line, lambda replica: replica.line.silence())
refused = partial(_line, lambda replica: replica.line.refuse())


# --------------------------------------------------------------------------------------------- answers


@contextmanager
def _lies(lie: Lie, world: World, _: random.Random) -> Iterator[None]:
    world.gateway.lie(lie)
    try:
        yield
    finally:
        world.gateway.tell_the_truth()


@contextmanager
def expired(world: World, chance: random.Random) -> Iterator[None]:
    for _ in range(chance.randint(1, 3)):
        world.gateway.expire_watches()
        time.sleep(chance.uniform(0.2, 1.0))
    yield


# --------------------------------------------------------------------------------------- control plane


@contextmanager
def _restarted(component: str, world: World, _: random.Random) -> Iterator[None]:
    with _blind(world):
        world.cluster.stop_component(component, kill=True)
        try:
            yield
        finally:
            world.cluster.start_component(component)
            world.cluster.wait_until(lambda: world.api.healthy("/readyz"), "the API server to be ready again")


@contextmanager
def forgotten(world: World, _: random.Random) -> Iterator[None]:
    with _blind(world):
        world.cluster.forget_history()
    yield


@contextmanager
def restored(world: World, _: random.Random) -> Iterator[None]:
    """What happened since the snapshot is lost, and every program begins anew, as the manual of a restore says."""
    cluster, snapshot = world.cluster, world.folder / "snapshot"
    world.witness.most_machines = math.inf  # machines bought since are unknown now, and their pods wait again
    etcd, data = cluster.processes["etcd"], cluster.folder / "etcd-data"
    etcd.pause()
    shutil.copytree(data, snapshot)
    etcd.resume()
    try:
        yield
    finally:
        with _blind(world):
            for name in reversed(cluster.processes):
                cluster.stop_component(name, kill=True)
            shutil.rmtree(data)
            snapshot.rename(data)
            for name in cluster.processes:
                if name == "kwok":  # another one now, which would wait until the leases of the last are over
                    world.ask("DELETE", NODE_LEASES)
                cluster.start_component(name)
        world.kubelets.register_again(world.api)
        world.scale(world.wanted)


# ----------------------------------------------------------------------------------- leases and tokens


@contextmanager
def lease_deleted(world: World, chance: random.Random) -> Iterator[None]:
    for _ in range(chance.randint(1, 2)):
        world.ask("DELETE", LEASE)
        time.sleep(chance.uniform(0.0, 1.0))
    yield


@contextmanager
def lease_stolen(world: World, _: random.Random) -> Iterator[None]:
    """By somebody who writes its name into it once, and is not heard of again."""
    lease = world.lease()
    if lease:
        stamp = format_precise_instant(time.time())
        stolen = {"holderIdentity": "a thief", "renewTime": stamp, "leaseDurationSeconds": LEASE_SECONDS}
        lease["metadata"].pop("resourceVersion")
        world.ask("PUT", LEASE, {**lease, "spec": {**lease["spec"], **stolen}})
    yield


@contextmanager
def paused(world: World, chance: random.Random) -> Iterator[None]:
    hit = world.leader() or chance.choice(world.replicas)
    hit.process.pause()
    try:
        yield
    finally:
        if hit.process.is_running:
            hit.process.resume()


@contextmanager
def token_rotated(world: World, _: random.Random) -> Iterator[None]:
    account = world.api.get(f"{ACCOUNT}/growth")
    metadata = {key: account["metadata"].get(key, {}) for key in ("name", "namespace", "labels")}
    world.ask("DELETE", f"{ACCOUNT}/growth")
    world.ask("POST", ACCOUNT, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    time.sleep(0.5)
    world.rotate_token()
    yield


# -------------------------------------------------------------------------------------------- provider


@contextmanager
def _trouble(trouble: FakeTrouble, world: World, _: random.Random) -> Iterator[None]:
    world.project.trouble = trouble
    try:
        yield
    finally:
        world.project.trouble = FakeTrouble()


@contextmanager
def storm(world: World, chance: random.Random) -> Iterator[None]:
    until = time.time() + chance.uniform(2.0, 6.0)
    with _trouble(FakeTrouble(refused_until=until), world, chance):
        time.sleep(max(0.0, until - time.time()))
        yield


@contextmanager
def slow(world: World, chance: random.Random) -> Iterator[None]:
    world.fake.delay_seconds = chance.uniform(0.5, 3.0)
    try:
        yield
    finally:
        world.fake.delay_seconds = 0.0


@contextmanager
def out_of_reach(world: World, chance: random.Random) -> Iterator[None]:
    (world.provider_line.refuse if chance.random() < 0.5 else world.provider_line.silence)()
    try:
        yield
    finally:
        world.provider_line.forward()
        world.provider_line.cut()


LONGER_THAN_A_LEASE: Final = (LEASE_SECONDS + 1.0, LEASE_SECONDS + 4.0)

FAULTS: Final[Mapping[str, Fault]] = {
    "line late": Fault(late),
    "line cut": Fault(cut),
    "line half-open": Fault(half_open, seconds=(2.0, 9.0)),
    "line refused": Fault(refused, seconds=(1.0, 8.0)),
    "429": Fault(partial(_lies, Lie(429, "TooManyRequests", retry_after_seconds=1, share=0.7))),
    "5xx before the effect": Fault(partial(_lies, Lie(503, "ServiceUnavailable", share=0.6))),
    "5xx after the effect": Fault(partial(_lies, Lie(504, "Timeout", share=0.5, writes_only=True, after_effect=True))),
    "answers cut short": Fault(partial(_lies, Lie(share=0.4, cut_short=True))),
    "410 in the stream": Fault(expired),
    "kube-apiserver killed": Fault(partial(_restarted, "kube-apiserver"), needs_api=True, seconds=(0.0, 3.0)),
    "etcd killed": Fault(partial(_restarted, "etcd"), needs_api=True, seconds=(0.0, 3.0)),
    "history forgotten": Fault(forgotten, needs_api=True, seconds=(0.0, 1.0)),
    "etcd restored": Fault(restored, seconds=(3.0, 8.0)),
    "lease deleted": Fault(lease_deleted),
    "lease stolen": Fault(lease_stolen, seconds=(0.0, 2.0)),
    "leader paused": Fault(paused, seconds=LONGER_THAN_A_LEASE),
    "token rotated": Fault(token_rotated),
    "provider: lost before the effect": Fault(partial(_trouble, FakeTrouble(lost_before_effect=0.5))),
    "provider: lost after the effect": Fault(partial(_trouble, FakeTrouble(lost_after_effect=0.5))),
    "provider: 5xx": Fault(partial(_trouble, FakeTrouble(server_error=0.6, locked=0.3))),
    "provider: 429 for all": Fault(storm),
    "provider: empty lists": Fault(partial(_trouble, FakeTrouble(empty_lists=1.0))),
    "provider: old lists": Fault(partial(_trouble, FakeTrouble(stale_lists=1.0))),
    "provider: orders fail later": Fault(partial(_trouble, FakeTrouble(creation_fails=0.4))),
    "provider: slow": Fault(slow),
    "provider: out of reach": Fault(out_of_reach),
}
