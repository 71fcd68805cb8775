"""Claims, volumes and classes of a case: every state a claim can be in, and every way a node can fail it."""

from __future__ import annotations

from tests.oracle.draws import REGION, ZONE, ZONES, Draws, Json

DRIVERS = ("disk.example.com", "file.example.com")
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
GIB = 2**30


class Storage:
    """Collects the storage objects of one case while pods are given volumes."""

    def __init__(self, draws: Draws, nodes: list[str]) -> None:
        self._draws = draws
        self._nodes = nodes
        self.volumes: list[Json] = []
        self.claims: list[Json] = []
        self.classes = [self._class(name) for name in ("fast", "slow", "static", "now")]
        self.csi_nodes = [self._csi_node(name) for name in nodes if draws.chance(0.8)]

    def _class(self, name: str) -> Json:
        draws = self._draws
        made: Json = {"metadata": {"name": name}, "provisioner": draws.one(DRIVERS)}
        made["volumeBindingMode"] = "Immediate" if name == "now" else "WaitForFirstConsumer"
        if name == "static":
            made["provisioner"] = "kubernetes.io/no-provisioner"
        elif draws.chance(0.1):
            made["provisioner"] = draws.one(("kubernetes.io/aws-ebs", "kubernetes.io/vsphere-volume"))
        if draws.chance(0.4):
            made["allowedTopologies"] = [
                {"matchLabelExpressions": [{"key": ZONE, "values": draws.at_least_one(ZONES)}]}
            ]
        return made

    def _csi_node(self, name: str) -> Json:
        draws = self._draws
        drivers: list[Json] = [
            {"name": driver, "nodeID": name, "topologyKeys": None} for driver in (*DRIVERS, "ebs.csi.aws.com")
        ]
        for driver in drivers:
            if draws.chance(0.8):
                driver["allocatable"] = {"count": draws.number(0, 3)}
        return {"metadata": {"name": name}, "spec": {"drivers": drivers}}

    def use(self, pod: Json, kind: str | None = None) -> None:
        """Give the pod one volume, in some state."""
        draws = self._draws
        kind = kind or draws.one(
            ("bound", "bound", "bound", "waiting", "waiting", "shared", "ephemeral", "disk", "missing", "broken")
        )
        volumes = pod["spec"].setdefault("volumes", [])
        name = f"v{len(volumes)}"
        if kind == "disk":
            volumes.append({"name": name, **self._disk()})
        elif kind == "ephemeral":
            volumes.append({"name": name, "ephemeral": {"volumeClaimTemplate": {"spec": self._claim_spec("fast")}}})
            if draws.chance(0.9):
                self._claim(f"{pod['metadata']['name']}-{name}", pod, draws.one(("bound", "waiting")), owner=pod)
        else:
            volumes.append({"name": name, "persistentVolumeClaim": {"claimName": self._claim_for(pod, kind)}})

    def _disk(self) -> Json:
        draws = self._draws
        read_only = {"readOnly": True} if draws.chance(0.5) else {}
        return draws.one(
            (
                {"gcePersistentDisk": {"pdName": draws.one(("d1", "d2")), **read_only}},
                {"awsElasticBlockStore": {"volumeID": draws.one(("d1", "d2")), **read_only}},
                {
                    "iscsi": {
                        "targetPortal": "1.2.3.4:3260",
                        "iqn": draws.one(("iqn.2001-04.com.example:a", "iqn.2001-04.com.example:b")),
                        "lun": 0,
                        **read_only,
                    }
                },
                {
                    "rbd": {
                        "monitors": draws.at_least_one(("m1", "m2")),
                        "image": "i",
                        "pool": draws.one(("rbd", "p")),
                        **read_only,
                    }
                },
            )
        )

    def _claim_for(self, pod: Json, kind: str) -> str:
        here = pod["metadata"]["namespace"]
        known = [
            claim["metadata"]["name"]
            for claim in self.claims
            if claim["metadata"]["namespace"] == here and "ownerReferences" not in claim["metadata"]
        ]
        if kind == "shared" and known:
            return str(self._draws.one(known))
        name = f"claim-{len(self.claims)}"
        if kind != "missing":
            self._claim(name, pod, kind if kind != "shared" else "bound")
        return name

    def _claim_spec(self, storage_class: str) -> Json:
        modes = [self._draws.one(("ReadWriteOnce", "ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"))]
        size = f"{self._draws.number(1, 3)}Gi"
        return {"accessModes": modes, "storageClassName": storage_class, "resources": {"requests": {"storage": size}}}

    def _claim(self, name: str, pod: Json, kind: str, owner: Json | None = None) -> None:
        draws = self._draws
        spec = self._claim_spec(draws.one(("fast", "slow", "static")))
        metadata: Json = {
            "name": name,
            "namespace": pod["metadata"]["namespace"],
            "uid": f"uid-{name}",
            "annotations": {},
        }
        made: Json = {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
        if owner is not None and draws.chance(0.9):
            reference = {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
                "controller": True,
            }
            metadata["ownerReferences"] = [reference]
        self.claims.append(made)
        if kind == "bound":
            self._bind(made)
        elif kind == "waiting":
            self._let_wait(made)
        else:
            self._break(made)

    def _bind(self, claim: Json) -> None:
        draws = self._draws
        name = f"pv-{len(self.volumes)}"
        claim["spec"]["volumeName"] = name
        claim["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = "yes"
        claim["status"]["phase"] = "Bound"
        if draws.chance(0.05):
            return  # bound to a volume that is gone
        volume = self._volume(name, claim["spec"]["storageClassName"])
        volume["spec"]["claimRef"] = {
            "namespace": claim["metadata"]["namespace"],
            "name": claim["metadata"]["name"],
            "uid": claim["metadata"]["uid"],
        }
        volume["status"] = {"phase": "Bound"}

    def _volume(self, name: str, storage_class: str) -> Json:
        draws = self._draws
        spec: Json = {
            "capacity": {
                "storage": str(draws.number(1, 4) * GIB + len(self.volumes))
            },  # all sizes differ: ties are decided by luck
            "accessModes": ["ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"]
            if draws.chance(0.8)
            else ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "csi": {"driver": draws.one(DRIVERS), "volumeHandle": f"handle-{name}"},
        }
        labels: Json = {}
        if draws.chance(0.35):
            labels[draws.one((ZONE, ZONE, OLD_ZONE, REGION))] = draws.one(("a", "b", "a__b", "eu", "a____b"))
        if draws.chance(0.1):
            labels["kind"] = "good"
        if draws.chance(0.4):
            key, values = draws.one(((ZONE, ZONES), ("kubernetes.io/hostname", tuple(self._nodes))))
            terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": draws.at_least_one(values)}]}]
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        made = {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": {"phase": "Available"}}
        self.volumes.append(made)
        return made

    def _let_wait(self, claim: Json) -> None:
        draws = self._draws
        if draws.chance(0.15):
            claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] = draws.one(
                (*self._nodes, "elsewhere")
            )
        if draws.chance(0.1):
            claim["spec"]["selector"] = {"matchLabels": {"kind": "good"}}
        if draws.chance(0.05):
            claim["spec"]["volumeMode"] = "Block"
        for number in range(draws.number(0, 2)):
            volume = self._volume(f"pv-{len(self.volumes)}", claim["spec"]["storageClassName"])
            if number == 0 and draws.chance(0.2):
                volume["spec"]["claimRef"] = {
                    "namespace": claim["metadata"]["namespace"],
                    "name": claim["metadata"]["name"],
                }
            if draws.chance(0.1):
                volume["status"]["phase"] = draws.one(("Released", "Pending"))

    def _break(self, claim: Json) -> None:
        """A claim that cannot be used: lost, being deleted, of no class, of a class that is gone or binds at once."""
        draws = self._draws
        how = draws.one(("lost", "deleted", "classless", "gone", "now", "prebound"))
        if how == "lost":
            claim["spec"]["volumeName"] = "pv-gone"
            claim["status"]["phase"] = "Lost"
        elif how == "deleted":
            self._bind(claim)
            claim["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        elif how == "classless":
            del claim["spec"]["storageClassName"]
        elif how == "prebound":
            claim["spec"]["volumeName"] = self._volume(f"pv-{len(self.volumes)}", claim["spec"]["storageClassName"])[
                "metadata"
            ]["name"]
        else:
            claim["spec"]["storageClassName"] = how
