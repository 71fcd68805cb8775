"""Which cluster do these files describe? Asked by `growth plan` and the benchmarks of the solver; it decides nothing.

| file | may be |
| --- | --- |
| pods, nodes, pools | Kubernetes objects in YAML or JSON: documents, Lists, what `kubectl get -o json` prints |
| pods | also a JSON object with a list `pods`, as benchmarks of planners have it |
| offerings | a catalogue (see `providers/catalogue`), a benchmark's (of those, what is on demand), or the word kwok |

Each file may hold any kind, also those that matter on the side (DaemonSets, Namespaces, claims, volumes,
PriorityClasses). Pods with a node are there already, all others wait. Without pools there is one, called default, that
may buy everything. A benchmark's catalogue is a JSON list of

    {"name", "allocatable": {"cpuMillis", "memoryBytes", "pods", "ephemeralStorageBytes"}, "labels": {key: [values]},
     "offerings": [{"zone", "capacityType", "price", "available"}]}
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from growth.kube.codec import Codec
from growth.kube.codec.manifest import Manifest, ManifestError, decode_manifest_text
from growth.model.labels import INSTANCE_TYPE, OPERATING_SYSTEM, ZONE, Labels
from growth.model.nodepool import DEFAULT_POOL, NodePool, NodePoolSpec, ServerTypeChoice
from growth.model.offering import Offering
from growth.model.pod import Pod
from growth.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources
from growth.model.snapshot import Snapshot, VolumeWorld
from growth.plan.world.machines import by_labels
from growth.providers.catalogue import CatalogueError, built_in_catalogue, parse_catalogue

BUILT_IN: Final = "kwok"  # in place of a file: what that provider sells where no catalogue is given
CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"
ON_DEMAND: Final = "on-demand"


class Described(Struct, frozen=True):
    """The cluster, and what could not be read of it."""

    snapshot: Snapshot
    problems: tuple[str, ...] = ()


def read_files(pods: Path, offerings: Path, nodes: Path | None = None, pools: Path | None = None) -> Described:
    """Raises ManifestError or CatalogueError for a file that says nothing; an unreadable object is a problem."""
    codec = Codec()
    read = [_read_manifest(path, codec) for path in (pods, nodes, pools) if path is not None]
    sold = read_offerings(offerings)
    found: dict[str, NodePool] = _merged(manifest.pools for _, manifest in read)
    return Described(
        _snapshot([manifest for _, manifest in read], found or _one_pool(sold), sold),
        tuple(line for lines, _ in read for line in lines),
    )


def read_offerings(path: Path) -> tuple[Offering, ...]:
    if str(path) == BUILT_IN and not path.exists():
        return replace(built_in_catalogue(), provider=BUILT_IN).offerings()
    data = _bytes(path, CatalogueError)
    try:
        if data.lstrip().startswith(b"["):
            return parse_bench_catalogue(data)
        return parse_catalogue(data.decode("utf-8", "replace")).offerings()
    except CatalogueError as error:
        raise CatalogueError(f"{path}: {error}") from None


def _bytes(path: Path, error_type: type[ValueError]) -> bytes:
    try:
        return sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise error_type(f"{path}: {error.strerror or error}") from None


def _read_manifest(path: Path, codec: Codec) -> tuple[list[str], Manifest]:
    data = _bytes(path, ManifestError)
    try:
        manifest = decode_manifest_text(_text(data), codec, is_strict=False)
    except ManifestError as error:
        raise ManifestError(f"{path}: {error}") from None
    return [f"{path}: {problem}" for problem in manifest.problems], manifest


def _text(data: bytes) -> str:
    """What is a list of pods under another name becomes a PodList."""
    if data.lstrip().startswith(b"{"):
        try:
            root = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        except msgspec.MsgspecError:
            return data.decode("utf-8", "replace")
        if "pods" in root and "kind" not in root:
            return msgspec.json.encode({"kind": "PodList", "apiVersion": "v1", "items": root["pods"]}).decode()
    return data.decode("utf-8", "replace")


def _one_pool(offerings: Iterable[Offering]) -> dict[str, NodePool]:
    types = tuple(ServerTypeChoice(name) for name in dict.fromkeys(offering.server_type for offering in offerings))
    return {DEFAULT_POOL: NodePool(DEFAULT_POOL, NodePoolSpec(types))}


def _snapshot(manifests: list[Manifest], pools: Mapping[str, NodePool], offerings: tuple[Offering, ...]) -> Snapshot:
    pods = _merged({pod.key: pod for pod in manifest.pods} for manifest in manifests)
    there: dict[str, list[Pod]] = {}
    for pod in pods.values():
        if pod.node_name:
            there.setdefault(pod.node_name, []).append(pod)
    volumes = [manifest.volumes for manifest in manifests]
    return Snapshot(
        now=max((pod.created_at for pod in pods.values()), default=0.0),
        nodes={name: by_labels(node) for name, node in _merged(manifest.nodes for manifest in manifests).items()},
        pods_by_node={name: tuple(standing) for name, standing in there.items()},
        waiting_pods=tuple(
            replace(pod, nominated_node="") for pod in pods.values() if not pod.node_name and not pod.is_finished
        ),
        namespaces=_merged(manifest.namespaces for manifest in manifests),
        daemon_sets=tuple({each.key: each for manifest in manifests for each in manifest.daemon_sets}.values()),
        volumes=VolumeWorld(
            claims=_merged(world.claims for world in volumes),
            volumes=_merged(world.volumes for world in volumes),
            classes=_merged(world.classes for world in volumes),
            nodes=_merged(world.nodes for world in volumes),
        ),
        pools=pools,
        requests=_merged(manifest.requests for manifest in manifests),
        removals=_merged(manifest.removals for manifest in manifests),
        offerings=offerings,
    )


def _merged(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    return {key: value for part in parts for key, value in part.items()}


# ------------------------------------------------------------------------- a benchmark's catalogue


class _Amounts(Struct, rename="camel"):
    cpu_millis: int
    memory_bytes: int
    pods: int = 110
    ephemeral_storage_bytes: int = 0


class _Sale(Struct, rename="camel"):
    zone: str
    capacity_type: str
    price: float
    available: bool = True


class _Type(Struct):
    name: str
    allocatable: _Amounts
    labels: dict[str, list[str]]
    offerings: list[_Sale]


def parse_bench_catalogue(
    data: bytes, provider: str = "bench", capacity_types: tuple[str, ...] = (ON_DEMAND,)
) -> tuple[Offering, ...]:
    """All offerings of the wanted capacity types; a spot offering's name ends in -spot. Raises CatalogueError."""
    try:
        types = msgspec.json.decode(data, type=list[_Type])
    except msgspec.DecodeError as error:
        raise CatalogueError(f"not a benchmark catalogue: {error}") from None
    return tuple(offering for one in types for offering in _offerings(one, provider, capacity_types))


def _offerings(one: _Type, provider: str, capacity_types: tuple[str, ...]) -> Iterator[Offering]:
    amounts = one.allocatable
    found = {
        CPU: amounts.cpu_millis,
        MEMORY: amounts.memory_bytes,
        PODS: amounts.pods,
        EPHEMERAL_STORAGE: amounts.ephemeral_storage_bytes,
    }
    for sale in one.offerings:
        if sale.capacity_type in capacity_types:
            ending = "" if sale.capacity_type == ON_DEMAND else f"-{sale.capacity_type}"
            yield Offering(
                name=f"{provider}-{one.name.lower()}{ending}",
                server_type=one.name,
                location=sale.zone,
                price_per_hour=sale.price,
                allocatable=Resources(found),
                labels=_labels(one, sale),
                is_available=sale.available,
            )


def _labels(one: _Type, sale: _Sale) -> Labels:
    chosen = {key: values[0] for key, values in one.labels.items() if values}
    if "linux" in one.labels.get(OPERATING_SYSTEM, ()):
        chosen[OPERATING_SYSTEM] = "linux"
    return Labels({**chosen, INSTANCE_TYPE: one.name, ZONE: sale.zone, CAPACITY_TYPE: sale.capacity_type})
