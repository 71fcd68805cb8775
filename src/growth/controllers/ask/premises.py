"""Does the cluster give growth what it needs before it can act: its namespace, and its rights? And does any growth act?

Asked by `growth doctor` and `growth explain` once, and by a running growth again and again (`controllers/health`).
Reads only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from growth.controllers.act.join_tokens import RIGHTS as TOKEN_RIGHTS
from growth.controllers.act.role import Features, lease_rights, rights
from growth.controllers.configuration import Configuration
from growth.kube.api.client import Client, Rule
from growth.kube.api.errors import Forbidden, KubeError, NotFound, Refused
from growth.kube.api.resources import LEASES, NAMESPACES, Right
from growth.kube.election import Lease
from growth.model.instant import format_instant
from growth.model.settings import Settings

_LEASES_MISSED: Final = 2  # terms of the Lease without a renewal: whoever held it is gone
_NAMED: Final = 8  # rights that are missing; more are counted
_ANYWHERE: Final = "default"  # a review is always of one namespace; the rights that hold everywhere are part of it


class Installed(Struct, frozen=True):
    """The settings with which growth runs here, as far as the cluster must agree to them."""

    provider: str
    name: str
    namespace: str
    mints_join_tokens: bool = False
    settings: Settings = Settings()
    elects: bool = True  # it leads only while it holds its Lease
    acts: bool = True  # it does not only observe
    exposes_page: bool = False  # others than its own machine may reach the page, with tokens that are reviewed
    serves_buffers: bool = True
    serves_warm_pools: bool = True

    @property
    def features(self) -> Features:
        plans = self.settings
        served = (self.serves_buffers, self.serves_warm_pools, plans.scheduler.enabled, plans.warm_pools.kinds)
        return Features(self.provider, self.acts, *served, self.exposes_page, plans.scheduler.stands_in)


def installed_by(configuration: Configuration) -> Installed:
    """What these settings ask of the cluster."""
    return Installed(
        configuration.provider,
        configuration.installation,
        configuration.namespace,
        configuration.join_tokens.mint,
        configuration.plans,
        configuration.leader_election,
        acts=not configuration.observe,
        exposes_page=configuration.page.enabled and configuration.page.is_exposed,
        serves_buffers=configuration.serves_buffers,
        serves_warm_pools=configuration.serves_warm_pools,
    )


async def why_not_namespace(client: Client, installed: Installed) -> str:
    """Why the Lease has no place to be in. Empty: it has one, or needs none, or growth may not look."""
    if not installed.elects:
        return ""
    try:
        found = msgspec.json.decode(await client.get(NAMESPACES, installed.namespace))
    except NotFound:
        return f"the namespace {installed.namespace} does not exist, so the Lease cannot be taken"
    except Forbidden:
        return ""  # the right to look is one of those that are asked for
    if found["metadata"].get("deletionTimestamp"):
        return f"the namespace {installed.namespace} is being deleted, so the Lease cannot be taken"
    return ""


async def why_nobody_acts(client: Client, installed: Installed) -> str:
    """Why nothing happens in this cluster, whatever is planned. Empty: a growth leads and acts, or it is not known."""
    if not installed.acts:
        return "growth only observes, and changes nothing"
    if not installed.elects:
        return ""
    where = f"{installed.namespace}/{installed.name}"
    try:
        lease = msgspec.json.decode(await client.get(LEASES, installed.name, installed.namespace), type=Lease)
    except NotFound:
        return f"no growth leads here: there is no Lease {where}"
    except (KubeError, msgspec.MsgspecError):
        return ""  # who may not look is told what would be done
    told = lease.spec
    if not told.holder_identity:
        return f"no growth leads: nobody holds the Lease {where}"
    renewed_at = told.renewed_at
    if renewed_at is None or client.runtime.now() - renewed_at <= _LEASES_MISSED * told.seconds:
        return ""
    return f"no growth leads: {told.holder_identity} last renewed the Lease {where} at {format_instant(renewed_at)}"


def needed_rights(installed: Installed) -> dict[str, Right]:
    """Each verb by itself and only once, by its words: patch nodes, create pods/binding."""
    lease = lease_rights(installed.namespace, installed.name) if installed.elects else ()
    tokens = TOKEN_RIGHTS if installed.mints_join_tokens else ()
    seen: dict[str, Right] = {}
    for right in (*rights(installed.features), *lease, *tokens):
        what = f"{right.resource}/{right.subresource}" if right.subresource else str(right.resource)
        for verb in right.verbs:
            words = f"{verb} {what}" + (f" in {right.namespace}" if right.namespace else "")
            seen.setdefault(words, msgspec.structs.replace(right, verbs=(verb,)))
    return seen


async def denied_rights(client: Client, needed: dict[str, Right]) -> list[str]:
    """Those that are surely denied. One answer lists most rights; what it lacks is asked for one by one."""
    found = {place: await _rules(client, place) for place in {right.namespace for right in needed.values()}}
    doubtful = {words: right for words, right in needed.items() if not _is_covered(right, found[right.namespace])}
    return [words for words, right in doubtful.items() if not await _may(client, right)]


def why_not_rights(denied: Sequence[str]) -> str:
    """In one sentence. Empty: none is denied."""
    more = f" and {len(denied) - _NAMED} more" if len(denied) > _NAMED else ""
    return f"these credentials may not: {', '.join(denied[:_NAMED])}{more}" if denied else ""


async def _rules(client: Client, namespace: str) -> Iterable[Rule]:
    try:
        return await client.rules(namespace or _ANYWHERE)
    except Refused:
        return ()  # not offered here


def _is_covered(right: Right, rules: Iterable[Rule]) -> bool:
    plural = f"{right.resource.plural}/{right.subresource}" if right.subresource else right.resource.plural
    return any(rule.covers(right.verbs[0], right.resource.group, plural, right.name) for rule in rules)


async def _may(client: Client, right: Right) -> bool:
    return await client.may(right.verbs[0], right.resource, right.namespace, right.subresource, right.name)
