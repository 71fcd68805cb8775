"""Where objects live: the address of each kind of thing as data.

Asked by the client, the reflectors and the controllers. Adding a kind is adding a line.

A right that something growth does needs. Declared beside the thing that needs it; collected into the role by
`controllers/act/role.py`.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

from msgspec import Struct

_PLAIN: Final = re.compile(r"[a-z0-9./-]+")  # nothing to quote, as in nearly all names


def path_of(*segments: str) -> str:
    """Each segment is quoted: nothing in it begins another one, goes up, or asks for something else."""
    for segment in segments:
        if segment in ("", ".", ".."):
            raise ValueError(f"{segment!r} cannot be part of a path")
    path = "/" + "/".join(segments)
    is_plain = path.count("/") == len(segments) and _PLAIN.fullmatch(path) is not None
    return path if is_plain else "".join(f"/{quote(segment, safe='')}" for segment in segments)


class Resource(Struct, frozen=True, gc=False):
    """One kind of object as the API server addresses it; the core group is ""."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, name: str = "", namespace: str = "", subresource: str = "") -> str:
        """The path of the collection (in all namespaces if none is named), of one object, or of a part of it."""
        if namespace and not self.namespaced:
            raise ValueError(f"{self} have no namespace, got {namespace!r}")
        if name and self.namespaced and not namespace:
            raise ValueError(f"{self} {name!r} needs a namespace")
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        parts += ["namespaces", namespace] if namespace else []
        return path_of(*parts, self.plural, *(part for part in (name, subresource) if part))


PODS = Resource("", "v1", "pods", "Pod")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
SECRETS = Resource("", "v1", "secrets", "Secret")  # only for minted join tokens, and only written
POD_TEMPLATES = Resource("", "v1", "podtemplates", "PodTemplate")
PERSISTENT_VOLUME_CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
PERSISTENT_VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
REPLICATION_CONTROLLERS = Resource("", "v1", "replicationcontrollers", "ReplicationController")
LIMIT_RANGES = Resource("", "v1", "limitranges", "LimitRange")
RESOURCE_QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet")
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet")
DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet")
JOBS = Resource("batch", "v1", "jobs", "Job")
CRON_JOBS = Resource("batch", "v1", "cronjobs", "CronJob")

STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)
CSI_NODES = Resource("storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False)
CSI_DRIVERS = Resource("storage.k8s.io", "v1", "csidrivers", "CSIDriver", namespaced=False)
POD_DISRUPTION_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
POD_GROUPS = Resource("scheduling.k8s.io", "v1alpha3", "podgroups", "PodGroup")  # or an older version
PLUGIN_POD_GROUPS = Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup")  # of scheduler-plugins
RUNTIME_CLASSES = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
EVENTS = Resource("events.k8s.io", "v1", "events", "Event")
ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
RULES_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", namespaced=False
)
USER_REVIEWS = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False)
TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False)
CUSTOM_RESOURCE_DEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)

NODE_POOLS = Resource("growth.dev", "v1alpha1", "nodepools", "NodePool", namespaced=False)
NODE_REQUESTS = Resource("growth.dev", "v1alpha1", "noderequests", "NodeRequest", namespaced=False)
NODE_REMOVAL_REQUESTS = Resource(
    "growth.dev", "v1alpha1", "noderemovalrequests", "NodeRemovalRequest", namespaced=False
)
POOL_AUTOSCALERS = Resource("growth.dev", "v1alpha1", "poolautoscalers", "PoolAutoscaler")
CAPACITY_BUFFERS = Resource("autoscaling.x-k8s.io", "v1beta1", "capacitybuffers", "CapacityBuffer")
CAPACITY_BUFFERS_V1ALPHA1 = Resource("autoscaling.x-k8s.io", "v1alpha1", "capacitybuffers", "CapacityBuffer")


class Right(Struct, frozen=True):
    """Verbs on a resource or a subresource; `namespace` is set where a namespaced Role is enough, `name` where it is
    about one object.
    """

    resource: Resource
    verbs: tuple[str, ...]
    subresource: str = ""
    namespace: str = ""
    name: str = ""
