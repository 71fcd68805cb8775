"""The world that chaos happens to: a real control plane, the fake Hetzner under it, and two replicas of growth, each at
the end of a line of its own.

    growth (two processes) → a line each (Proxy) → Gateway → kube-apiserver → etcd
                           → a line (Proxy) → the fake Hetzner → its machines' kubelets (kwok)

Every pod fills a machine. At rest there is one machine for each pod, and nothing else: a machine more has leaked.
All processes are ended by their id when the world ends, however it ends."""

from __future__ import annotations

import http.client
import json
import queue
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from growth.model.noderequest import WITHDRAWN
from growth.sim.cloud.hetzner.api import FakeApi
from growth.sim.cloud.hetzner.embedded import TOKEN
from growth.sim.cloud.hetzner.inventory import FakeServer
from growth.sim.cloud.hetzner.project import Project
from tests.chaos.gateway import Gateway
from tests.chaos.witness import ANSWER_SECONDS, Witness
from tests.e2e.controlplane import kubeconfig
from tests.e2e.controlplane.admin import MERGE_PATCH, Answer, Connection, RefusedError
from tests.e2e.controlplane.cluster import ControlPlane
from tests.e2e.controlplane.proxy import Proxy
from tests.e2e.hetzner import QUICK, install_for_hetzner, node_of, project_settings
from tests.e2e.manifests import deployment
from tests.e2e.running import NAMESPACE, USER, GrowthProcess, node_pool, phase
from tests.fakes.hetzner.server import FakeServing, serving

Json = dict[str, Any]

LEASE_SECONDS = 5
PLANS = {
    "scaleDownDelaySeconds": 1,
    "unmetSeconds": 2,
    "unmetLongestSeconds": 4,
    "backoffFirstSeconds": 1,
    "backoffLongestSeconds": 4,
    "readyRecordSeconds": 3,
    "removalRetrySeconds": 2,
    "removalAttempts": 20,
    "machineCollectionGraceSeconds": 5,
}
POLL_SECONDS = 0.25
QUIET_SECONDS = 2.0
REQUESTS = 100_000  # that the fake Hetzner grants: hundreds of starts ask for more than a project's hour allows
OURS = "growth.dev/"
GROUP = "/apis/growth.dev/v1alpha1"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/growth"
PODS = "/api/v1/namespaces/default/pods"
WORK = "/apis/apps/v1/namespaces/default/deployments/work"


class Replica:
    """One of the processes, and its line to the API server."""

    def __init__(self, process: GrowthProcess, line: Proxy) -> None:
        self.process, self.line = process, line
        self.ended_by_itself = 0
        self._began_at = 0  # in the log

    def start(self) -> None:
        path = self.process.log_path
        self._began_at = path.stat().st_size if path.exists() else 0
        self.process.start()

    def keep_running(self) -> None:
        """As a kubelet would: what has ended is started again."""
        if not self.process.is_running:
            self.process.kill()
            self.start()

    @property
    def identity(self) -> str:
        """Under which name it contends; empty while it starts."""
        with self.process.log_path.open() as log:
            log.seek(self._began_at)
            for line in log:
                if "growth contends for leadership" in line and line.startswith("{"):
                    return str(json.loads(line)["identity"])
        return ""


class Kubelets:
    """What machines do when they have booted: they register their nodes, and ask again until it is done."""

    def __init__(self, cluster: ControlPlane, project: Project) -> None:
        self._cluster, self._project = cluster, project
        self._booted: queue.Queue[FakeServer | None] = queue.Queue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        project.on_boot = self._booted.put
        self._thread.start()

    def stop(self) -> None:
        self._booted.put(None)
        self._thread.join(10)

    def register_again(self, api: Connection) -> None:
        """After a restore: nodes of machines that run come back, those of machines that are gone are taken away with
        their pods, as a cloud controller and, a minute later, the garbage collector of pods do.
        """
        for server in list(self._project.servers.values()):
            if server.status == "running":
                self._booted.put(server)
        alive = {server.name for server in self._project.servers.values() if server.status != "deleting"}
        names = {node["metadata"]["name"] for node in api.get("/api/v1/nodes")["items"]}
        for name in names - alive:
            api.ask("DELETE", f"/api/v1/nodes/{name}")
        for pod in api.get(PODS)["items"]:
            if pod["spec"].get("nodeName", "") in names - alive:
                api.ask("DELETE", f"{PODS}/{pod['metadata']['name']}", {"gracePeriodSeconds": 0})

    def _run(self) -> None:
        api = self._cluster.connect()
        while (server := self._booted.get()) is not None:
            while server.status == "running" and not self._register(api, node_of(server)):
                time.sleep(POLL_SECONDS)

    @staticmethod
    def _register(api: Connection, node: Json) -> bool:
        try:
            return api.ask("POST", "/api/v1/nodes", node).status in (201, 409)
        except (OSError, http.client.HTTPException):
            return False


class World:
    """What faults are done to, and what is seen of it."""

    def __init__(self, cluster: ControlPlane, fake: FakeServing, gateway: Gateway, folder: Path, seed: str) -> None:
        self.cluster, self.fake, self.gateway, self.folder, self.seed = cluster, fake, gateway, folder, seed
        self.project = fake.api.project
        self.api = cluster.connect(ANSWER_SECONDS)
        self.witness = Witness(cluster, self.project)
        self.kubelets = Kubelets(cluster, self.project)
        self.provider_line = Proxy(fake.port)
        self.replicas: list[Replica] = []
        self.wanted = 0

    # Life

    def begin(self, stack: ExitStack) -> None:
        """Install growth, start both replicas, and have a first machine."""
        stack.callback(self.kubelets.stop)
        stack.enter_context(self.provider_line)
        install_for_hetzner(self.cluster)
        hetzner = project_settings(f"http://127.0.0.1:{self.provider_line.port}/v1", self.folder)
        settings = {
            "provider": "hetzner",
            "leaseSeconds": LEASE_SECONDS,
            "hetzner": hetzner,
            "plans": PLANS,
            "page": {"port": 0},
        }
        self.rotate_token()
        for number in (1, 2):
            folder = self.folder / f"replica-{number}"
            folder.mkdir()
            line = stack.enter_context(Proxy(self.gateway.port))
            access = self._kubeconfig(folder, line.url)
            replica = Replica(GrowthProcess(self.cluster, folder, settings, access), line)
            stack.callback(replica.process.kill)
            self.replicas.append(replica)
            replica.start()
        self.cluster.apply(node_pool("default", "CX33"), deployment("work", 2, cpu="3", memory="2Gi"))
        self.wanted = 2

    def rotate_token(self) -> None:
        """Another token in the file that the replicas read."""
        (self.folder / "api-token").write_text(self.cluster.token_for(USER))

    def _kubeconfig(self, folder: Path, url: str) -> Path:
        user = {"tokenFile": str(self.folder / "api-token")}
        return kubeconfig.write(folder / "kubeconfig", url, self.cluster.certificate_authority, user)

    # Demand

    def scale(self, pods: int) -> None:
        self.wanted = pods
        self.api.ask("PATCH", WORK, {"spec": {"replicas": pods}}, content_type=MERGE_PATCH)

    # Who leads

    def lease(self) -> Json:
        answer = self.api.ask("GET", LEASE)
        return dict(answer.json()) if answer.good else {}

    def leader(self) -> Replica | None:
        """None while nobody leads who is alive, or nobody can be asked."""
        try:
            holder = self.lease().get("spec", {}).get("holderIdentity")
        except (OSError, http.client.HTTPException):
            return None
        return next((each for each in self.replicas if holder and each.identity == holder), None)

    # What is seen

    def why_not_at_rest(self) -> str:
        """Empty: every pod is bound, each on a machine of its own, and nothing else is there or on its way."""
        try:
            return self._why_not_at_rest()
        except (OSError, http.client.HTTPException, RefusedError) as error:
            return f"the API server does not answer: {error}"

    def _why_not_at_rest(self) -> str:
        pods = self._listed(PODS)
        nodes = self._listed("/api/v1/nodes")
        bound = {pod["spec"].get("nodeName", "") for pod in pods}
        servers = {server.name for server in list(self.project.servers.values())}
        names = {node["metadata"]["name"] for node in nodes}
        tainted = [node["metadata"]["name"] for node in nodes if _has_our_taint(node)]
        records = self._listed(f"{GROUP}/noderequests")
        requests = [each for each in records if phase(each) != "Ready" and not _is_withdrawn(each)]
        removals = self._listed(f"{GROUP}/noderemovalrequests")
        reasons = {
            "nobody leads": self.leader() is None,
            f"{len(pods)} pods of {self.wanted}": len(pods) != self.wanted,
            "pods are not bound": "" in bound,
            f"without a machine: nodes {sorted(names - servers)}": bool(names - servers),
            f"without a node: machines {sorted(servers - names)}": bool(servers - names),
            f"without a pod: nodes {sorted(names - bound)}": bool(names - bound),
            f"tainted: {tainted}": bool(tainted),
            f"requests under way: {[each['metadata']['name'] for each in requests]}": bool(requests),
            f"removals under way: {[each['metadata']['name'] for each in removals]}": bool(removals),
        }
        return "; ".join(reason for reason, holds in reasons.items() if holds)

    def _listed(self, path: str) -> list[Json]:
        return list(self.api.get(path)["items"])

    def writes(self) -> int:
        """How many writes of growth the audit log has by now; the Lease, events and reviews apart."""
        quiet = ("leases", "events", "selfsubject")
        return sum(
            event.user_name == USER
            and event.verb not in ("get", "list", "watch")
            and not event.resource.startswith(quiet)
            for event in self.cluster.audit_events()
        )

    def ask(self, method: str, path: str, body: object = None) -> Answer:
        return self.api.ask(method, path, body)


def _is_withdrawn(request: Json) -> bool:
    """Nothing is done about it any more; it waits ten minutes for a machine that an order may bring."""
    return any(event["name"] == WITHDRAWN for event in request.get("status", {}).get("events", ()))


def _has_our_taint(node: Json) -> bool:
    return any(taint["key"].startswith(OURS) for taint in node["spec"].get("taints", ()))


@contextmanager
def world_of(cluster: ControlPlane, folder: Path, seed: str) -> Iterator[World]:
    """Everything started; everything ended afterwards, whatever happened."""
    project = Project(time.time, seed, QUICK)
    with ExitStack() as stack:
        fake = stack.enter_context(serving(FakeApi(project, TOKEN, REQUESTS)))
        gateway = stack.enter_context(
            Gateway(cluster.port, cluster.certificate_authority, cluster.server_context, seed)
        )
        world = World(cluster, fake, gateway, folder, seed)
        world.begin(stack)
        yield world
