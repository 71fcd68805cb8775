"""Is kube-scheduler there? Asked by `controllers/observe/observer` for each snapshot, where growth is to place the pods
of the default scheduler, and by `growth doctor`.

    its Lease (kube-system/kube-scheduler)     then
    does not exist, or nobody holds it         it is away
    is renewed                                 it is there, for so long as the Lease says after we heard of it
    was found, renewed a minute ago or later   the same: clocks may differ
    was found, older than that                 it is away
    cannot be watched                          not known: nothing is placed in its stead

A kube-scheduler that runs with `--leader-elect=false` has no Lease and is not seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from msgspec import Raw

from growth.kube.api.client import Client
from growth.kube.api.resources import LEASES, Right
from growth.kube.election import Lease
from growth.kube.watch.reflector import Reflector, Selection, Trouble
from growth.kube.watch.stream import ChangeType
from growth.model.malformed import Malformed
from growth.model.scheduler import DEFAULT_SCHEDULER, LEASE_NAME, LEASE_NAMESPACE, KubeScheduler
from growth.runtime import Runtime

RIGHTS: Final = (Right(LEASES, ("list", "watch"), name=LEASE_NAME),)
WHERE: Final = Selection(LEASE_NAMESPACE, fields=f"metadata.name={LEASE_NAME}")

_APART_SECONDS: Final = 60.0  # so far a clock may be behind the API server's
_OLDEST_SECONDS: Final = 150.0  # bookmarks prove each minute that nothing has changed


def first_seen(lease: Lease, now: float) -> KubeScheduler:
    """As a Lease says that nobody was seen to renew yet."""
    until = lease.spec.held_until or 0.0
    is_doubtful = until > now - _APART_SECONDS
    return KubeScheduler(True, lease.spec.holder_identity or "", now + lease.spec.seconds if is_doubtful else until)


def why_left(known: KubeScheduler, now: float) -> str:
    """Why growth does not place the pods of the default scheduler. Empty: it does."""
    lease = f"the Lease {LEASE_NAMESPACE}/{LEASE_NAME}"
    if not known.is_known:
        return f"pods of {DEFAULT_SCHEDULER} are not placed: it is not known whether kube-scheduler renews {lease}"
    if known.is_away(now):
        return ""
    return f"pods of {DEFAULT_SCHEDULER} are left to kube-scheduler: {known.holder} renews {lease}"


class KubeSchedulerWatch:
    """Follows one Lease; the sink of its own reflector."""

    def __init__(self, client: Client, runtime: Runtime, report: Callable[[Trouble], None], *, is_wanted: bool) -> None:
        self.version = 0  # moves when it comes or goes
        self.is_wanted = is_wanted
        self._runtime = runtime
        self._reflector = Reflector(client, runtime, LEASES, self, selection=WHERE, report=report)
        self._lease: Lease | None = None
        self._listed: Lease | None = None
        self._known = KubeScheduler(is_known=True)
        self._changed: Callable[[], None] = lambda: None

    async def run(self) -> None:
        """Until cancelled."""
        await self._reflector.run()

    def on_change(self, callback: Callable[[], None]) -> None:
        self._changed = callback

    @property
    def is_answered(self) -> bool:
        return not self.is_wanted or self._reflector.synced or self._reflector.trouble is not None

    def world(self) -> KubeScheduler:
        is_fresh = self._reflector.synced and self._reflector.age_seconds <= _OLDEST_SECONDS
        return self._known if is_fresh else KubeScheduler()

    def why_not_serving(self) -> str:
        """Why growth does not do what it is set to do. Empty: it does, or is not set to."""
        return why_left(self.world(), self._runtime.now()) if self.is_wanted else ""

    def malformed(self) -> tuple[Malformed, ...]:
        return ()

    # ------------------------------------------------------------------------------ what is heard

    def relisting(self) -> None:
        self._listed = None

    def listed(self, objects: Sequence[Raw]) -> None:
        for each in objects:
            self._listed = msgspec.json.decode(each, type=Lease)

    def relisted(self, version: str) -> None:  # noqa: ARG002 - what a sink is called with
        self._see(self._listed)

    def changed(self, change: ChangeType, item: Raw) -> None:
        lease = None if change is ChangeType.DELETED else msgspec.json.decode(item, type=Lease)
        if self._reflector.synced:
            self._see(lease)
        else:
            self._listed = lease

    def bookmarked(self, version: str) -> None:
        pass

    def _see(self, lease: Lease | None) -> None:
        now, before, was_away = self._runtime.now(), self._lease, self._known.is_away(self._runtime.now())
        self._lease = lease
        if lease is None:
            self._known = KubeScheduler(is_known=True)
        elif before is None:
            self._known = first_seen(lease, now)
        elif lease.spec != before.spec:
            self._known = KubeScheduler(True, lease.spec.holder_identity or "", now + lease.spec.seconds)
        if self._known.is_away(now) != was_away or not self.version:
            self.version += 1
            self._changed()
