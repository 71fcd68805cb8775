"""One settings file for a running growth: who it is, where it buys, and every number of the plans. Read once, at the
start.

Asked by `growth run` and the other commands. The file is YAML; environment variables named GROWTH_… and then flags lie
over it. Anything unknown or out of bounds is refused with the name of the field, before anything else happens."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import yaml
from msgspec import Meta, Struct
from msgspec.structs import replace

from growth.controllers.act.join_tokens import JoinTokens
from growth.kube.api.client import Client
from growth.kube.api.resources import NAMESPACES
from growth.kube.election import LeaseSettings
from growth.model.settings import Settings
from growth.plan.world.limits import DEFAULT_PRICE_PER_HOUR
from growth.plan.world.schedule import UnknownTimeZoneError, read_zone
from growth.providers.hetzner.settings import HetznerSettings
from growth.providers.registry import COSTS_MONEY

InstallationName = Annotated[str, Meta(min_length=1, max_length=26, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z")]

_LOCALTIME = Path("/etc/localtime")
_ALSO_UTC = ("Etc/UTC", "Etc/UCT", "Etc/Universal", "Etc/Zulu", "UCT", "Universal", "Zulu")
SECTIONS = ("hetzner", "join_tokens", "page", "plans")  # these belong into the file, not into the environment


class ConfigurationError(ValueError):
    """The settings cannot be used; the message names the file and the field."""


class PageSettings(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The page that shows what growth does and why. It only reads."""

    enabled: Annotated[bool, Meta(description="Whether it is served.")] = True
    host: Annotated[
        str,
        Meta(
            description="Its address. Anything but loopback exposes it: then everybody needs a token of the cluster "
            "whose user may `get` the non-resource URL `/growth/page`."
        ),
    ] = "127.0.0.1"
    port: Annotated[
        int,
        Meta(ge=0, le=65535, description="Its port; 0 takes a free one. If it is taken, growth runs without the page."),
    ] = 8081
    hosts: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=253)], ...],
        Meta(max_length=50, description="Names under which it is reached, beside localhost and 127.0.0.1; no others."),
    ] = ()

    @property
    def is_exposed(self) -> bool:
        """Others than this machine may reach it; a name other than localhost could mean anything."""
        if self.host == "localhost":
            return False
        try:
            return not ip_address(self.host).is_loopback
        except ValueError:
            return True


class Configuration(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """All that `growth run` can be told."""

    installation: Annotated[
        InstallationName,
        Meta(
            description="Name of this growth. Part of the cluster id that machines are labelled with: never change it "
            "while it has machines."
        ),
    ] = "growth"
    namespace: Annotated[str, Meta(description="Where growth runs, and keeps its Lease.")] = "growth-system"
    provider: Annotated[Literal["kwok", "hetzner"], Meta(description="Where machines come from.")] = "kwok"
    catalogue: Annotated[str, Meta(description="File with the machines to offer; empty: the built-in one.")] = ""
    listen_host: Annotated[str, Meta(description="Address of probes and metrics. In a pod: 0.0.0.0.")] = "127.0.0.1"
    listen_port: Annotated[int, Meta(ge=0, le=65535, description="Port of probes and metrics; 0 takes a free one.")] = (
        8080
    )
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        Meta(description="The least important kind of log line that is written."),
    ] = "info"
    observe: Annotated[bool, Meta(description="Watch, plan and explain, but never buy, bind or delete.")] = False
    leader_election: Annotated[bool, Meta(description="Needed as soon as there may be two of us.")] = True
    lease_seconds: Annotated[
        int,
        Meta(
            ge=5,
            le=60,
            description="Another replica leads when nothing was heard of the leader for this long; a leader without an "
            "answer stops after two thirds of it.",
        ),
    ] = 15
    requests_per_second: Annotated[
        float,
        Meta(
            gt=0,
            le=10_000,
            description="How many requests the API server gets from growth at most; bursts may be twice that. Where "
            "the API server says 429, growth pauses for as long as it asks.",
        ),
    ] = 1000.0
    hetzner: Annotated[
        HetznerSettings, Meta(description="Where `provider` is hetzner: token, image, networks and so on, below.")
    ] = HetznerSettings()
    join_tokens: Annotated[
        JoinTokens, Meta(description="A join token for each machine, in place of one for all, below.")
    ] = JoinTokens()
    feature_gates: Annotated[
        str,
        Meta(
            pattern=r"^((CapacityBuffer|PoolAutoscaler)=(true|false)(,(CapacityBuffer|PoolAutoscaler)=(true|false))*)?\Z",
            description="`CapacityBuffer=false` turns buffers off, `PoolAutoscaler=false` warm pools; several with "
            "commas. Everything is on unless turned off, and growth's role is smaller without it.",
        ),
    ] = ""
    page: Annotated[PageSettings, Meta(description="The page to look at growth with, below.")] = PageSettings()
    metrics_name_tenants: Annotated[
        bool,
        Meta(
            description="Whether metrics tell namespaces and names of CapacityBuffers. Who reaches the port can read "
            "metrics; without it they count all buffers together."
        ),
    ] = False
    plans: Annotated[Settings, Meta(description="The numbers of the plans, below.")] = Settings()

    @property
    def serves_buffers(self) -> bool:
        return "CapacityBuffer=false" not in self.feature_gates.split(",")

    @property
    def serves_warm_pools(self) -> bool:
        return "PoolAutoscaler=false" not in self.feature_gates.split(",")

    @property
    def lease(self) -> LeaseSettings:
        return LeaseSettings.lasting(self.lease_seconds, self.installation, self.namespace)


def load_configuration(path: Path | None, environment: Mapping[str, str], flags: Mapping[str, Any]) -> Configuration:
    """The file, the environment over it, the flags over both."""
    content = _read(path) if path else {}
    given = {key: value for key, value in flags.items() if value is not None}
    layers = {**content, **_from_environment(environment), **given}
    try:
        return _with_zone(msgspec.convert(layers, Configuration, strict=False), content, environment)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{path or 'settings'}: {error}{_hint(content)}") from None


def _hint(content: Mapping[str, Any]) -> str:
    """People hand over the chart's values, in which the settings are one part, and mistype names."""
    if isinstance(content.get("settings"), dict):
        return "; this looks like values of the chart: growth's settings are what stands under `settings` there"
    known = [field.encode_name for field in msgspec.structs.fields(Configuration)]
    unknown = [name for name in content if name not in known]
    similar = get_close_matches(unknown[0], known, n=1) if unknown else []
    return f"; did you mean {similar[0]}?" if similar else ""


def with_scheduler(configuration: Configuration, enabled: bool | None, serves_default: bool | None) -> Configuration:
    """The settings with growth's own scheduler on or off, for pods of the default scheduler too or not: flags for what
    is deep in the file. None: as the file says.
    """
    plans, given = configuration.plans, {"enabled": enabled, "serves_default": serves_default}
    changed = {name: value for name, value in given.items() if value is not None}
    return replace(configuration, plans=replace(plans, scheduler=replace(plans.scheduler, **changed)))


def with_money(plans: Settings, provider: str) -> Settings:
    """The settings with what only the provider's name says: whether machines cost money."""
    if plans.machines_cost_money is not None:
        return plans
    return replace(plans, machines_cost_money=provider in COSTS_MONEY)


NO_PRICE_LIMIT = (
    f"no limit of price is set: all pools together may cost {DEFAULT_PRICE_PER_HOUR:g} per hour, or what they cost "
    "when this first held; plans.limits.pricePerHour says otherwise"
)


def _with_zone(
    configuration: Configuration, content: Mapping[str, Any], environment: Mapping[str, str]
) -> Configuration:
    """Schedules that name no zone follow the process's own, unless the file says otherwise."""
    given = content.get("plans") or {}
    zone = "" if "timeZone" in (given.get("warmPools") or {}) else own_zone(environment, _LOCALTIME)
    plans = configuration.plans
    settings = replace(plans.warm_pools, time_zone=zone) if zone else plans.warm_pools
    return replace(configuration, plans=replace(plans, warm_pools=settings))


def own_zone(environment: Mapping[str, str], localtime: Path) -> str:
    """The process's own: the variable TZ, then the system's, as IANA names. Empty if neither names one: a rule in the
    form of POSIX does not.
    """
    linked = str(localtime.resolve()) if localtime.is_symlink() else ""
    for text in (environment.get("TZ", "").removeprefix(":"), linked):
        named = text.partition("/zoneinfo/")[2] or text
        if named and _is_zone(named):
            return "UTC" if named in _ALSO_UTC else named
    return ""


def _is_zone(name: str) -> bool:
    try:
        read_zone(name)
    except UnknownTimeZoneError:
        return False
    return True


def _read(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text()) or {}
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from None
    except yaml.YAMLError as error:
        raise ConfigurationError(f"{path}: not YAML: {error}") from None
    if not isinstance(content, dict):
        raise ConfigurationError(f"{path}: settings are a mapping of names to values")
    return content


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    """GROWTH_LISTEN_PORT sets listenPort; GROWTH_PLANS_… is not offered: whole sections belong into the file."""
    fields = [field for field in msgspec.structs.fields(Configuration) if field.name not in SECTIONS]
    named = {f"GROWTH_{field.name.upper()}": field.encode_name for field in fields}
    return {encoded: environment[name] for name, encoded in named.items() if name in environment}


def print_configuration(configuration: Configuration) -> str:
    """The settings in force, as the file that would give them."""
    return yaml.safe_dump(msgspec.to_builtins(configuration), sort_keys=False)


async def cluster_id(client: Client, installation: str) -> str:
    """Which cluster is this? kube-system's UID and the installation's name: what our machines are labelled with at the
    provider. Raises KubeError.
    """
    found = msgspec.json.decode(await client.get(NAMESPACES, "kube-system"))
    return f"{found['metadata']['uid']}-{installation}"
