"""Can growth work here? Asks everything that must hold before it is started, and says what is wrong and what to do.

Asked by `growth doctor`. Reads only: nothing is created, changed or bought. One check that cannot be made does not stop
the others.

| check | asks | fails when |
| --- | --- | --- |
| API server | its version | it does not answer |
| clock | the Date of its answer | it is more than 30 s away from ours |
| kinds | discovery, and the definitions where we may read them | a kind is missing, or not as this growth knows it |
| namespace | the namespace of the settings | it does not exist, or is being deleted |
| rights | a review of each right of the role | any is denied |
| leadership | the Lease | it cannot be read (no Lease yet: nobody leads) |
| scheduler | kube-scheduler's Lease, where growth is to place its pods | never; a warning while it is being renewed |
| provider | its catalogue, and the machines of this cluster | it does not answer, or sells nothing |
| limits | the settings | never; a warning while machines cost money and no limit of price is set |
| pools | each pool, against the catalogue | it cannot be read, or can buy nothing at all |
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from growth.controllers.ask.premises import Installed, denied_rights, needed_rights, why_not_namespace
from growth.controllers.configuration import NO_PRICE_LIMIT, cluster_id, with_money
from growth.controllers.observe.kube_scheduler import WHERE as LEASE
from growth.controllers.observe.kube_scheduler import first_seen, why_left
from growth.kube.api.client import JSON, Client
from growth.kube.api.errors import Forbidden, KubeError, NotFound, Refused, what_to_do
from growth.kube.api.resources import CUSTOM_RESOURCE_DEFINITIONS, LEASES, NODE_POOLS
from growth.kube.api.server_time import date_of
from growth.kube.api.transport import Request, Transport, TransportError
from growth.kube.codec import Codec
from growth.kube.crds import definitions
from growth.kube.crds.schema import Definition
from growth.kube.election import Lease
from growth.model.api import API_GROUP, API_VERSION
from growth.model.nodepool import NodePool
from growth.model.offering import Offering
from growth.model.scheduler import DEFAULT_SCHEDULER
from growth.plan.world.limits import needs_default_price
from growth.plan.world.pools import offerings_of
from growth.providers.careful import CarefulProvider
from growth.providers.contract import Provider, ProviderError
from growth.runtime import Runtime

State = Literal["ok", "warning", "failed"]

CLOCK_SECONDS: Final = 30.0
OLDEST_TRIED: Final = (1, 29)  # rules of our kinds (CEL) are stable since then
_ANSWER_SECONDS: Final = 10.0

_INSTALL: Final = "install this version's kinds: `growth crds | kubectl apply --server-side -f -`, or `helm upgrade`"


class Finding(Struct, frozen=True, omit_defaults=True):
    """What one check found; `advice` says what to do about it."""

    check: str
    state: State
    what: str
    advice: str = ""


class Doctor:
    """Examines one cluster, as one user, for one installation."""

    def __init__(
        self,
        transport: Transport,
        runtime: Runtime,
        open_provider: Callable[[Client, Runtime], Provider],
        installed: Installed,
    ) -> None:
        self._transport, self._runtime = transport, runtime
        self._open_provider, self._installed = open_provider, installed
        self._client = Client(transport, runtime)
        self._offerings: tuple[Offering, ...] = ()

    async def examine(self) -> list[Finding]:
        """All checks, in the order of the table; without an API server only the first."""
        first = await self._ask_server()
        if first.state == "failed":
            return [first]
        checks = {
            "clock": self._clock,
            "kinds": self._kinds,
            "namespace": self._namespace,
            "rights": self._rights,
            "leadership": self._leadership,
            "scheduler": self._scheduler,
            "provider": self._provider,
            "limits": self._limits,
            "pools": self._pools,
        }
        return [first, *[finding for name, check in checks.items() for finding in await _every(name, check())]]

    async def _ask_server(self) -> Finding:
        try:
            version = await self._client.server_version()
        except KubeError as error:
            says = "it refuses" if isinstance(error, Refused) else "it does not answer"
            advice = what_to_do(error) or "check the kubeconfig, the network and the credentials"
            return Finding("API server", "failed", f"{says}: {error}", advice)
        if not _is_tried(version):
            oldest = ".".join(map(str, OLDEST_TRIED))
            advice = f"the rules of growth's kinds need Kubernetes {oldest} or later"
            return Finding("API server", "warning", f"{version} is older than {oldest}", advice)
        return Finding("API server", "ok", f"it answers, version {version}")

    async def _limits(self) -> AsyncIterator[Finding]:
        settings = with_money(self._installed.settings, self._installed.provider)
        price = settings.limits.price_per_hour
        if needs_default_price(settings):
            yield Finding("limits", "warning", NO_PRICE_LIMIT, "set the limit that you want: plans.limits.pricePerHour")
        elif price is not None:
            yield Finding("limits", "ok", f"all pools together may cost {price} per hour")

    async def _clock(self) -> AsyncIterator[Finding]:
        asked_at, request = self._runtime.now(), Request("GET", "/version", {"accept": JSON})
        response = await self._runtime.within(_ANSWER_SECONDS, self._transport.send(request))
        answered_at = self._runtime.now()
        await response.close()
        told_at = date_of(response.headers)
        if told_at is None:
            what = "the API server does not say what time it is"
            yield Finding("clock", "warning", what, "compare the clocks yourself")
            return
        apart = max(told_at - answered_at, asked_at - (told_at + 1.0), 0.0)  # Date has whole seconds, cut off
        if apart > CLOCK_SECONDS:
            what = f"ours and the API server's are {apart:.0f} s apart"
            yield Finding(
                "clock",
                "failed",
                what,
                "set both by NTP: growth goes by the API server's, tokens and certificates by both",
            )
        else:
            yield Finding("clock", "ok", f"ours and the API server's differ by less than {apart + 1:.0f} s")

    async def _kinds(self) -> AsyncIterator[Finding]:
        try:
            served = {one.name for one in await self._client.served(API_GROUP, API_VERSION)}
        except NotFound:
            served = set()
        for definition in definitions():
            plural, name = definition["spec"]["names"]["plural"], definition["metadata"]["name"]
            if plural in served:
                yield await self._compared(name, definition)
            else:
                yield Finding("kinds", "failed", f"{name} is not served in {API_VERSION}", _INSTALL)

    async def _compared(self, name: str, wanted: Definition) -> Finding:
        try:
            found = msgspec.json.decode(await self._client.get(CUSTOM_RESOURCE_DEFINITIONS, name))
        except (Forbidden, NotFound):
            why = "its definition cannot be read with these credentials, so it was not compared"
            return Finding("kinds", "ok", f"{name} is served ({why})")
        place = _first_difference(wanted["spec"], found["spec"], "spec")
        if place:
            what = f"{name} is not the one this growth knows: {place} differs"
            return Finding("kinds", "failed", what, _INSTALL)
        return Finding("kinds", "ok", f"{name} is installed as this growth knows it")

    async def _namespace(self) -> AsyncIterator[Finding]:
        namespace = self._installed.namespace
        why_not = await why_not_namespace(self._client, self._installed)
        if why_not:
            advice = f"create it (`kubectl create namespace {namespace}`), or name another one in the settings"
            yield Finding("namespace", "failed", why_not, advice)
        elif self._installed.elects:
            yield Finding("namespace", "ok", f"{namespace} is there, for the Lease")
        else:
            yield Finding("namespace", "ok", "none is needed: leader election is off")

    async def _leadership(self) -> AsyncIterator[Finding]:
        installed = self._installed
        if not installed.elects:
            yield Finding("leadership", "ok", "every growth leads: leader election is off, so there must be only one")
            return
        try:
            lease = msgspec.json.decode(await self._client.get(LEASES, installed.name, installed.namespace))
        except NotFound:
            yield Finding("leadership", "ok", "nobody leads: there is no Lease yet")
            return
        told = lease.get("spec", {})
        holder, renewed = told.get("holderIdentity") or "nobody", told.get("renewTime") or "never"
        what = f"the Lease {installed.namespace}/{installed.name} is held by {holder}, last renewed {renewed}"
        yield Finding("leadership", "ok", what)

    async def _scheduler(self) -> AsyncIterator[Finding]:
        """A Lease that is looked at once may be a minute old: its holder may have gone since."""
        if not self._installed.settings.scheduler.stands_in:
            return
        found, _ = await self._client.list(LEASES, LEASE.namespace, fields=LEASE.fields)
        leases = [msgspec.json.decode(each, type=Lease) for each in found]
        now = self._client.runtime.now()
        why = why_left(first_seen(leases[0] if leases else Lease(), now), now)
        if why:
            yield Finding("scheduler", "warning", why, "turn kube-scheduler off: docs/guides/only-scheduler.md")
        else:
            yield Finding("scheduler", "ok", f"growth places the pods of {DEFAULT_SCHEDULER}: nobody else does")

    async def _rights(self) -> AsyncIterator[Finding]:
        installed = self._installed
        needed = needed_rights(installed)
        denied = await denied_rights(self._client, needed)
        if denied:
            given = " --settings FILE" if installed.mints_join_tokens or installed.settings.warm_pools.kinds else ""
            command = f"growth role --provider {installed.provider} --namespace {installed.namespace}{given}"
            advice = f"apply the role: `{command} | kubectl apply -f -`, or `helm upgrade`"
            yield Finding("rights", "failed", f"these credentials may not: {', '.join(denied)}", advice)
        else:
            yield Finding("rights", "ok", f"these credentials have all {len(needed)} rights of the role")

    async def _provider(self) -> AsyncIterator[Finding]:
        try:
            provider = CarefulProvider(self._open_provider(self._client, self._runtime), self._runtime)
            self._offerings = await provider.offerings()
            machines = await provider.list(await cluster_id(self._client, self._installed.name))
        except (ProviderError, ValueError) as error:
            advice = "check the provider's settings, its catalogue file and its token"
            yield Finding("provider", "failed", f"{self._installed.provider}: {error}", advice)
            return
        if not self._offerings:
            yield Finding("provider", "failed", f"{provider.name} offers no machine", "check the catalogue file")
            return
        types = {offering.server_type for offering in self._offerings}
        places = {offering.location for offering in self._offerings}
        sold = f"{len(types)} server types in {len(places)} locations"
        yield Finding("provider", "ok", f"{provider.name} offers {sold}; {len(machines)} machines are ours")

    async def _pools(self) -> AsyncIterator[Finding]:
        items, _ = await self._client.list(NODE_POOLS)
        if not items:
            yield Finding("pools", "warning", "there is no NodePool", "growth buys nothing until there is one")
        codec = Codec()
        for item in items:
            decoded = codec.decode(NODE_POOLS.kind, item)
            if isinstance(decoded.noun, NodePool):
                yield why_not_pool(decoded.noun, self._offerings)
            else:
                yield Finding("pools", "failed", str(decoded.noun), _correct(decoded.key))


def why_not_pool(pool: NodePool, offerings: tuple[Offering, ...]) -> Finding:
    """Whether what a pool lists is sold, and where it is not."""
    if not offerings:
        return Finding("pools", "warning", f"{pool.name} was not compared: the catalogue is unknown")
    types = {offering.server_type.lower() for offering in offerings}
    locations = {offering.location.lower() for offering in offerings}
    listed = [choice.name for choice in pool.spec.server_types]
    unknown = [f"unknown server type {name}" for name in listed if name.lower() not in types]
    unknown += [f"unknown location {name}" for name in pool.spec.locations if name.lower() not in locations]
    bought = len(offerings_of(pool, offerings))
    if not bought:
        why = "; ".join(unknown) or "none of its server types is sold in its locations"
        return Finding("pools", "failed", f"{pool.name} can buy nothing: {why}", _correct(pool.name))
    if unknown:
        advice = "the provider does not sell these; take them off the pool"
        return Finding("pools", "warning", f"{pool.name} works without: {'; '.join(unknown)}", advice)
    return Finding("pools", "ok", f"{pool.name} can buy {bought} offerings")


def _correct(pool: str) -> str:
    return f"correct it: `kubectl edit nodepool {pool}`"


async def _every(name: str, check: AsyncIterator[Finding]) -> list[Finding]:
    """The findings of one check; where it cannot be made, that is the finding."""
    findings: list[Finding] = []
    try:
        async for finding in check:
            findings.append(finding)  # noqa: PERF401 - what was found before a failure is kept
    except (KubeError, TransportError, TimeoutError) as error:
        advice = "look at what the checks before this one say"
        findings.append(Finding(name, "failed", f"could not be checked: {error}", advice))
    return findings


def _is_tried(version: str) -> bool:
    found = re.match(r"v?(\d+)\.(\d+)", version)
    return found is not None and (int(found[1]), int(found[2])) >= OLDEST_TRIED


def _first_difference(wanted: Any, found: Any, path: str) -> str:
    """Where what we want is not there; what the API server added by itself does not count, except inside a schema."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        names = [*wanted, *(name for name in found if name not in wanted and ".schema" in path)]
        places = (_first_difference(wanted.get(name), found.get(name), f"{path}.{name}") for name in names)
        return next(filter(None, places), "")
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        pairs = enumerate(zip(wanted, found, strict=True))
        places = (_first_difference(*both, f"{path}[{place}]") for place, both in pairs)
        return next(filter(None, places), "")
    return "" if wanted == found else path
