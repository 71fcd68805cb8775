"""Which kinds of object does the embedded API server know, and how do they differ? Asked by its store and its verbs.

One row for each kind. A kind that is not here is answered with 404, as by an API server without that CRD.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from growth.kube.api import resources as known
from growth.kube.api.resources import Resource

Json = dict[str, Any]


class Kind(Struct, frozen=True):
    """One kind: where it is served and the rules that the API server has for it."""

    resource: Resource
    has_status: bool = False  # a status subresource: the main resource does not write status, and the other way round
    keeps_status_at_create: bool = False  # a kubelet registers its node with a status
    has_scale: bool = False
    counts_generations: bool = False
    needs_version_to_update: bool = False  # a PUT without resourceVersion is refused
    is_custom: bool = False  # defined by a CRD: validated by its schema, kind and apiVersion also in list items
    selectable_fields: tuple[str, ...] = ()  # beside metadata.name and metadata.namespace

    @property
    def name(self) -> str:
        return self.resource.kind

    @property
    def api_version(self) -> str:
        return self.resource.api_version


def _workload(resource: Resource, **differences: Any) -> Kind:
    return Kind(resource, has_status=True, counts_generations=True, **differences)


def _custom(resource: Resource, **differences: Any) -> Kind:
    return Kind(
        resource, has_status=True, counts_generations=True, needs_version_to_update=True, is_custom=True, **differences
    )


POD_FIELDS: Final = (
    *("spec.nodeName", "spec.schedulerName", "spec.restartPolicy", "spec.serviceAccountName"),
    *("status.phase", "status.nominatedNodeName"),
)
EVENT_FIELDS: Final = (
    *("regarding.kind", "regarding.name", "regarding.namespace", "regarding.uid"),
    *("reason", "reportingController", "type"),
)

SANDBOX_SETS: Final = Resource("agents.kruise.io", "v1alpha1", "sandboxsets", "SandboxSet")
SANDBOX_WARM_POOLS: Final = Resource("extensions.agents.x-k8s.io", "v1alpha1", "sandboxwarmpools", "SandboxWarmPool")
SANDBOX_TEMPLATES: Final = Resource("extensions.agents.x-k8s.io", "v1alpha1", "sandboxtemplates", "SandboxTemplate")
CLAIMED: Final = "claimed"  # the label of a member of a warm pool that is in use

KINDS: Final[tuple[Kind, ...]] = (
    Kind(known.PODS, has_status=True, selectable_fields=POD_FIELDS),
    Kind(known.NODES, has_status=True, keeps_status_at_create=True, selectable_fields=("spec.unschedulable",)),
    Kind(known.NAMESPACES, has_status=True),
    Kind(known.CONFIG_MAPS),
    Kind(known.SECRETS),
    Kind(known.POD_TEMPLATES, counts_generations=True),
    Kind(known.PERSISTENT_VOLUME_CLAIMS, has_status=True),
    Kind(known.PERSISTENT_VOLUMES, has_status=True),
    Kind(known.REPLICATION_CONTROLLERS, has_status=True, counts_generations=True, has_scale=True),
    Kind(known.LIMIT_RANGES),
    Kind(known.RESOURCE_QUOTAS, has_status=True),
    _workload(known.DEPLOYMENTS, has_scale=True),
    _workload(known.REPLICA_SETS, has_scale=True),
    _workload(known.STATEFUL_SETS, has_scale=True),
    _workload(known.DAEMON_SETS),
    _workload(SANDBOX_SETS, has_scale=True),
    _workload(SANDBOX_WARM_POOLS, has_scale=True),
    _workload(SANDBOX_TEMPLATES),
    _workload(known.JOBS),
    _workload(known.CRON_JOBS),
    Kind(known.STORAGE_CLASSES),
    Kind(known.CSI_NODES),
    Kind(known.CSI_DRIVERS),
    _workload(known.POD_DISRUPTION_BUDGETS, needs_version_to_update=True),
    Kind(known.PRIORITY_CLASSES, counts_generations=True),
    Kind(known.POD_GROUPS, has_status=True, counts_generations=True),
    Kind(known.RUNTIME_CLASSES),
    Kind(known.LEASES, needs_version_to_update=True),
    Kind(known.EVENTS, selectable_fields=EVENT_FIELDS),
    Kind(known.CUSTOM_RESOURCE_DEFINITIONS, has_status=True, counts_generations=True),
    _custom(known.NODE_POOLS),
    _custom(known.NODE_REQUESTS),
    _custom(known.NODE_REMOVAL_REQUESTS),
    _custom(known.POOL_AUTOSCALERS),
    _custom(known.CAPACITY_BUFFERS, has_scale=True),
)

OTHER_VERSIONS: Final[dict[tuple[str, str, str], Resource]] = {
    ("autoscaling.x-k8s.io", "v1alpha1", "capacitybuffers"): known.CAPACITY_BUFFERS_V1ALPHA1,
}

BY_PLURAL: Final = {(kind.resource.group, kind.resource.plural): kind for kind in KINDS}
BY_NAME: Final = {kind.name: kind for kind in KINDS}

POD, NODE, NAMESPACE, LEASE = (BY_NAME[name] for name in ("Pod", "Node", "Namespace", "Lease"))
