"""Would buying at Hetzner work, and what would it cost? Asked by `growth hetzner check`: only questions, nothing is
bought, changed or deleted.

| check | fails when |
| --- | --- |
| token | its file cannot be read, or Hetzner does not accept it |
| limit | little is left of the project's limit of requests (a warning) |
| catalogue | Hetzner does not say what it sells |
| image, network, subnet, firewall, SSH key | a name in the settings means nothing in this project |
| user data | a file is missing, a placeholder means nothing, or it is too large when filled in |
| join tokens | they are to be minted, and the right is missing |
| pools | a pool can buy nothing; each with its price at min and at max |
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Sequence
from math import inf

from growth.controllers.act.join_tokens import RIGHTS as TOKEN_RIGHTS
from growth.controllers.ask.doctor import Finding, why_not_pool
from growth.kube.api.client import Client
from growth.kube.redaction import redact
from growth.model.nodepool import NodePool
from growth.model.offering import Offering
from growth.plan.world.pools import offerings_of
from growth.providers.contract import Order, ProviderError
from growth.providers.hetzner.errors import Unusable
from growth.providers.hetzner.provider import HetznerProvider
from growth.providers.hetzner.settings import HetznerSettings, Launch
from growth.providers.hetzner.userdata import user_data_for

HOURS_A_MONTH = 730
LITTLE_LEFT = 600
_LIKE_A_TOKEN = "check0.0000000000000000"  # noqa: S105  (opens nothing)


class HetznerCheck:
    """Looks at one project with one installation's settings."""

    def __init__(
        self,
        settings: HetznerSettings,
        provider: HetznerProvider,
        pools: Sequence[NodePool],
        *,
        mints_join_tokens: bool = False,
    ) -> None:
        self._settings = settings
        self._provider = provider
        self._pools = pools
        self._join_token = _LIKE_A_TOKEN if mints_join_tokens else ""
        self._offerings: tuple[Offering, ...] = ()

    async def examine(self) -> list[Finding]:
        """All checks; without a working token only the first."""
        try:
            self._offerings = await self._provider.offerings()
        except ProviderError as error:
            advice = f"put a token with read and write rights into {self._settings.token_file}"
            return [Finding("token", "failed", f"Hetzner cannot be asked: {error}", advice)]
        findings = [Finding("token", "ok", "Hetzner accepts the token"), self._limit(), self._catalogue()]
        for name, launch in (("launch", self._settings.launch), *self._settings.profiles.items()):
            findings += [each async for each in self._launch(name, launch)]
        return findings + [self._pool(pool) for pool in self._pools]

    def _limit(self) -> Finding:
        limit, left = self._provider.api.quota.told
        what = f"{left} of {limit} requests are left this hour; growth uses at most {self._settings.requests_per_hour}"
        if left is not None and left < LITTLE_LEFT:
            advice = "find out who else uses this project's API, or lower requestsPerHour"
            return Finding("limit", "warning", what, advice)
        return Finding("limit", "ok", what)

    def _catalogue(self) -> Finding:
        sold = self._provider.catalogue.sold
        types = {offering.server_type for offering in self._offerings}
        places = sorted({offering.location for offering in self._offerings})
        ended = "; ".join(f"{name} {words}" for name, words in (sold.ends if sold else {}).items())
        what = f"{len(types)} server types in {', '.join(places)}"
        return Finding("catalogue", "ok", f"{what} ({ended})" if ended else what)

    # --------------------------------------------------------------------------------------- launch

    async def _launch(self, name: str, launch: Launch) -> AsyncIterator[Finding]:
        directory, bought = self._provider.directory, self._bought(name)
        for architecture in sorted({offering.architecture for offering in bought}):
            yield await _found("image", f"{name}: an image for {architecture}", self._image(launch, architecture))
        networks, firewalls = _counted(launch.networks, "network"), _counted(launch.firewalls, "firewall")
        yield await _found("network", f"{name}: {networks}", directory.networks(launch.networks))
        for network, ip_range in launch.subnets.items():
            for location in sorted({offering.location for offering in bought}):
                subnet = directory.subnet(network, ip_range, location)
                yield await _found("subnet", f"{name}: {ip_range} for {location}", subnet)
        yield await _found("firewall", f"{name}: {firewalls}", directory.firewalls(launch.firewalls))
        ssh_keys = _counted(launch.ssh_keys, "SSH key")
        yield await _found("SSH key", f"{name}: {ssh_keys}", directory.ssh_keys(launch.ssh_keys))
        yield self._user_data(name, launch)

    def _bought(self, profile: str) -> Sequence[Offering]:
        """What the pools with this profile buy; all, where no pool is known."""
        pools = [pool for pool in self._pools if (pool.spec.provider_settings or "launch") == profile]
        return [each for pool in pools for each in offerings_of(pool, self._offerings)] if pools else self._offerings

    async def _image(self, launch: Launch, architecture: str) -> str:
        image = await self._provider.directory.image(launch, architecture)
        ends = f", deprecated since {image.deprecated}" if image.deprecated else ""
        return f"{image.name or image.description} ({image.id}){ends}"

    def _user_data(self, name: str, launch: Launch) -> Finding:
        made_up = ("check-pool-000000000000", "check", "check", "check", "hetzner-cx33", "fsn1")
        try:
            size = len(user_data_for(Order(*made_up, join_token=self._join_token), launch, "amd64").encode())
        except Unusable as error:
            advice = "correct the template or the settings"
            return Finding("user data", "failed", f"{name}: {redact(str(error))}", advice)
        if not size:
            advice = "machines will not join by themselves unless the image does it: set userDataFile"
            return Finding("user data", "warning", f"{name}: none", advice)
        return Finding("user data", "ok", f"{name}: {size} bytes when filled in, before a pool's labels and taints")

    # ---------------------------------------------------------------------------------------- pools

    def _pool(self, pool: NodePool) -> Finding:
        finding = why_not_pool(pool, self._offerings)
        if finding.state == "failed":
            return finding
        profile = pool.spec.provider_settings or ""
        if self._settings.launch_of(profile) is None:
            what = f"{pool.name} asks for the profile {profile}, which is not in hetzner.profiles"
            return Finding("pools", "failed", what, "add it, or correct the pool")
        return Finding("pools", finding.state, f"{finding.what}; {self._cost(pool)}", finding.advice)

    def _cost(self, pool: NodePool) -> str:
        """At min in the cheapest location, at max in the dearest; with IPv4, without tax. A whole month costs less:
        Hetzner caps it.
        """
        prices: dict[str, list[float]] = {}
        for offering in offerings_of(pool, self._offerings):
            prices.setdefault(offering.server_type.lower(), []).append(offering.price_per_hour)
        chosen = [choice for choice in pool.spec.server_types if choice.name.lower() in prices]
        least = sum(choice.min * min(prices[choice.name.lower()]) for choice in chosen)
        most = inf if any(choice.max is None for choice in chosen) else 0.0
        most += sum((choice.max or 0) * max(prices[choice.name.lower()]) for choice in chosen)
        limit = pool.spec.limits.price_per_hour
        most = most if limit is None else min(most, float(limit))
        currency = self._provider.catalogue.sold.currency if self._provider.catalogue.sold else "EUR"
        unbounded = "without bound at max: set max or limits.pricePerHour"
        upper = unbounded if most == inf else f"{_money(most, currency)} at max"
        return f"costs {_money(least, currency)} at min, {upper}"


async def _found(check: str, what: str, question: Awaitable[object]) -> Finding:
    try:
        answer = await question
    except (Unusable, ProviderError) as error:
        advice = "correct the settings, or make it in the project"
        return Finding(check, "failed", f"{what}: {redact(str(error))}", advice)
    return Finding(check, "ok", what + (f": {answer}" if isinstance(answer, str) else " found" if answer else ""))


async def examine_join_tokens(client: Client) -> Finding:
    """Whether these credentials may mint them; raises KubeError."""
    needed = [(verb, right) for right in TOKEN_RIGHTS for verb in right.verbs]
    denied = [
        f"{verb} {right.resource} in {right.namespace}"
        for verb, right in needed
        if not await client.may(verb, right.resource, right.namespace)
    ]
    if denied:
        advice = "apply the role: `growth role --settings FILE | kubectl apply -f -`, or `helm upgrade`"
        return Finding("join tokens", "failed", f"these credentials may not: {', '.join(denied)}", advice)
    return Finding("join tokens", "ok", "one is minted for each machine, and these credentials may do it")


def _counted(names: Sequence[str], what: str) -> str:
    return f"{len(names)} {what}" + ("" if len(names) == 1 else "s")


def _money(per_hour: float, currency: str) -> str:
    return f"{per_hour:.4f} {currency} an hour ({per_hour * HOURS_A_MONTH:.2f} a month at most)"
