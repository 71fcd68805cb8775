"""Whose is it, where several growths share a cluster by pools? A trial of decision 7; growth itself knows no shares.

Every growth could work this out by itself from what all of them see: the NodePools and what the provider sells. So all
agree without speaking to each other.

| object | is of |
| --- | --- |
| NodePool | the share that its label `growth.dev/share` names; without the label, the share without a name |
| NodeRequest, NodeRemovalRequest, Node and machine of a pool | the share of the pool |
| pod that waits | the share of the first pool, by priority and name, that could hold it on an empty node |
| pod that no pool could hold | the share of the first pool that it names, which tells it why |
| CapacityBuffer | the share of a pod of its template |
| PoolAutoscaler | the share that its label names |
| whatever names no pool that there is | the first share by name |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from growth.kube.codec import Codec
from growth.kube.codec.own import read_node_pool
from growth.model.nodepool import NodePool
from growth.model.pod import PodShape
from growth.plan.world.market import PoolReader
from growth.plan.world.pools import choice_labels, offerings_of, serving_taints
from growth.sim.apiserver.kinds import BY_NAME, Json
from growth.sim.apiserver.store import Stored
from growth.sim.cluster import Cluster
from growth.solver.rules.fit import is_enough, may_run_on

SHARE_LABEL: Final = "growth.dev/share"
POOL: Final = BY_NAME["NodePool"]


class Shares:
    """As the pools say at this moment; `version` moves when they say something else. One that `is_deaf` has not heard
    of what they say since.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.version, self.is_deaf = 0, False
        self._store, self._sold = cluster.store, cluster.world.catalogue.offerings()
        self._codec = Codec()
        self._read_at = -1
        self._said: dict[str, tuple[str, Json]] = {}  # by pool: its share, and its spec
        self._pools: Mapping[str, NodePool] = {}
        self._reader = PoolReader({}, ())
        self._of_shape: dict[PodShape, str] = {}

    def as_of_now(self) -> int:
        self._refresh()
        return self.version

    @property
    def names(self) -> list[str]:
        self._refresh()
        return sorted({share for share, _ in self._said.values()}) or [""]

    def hear_again(self) -> None:
        self.is_deaf = False
        for wake in list(self._store.shelf(POOL).listeners):
            wake()

    def of_pool(self, name: str) -> str:
        self._refresh()
        return self._said[name][0] if name in self._said else self.names[0]

    def of_waiting(self, stored: Stored) -> str:
        return self.of_shape(self._codec.decode_pod(stored.data).shape)

    def of_shape(self, shape: PodShape) -> str:
        self._refresh()
        if shape not in self._of_shape:
            self._of_shape[shape] = self.of_pool(self._first_pool(shape))
        return self._of_shape[shape]

    def of_buffer(self, buffer: Json) -> str:
        """A buffer whose template is not there is the first share's, which says so."""
        template, namespace = self._template_of(buffer), buffer["metadata"]["namespace"]
        if template is None:
            return self.names[0]
        return self.of_shape(self._codec.decode_template(msgspec.json.encode(template), namespace))

    def of_labelled(self, item: Json) -> str:
        share = str((item["metadata"].get("labels") or {}).get(SHARE_LABEL, ""))
        return share if share in self.names else self.names[0]

    def _first_pool(self, shape: PodShape) -> str:
        match, with_rules = self._reader.read(shape)
        holding = (name for name in match.names if self._can_hold(self._pools[name], with_rules))
        return next(holding, next(iter(match.names), ""))

    def _can_hold(self, pool: NodePool, shape: PodShape) -> bool:
        """On an empty node of something that it sells: by labels, taints and size, in stock or not."""
        taints = serving_taints(pool)
        return any(
            may_run_on(shape, choice_labels(pool, each), taints) and is_enough(each.allocatable, shape)
            for each in offerings_of(pool, self._sold)
        )

    def _template_of(self, buffer: Json) -> Json | None:
        spec, namespace = buffer["spec"], buffer["metadata"]["namespace"]
        if "podTemplateRef" in spec:
            found = self._store.read(BY_NAME["PodTemplate"], spec["podTemplateRef"]["name"], namespace)
            return None if found is None else found["template"]
        found = self._store.read(BY_NAME[spec["scalableRef"]["kind"]], spec["scalableRef"]["name"], namespace)
        return None if found is None else found["spec"].get("template")

    def _refresh(self) -> None:
        """Pools are read again when one was written; statuses, which are written often, say nothing here."""
        history = self._store.shelf(POOL).history
        written_at = history[-1].version if history else 0
        if written_at == self._read_at or self.is_deaf:
            return
        self._read_at = written_at
        stored = self._store.all(POOL)
        pools = [each.decoded() for each in stored]
        said = {pool["metadata"]["name"]: (share_in(pool), pool["spec"]) for pool in pools}
        if said != self._said:
            self._said, self._of_shape = said, {}
            self._pools = {each.name: read_node_pool(each.data) for each in stored}
            self._reader = PoolReader(self._pools, self._sold)
            self.version += 1


def share_in(pool: Json) -> str:
    """By its label."""
    return str((pool["metadata"].get("labels") or {}).get(SHARE_LABEL, ""))
