"""Is this process alive, and would it act if it led? Asked by the probes; told in the log.

    it is not alive (`/healthz`), when     the loop stands still; a task has ended; the solver never answers; the lease
                                           is not tried. Kubelet starts it again.
    it is not ready (`/readyz`), when      it is not alive; the cluster is not known; a kind cannot be followed; the
                                           provider, its list of machines or the solver is silent; namespace or rights
                                           are missing; the Lease cannot be taken. People are told.

What is outside the process never makes it look dead: an outage elsewhere must not start anybody again. A process that
waits while another one leads is ready.

In the log stands what growth waits for, at once and then each minute for as long as it lasts, and when that is over."""

from __future__ import annotations

import re
from typing import Final

import structlog

from growth.controllers.ask.premises import (
    Installed,
    denied_rights,
    needed_rights,
    why_not_namespace,
    why_not_rights,
)
from growth.controllers.growth import Growth
from growth.kube.api.client import Client
from growth.kube.api.errors import KubeError
from growth.kube.election import ElectionThread
from growth.runtime import Runtime

_ASK_SECONDS: Final = 20.0  # namespace and rights
_LOOK_SECONDS: Final = 1.0
_AGAIN_SECONDS: Final = 60.0
_NUMBER: Final = re.compile(r"\d+")

log = structlog.get_logger(__name__)


class Premises:
    """What the cluster did not give growth at the last look. Rights can be lost, and a watch that is open goes on."""

    def __init__(self, client: Client, runtime: Runtime, installed: Installed) -> None:
        self.missing: tuple[str, ...] = ()
        self._client, self._runtime, self._installed = client, runtime, installed

    async def run(self) -> None:
        """Look again and again, for ever."""
        while True:
            await self.look()
            await self._runtime.sleep(_ASK_SECONDS)

    async def look(self) -> None:
        """An API server that does not answer leaves what was known: the caches tell of it."""
        try:
            namespace = await why_not_namespace(self._client, self._installed)
            denied = await denied_rights(self._client, needed_rights(self._installed))
        except KubeError:
            return
        self.missing = tuple(filter(None, (namespace, why_not_rights(denied))))


class Health:
    """The state of one running growth, in sentences. `thread` is None where every growth leads."""

    def __init__(self, growth: Growth, premises: Premises, thread: ElectionThread | None) -> None:
        self._growth, self._premises, self._thread = growth, premises, thread
        self._runtime = growth.runtime
        self._said: dict[str, float] = {}  # what was said, without its numbers, and when
        self._was_ready = self._is_told_ready = self._led = False

    def start(self) -> None:
        """Look and tell from now on, beside the caller."""
        self._growth.supervisor.keep("premises", self._premises.run)
        self._growth.supervisor.keep("health", self._tell)

    def why_not_alive(self) -> tuple[str, ...]:
        """What is wrong inside this process. Empty: nothing."""
        return (*self._growth.why_not_alive(), *filter(None, [self._why_not_contending()]))

    def why_not_ready(self) -> tuple[str, ...]:
        """What would keep growth from acting, led it now. Empty: nothing."""
        election = self._thread.election if self._thread is not None else None
        lease = election.why_not_leading() if election is not None else ""
        needs = (*self._premises.missing, *filter(None, [lease]))
        return (*self.why_not_alive(), *needs, *self._growth.why_not_sure())

    def _why_not_contending(self) -> str:
        if self._thread is None or self._thread.election is None:
            return ""
        return self._thread.election.why_not_trying() if self._thread.alive else "the thread of the lease has ended"

    # ---------------------------------------------------------------------------------- in the log

    async def _tell(self) -> None:
        """Nothing is told in the first moment: caches are being filled, and most are filled when it has passed."""
        while True:
            await self._runtime.sleep(_LOOK_SECONDS)
            self.tell()

    def tell(self) -> None:
        """Look once, and say what is new or was last said a minute ago."""
        alive, ready = self.why_not_alive(), self.why_not_ready()
        for reason in ready:
            if self._is_due(reason):
                event = "growth cannot act" if self._was_ready else "growth waits"
                log.error("growth is not alive", why=reason) if reason in alive else log.warning(event, why=reason)
        if ready:
            self._is_told_ready = False
        elif not self._is_told_ready:
            self._is_told_ready = self._was_ready = True
            log.info("growth is ready")
        self._tell_who_leads()

    def _tell_who_leads(self) -> None:
        leads, thread = self._growth.fence.holds(), self._thread
        if leads and not self._led:
            log.info("growth leads")
        self._led = leads
        if leads or thread is None or thread.election is None:
            return
        lease, holder = thread.election.settings, thread.election.holder
        held = f"is held by {holder}" if holder else "is not taken yet"
        reason = f"the Lease {lease.namespace}/{lease.name} {held}"
        if self._is_due(reason):
            log.info("growth waits for leadership", why=reason)

    def _is_due(self, reason: str) -> bool:
        """Not said in the last minute; the seconds in it may have grown."""
        now, key = self._runtime.monotonic(), _NUMBER.sub("", reason)
        self._said = {each: at for each, at in self._said.items() if now - at < _AGAIN_SECONDS}
        return self._said.setdefault(key, now) == now
