"""Where do the binaries of a real control plane come from? Asked by the e2e fixtures, and by people: `python -m
tests.e2e.controlplane.build`.

Each binary is looked for in this order, and the first place that has it wins:

| place | holds | for |
| --- | --- | --- |
| `KUBEBUILDER_ASSETS` | etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubectl | people who have them |
| `KWOK_ASSETS` | kwok and `stage-fast.yaml`, as kwok's releases name them | the same |
| `HELM_ASSETS` | helm, which only the tests of the chart need | the same |
| `PATH` | kubectl, if it is within one minor version of the API server | the same |
| the cache | `~/.cache/growth/controlplane/<binary>-<version>-<digest>/` | every run after the first |
| Go | built from the modules beside this file, into the cache | the first run: many minutes, all of them CPU |

With `KUBERNETES_MINOR` set, such as to 1.33, Kubernetes comes from the module of that older version beside this file;
then only the cache and Go are asked for it. Nothing is downloaded except through Go's own module settings. A folder of
the cache appears whole or not at all, and only one process builds at a time. It never starts anything: that is
`cluster`."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec
import yaml

HERE = Path(__file__).resolve().parent
STAGES = "stage-fast.yaml"
STAGES_IN_MODULE = Path("kustomize/stage/fast")
SECONDS_BETWEEN_SIGNS_OF_LIFE = 30

Say = Callable[[str], None]


class Binary(msgspec.Struct, frozen=True):
    """One program: the folder of its Go module, the module that gives its version, its main package, and who may bring
    it along.
    """

    name: str
    folder: str
    source: str
    package: str
    brought_by: str = "KUBEBUILDER_ASSETS"


KUBERNETES = "k8s.io/kubernetes"
BINARIES = (
    Binary("etcd", "etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3"),
    Binary("kwok", "kwok", "sigs.k8s.io/kwok", "sigs.k8s.io/kwok/cmd/kwok", brought_by="KWOK_ASSETS"),
    Binary("kube-apiserver", "kubernetes", KUBERNETES, "k8s.io/kubernetes/cmd/kube-apiserver"),
    Binary("kube-controller-manager", "kubernetes", KUBERNETES, "k8s.io/kubernetes/cmd/kube-controller-manager"),
    Binary("kube-scheduler", "kubernetes", KUBERNETES, "k8s.io/kubernetes/cmd/kube-scheduler"),
    Binary("kubectl", "kubernetes", KUBERNETES, "k8s.io/kubernetes/cmd/kubectl"),
)
HELM = Binary(
    "helm", "helm", "helm.sh/helm/v4", "helm.sh/helm/v4/cmd/helm", brought_by="HELM_ASSETS"
)  # no part of a control plane


class Assets(msgspec.Struct, frozen=True):
    """Everything a control plane is started from: the path of each binary by name, and the stages kwok plays."""

    binaries: Mapping[str, Path]
    stages: Path


class AssetsMissingError(Exception):
    """Binaries are neither at hand nor can they be built here; the message says how to get them."""


def obtain(say: Say = print) -> Assets:
    """Find every binary, building those that are nowhere; raises AssetsMissingError where that cannot be done."""
    missing = [binary for binary in BINARIES if find(binary) is None]
    if missing:
        build(missing, say)
    paths = {binary.name: path for binary in BINARIES if (path := find(binary)) is not None}
    return Assets(paths, _stages_beside(paths["kwok"]))


def obtain_one(binary: Binary, say: Say = print) -> Path:
    """The path of one binary, built if it is nowhere; raises AssetsMissingError where that cannot be done."""
    if find(binary) is None:
        build([binary], say)
    return find(binary) or cache_folder(binary) / binary.name


def find(binary: Binary) -> Path | None:
    """The path of a binary that is ready to run, or None."""
    brought = os.environ.get(binary.brought_by)
    is_older = binary.source == KUBERNETES and bool(os.environ.get("KUBERNETES_MINOR"))
    if brought and not is_older and (path := Path(brought).expanduser() / binary.name).is_file():
        return path
    if binary.name == "kubectl" and (path_of_kubectl := _kubectl_on_path(version(binary))):
        return path_of_kubectl
    built = cache_folder(binary) / binary.name
    return built if built.is_file() else None


def build(binaries: list[Binary], say: Say = print) -> None:
    """Build these into the cache, one after the other, saying how long each takes."""
    if shutil.which("go") is None:
        raise AssetsMissingError(_how_to_get(binaries))
    cache_root().mkdir(parents=True, exist_ok=True)
    with _only_builder(say):
        for number, binary in enumerate(binaries, 1):
            if not cache_folder(binary).is_dir():
                _build_one(binary, f"{number} of {len(binaries)}", say)


def module_of(binary: Binary) -> Path:
    """The folder of its Go module; of Kubernetes, that of the minor version that is asked for."""
    minor = os.environ.get("KUBERNETES_MINOR") if binary.source == KUBERNETES else ""
    folder = HERE / (f"{binary.folder}-{minor}" if minor else binary.folder)
    if not folder.is_dir():
        known = sorted(each.name.partition("-")[2] for each in HERE.glob(f"{binary.folder}-*"))
        raise AssetsMissingError(f"KUBERNETES_MINOR: there is no module for {minor}; there is {', '.join(known)}")
    return folder


def version(binary: Binary) -> str:
    """The version that the module's go.mod requires, such as v1.36.3."""
    text = (module_of(binary) / "go.mod").read_text()
    found = re.search(rf"^\s*(?:require )?{re.escape(binary.source)} (v\S+)", text, re.MULTILINE)
    if found is None:
        raise ValueError(f"{module_of(binary)}/go.mod does not require {binary.source}")
    return found[1]


def cache_root() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "growth" / "controlplane"


def cache_folder(binary: Binary) -> Path:
    """Keyed by everything that goes into the binary, so a change of version, of a dependency or of a flag is a new
    folder.
    """
    folder = module_of(binary)
    parts = [
        (folder / "go.mod").read_text(),
        (folder / "go.sum").read_text(),
        *_flags(binary),
        binary.package,
        platform.system(),
        platform.machine(),
    ]
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
    return cache_root() / f"{binary.name}-{version(binary)}-{digest}"


def _flags(binary: Binary) -> list[str]:
    """Kubernetes learns its version from the linker; without it the API server would call itself v0.0.0."""
    stamp = f" -X k8s.io/component-base/version.gitVersion={version(binary)}" if binary.source == KUBERNETES else ""
    return ["-trimpath", "-buildvcs=false", "-ldflags", f"-s -w{stamp}"]


def _build_one(binary: Binary, which: str, say: Say) -> None:
    say(f"{binary.name} {version(binary)}: building ({which})")
    started_at = time.monotonic()
    unfinished = Path(tempfile.mkdtemp(prefix=".unfinished-", dir=cache_root()))
    try:
        _run_go(binary, unfinished, say)
        if binary.name == "kwok":
            (unfinished / STAGES).write_text(_stages_of_module())
        unfinished.chmod(0o755)
        unfinished.rename(cache_folder(binary))
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    say(f"{binary.name} {version(binary)}: {time.monotonic() - started_at:.0f} s")


def _run_go(binary: Binary, into: Path, say: Say) -> None:
    """Run the compiler with its output in a file, and say now and then that it is still at work."""
    command = ["go", "build", *_flags(binary), "-o", str(into / binary.name), binary.package]
    started_at = time.monotonic()
    with (
        (into / "go.log").open("w+") as log,
        subprocess.Popen(command, cwd=module_of(binary), stdout=log, stderr=subprocess.STDOUT) as go,
    ):
        try:
            while (code := _ended_with(go)) is None:
                say(f"  {binary.name}: still compiling after {time.monotonic() - started_at:.0f} s")
        except BaseException:
            go.terminate()
            raise
        log.seek(0)
        if code != 0:
            raise AssetsMissingError(
                f"`{' '.join(command)}` in {module_of(binary)} ended with {code}:\n{log.read()[-4000:]}"
            )


def _ended_with(go: subprocess.Popen[bytes]) -> int | None:
    try:
        return go.wait(timeout=SECONDS_BETWEEN_SIGNS_OF_LIFE)
    except subprocess.TimeoutExpired:
        return None


def _stages_of_module() -> str:
    """The node and pod stages that kwok's own module ships, joined into the one file that kwok reads."""
    command = ["go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kwok"]
    module = subprocess.run(command, cwd=HERE / "kwok", check=True, capture_output=True, text=True).stdout.strip()
    return "\n---\n".join(path.read_text().strip() for path in _resources(Path(module) / STAGES_IN_MODULE)) + "\n"


def _resources(folder: Path) -> Iterator[Path]:
    """The files that a kustomization names, through the kustomizations that it names."""
    for name in yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]:
        path = (folder / name).resolve()
        yield from _resources(path) if path.is_dir() else [path]


def _stages_beside(kwok: Path) -> Path:
    stages = kwok.parent / STAGES
    if not stages.is_file():
        raise AssetsMissingError(
            f"{kwok.parent} has kwok but not {STAGES}, which comes with every release of kwok; put it beside the binary"
        )
    return stages


def _kubectl_on_path(server_version: str) -> Path | None:
    """A kubectl more than one minor version away from the server is not supported, so it does not count."""
    path = shutil.which("kubectl")
    if path is None:
        return None
    answer = subprocess.run([path, "version", "--client", "-o", "json"], capture_output=True, text=True, check=False)
    try:
        major, minor = _major_minor(json.loads(answer.stdout)["clientVersion"]["gitVersion"])
    except (ValueError, KeyError):
        return None  # whatever it is, it is not a kubectl we know
    wanted_major, wanted_minor = _major_minor(server_version)
    return Path(path) if major == wanted_major and abs(minor - wanted_minor) <= 1 else None


def _major_minor(text: str) -> tuple[int, int]:
    major, minor = text.removeprefix("v").split(".", 2)[:2]
    return int(major), int(minor)


@contextlib.contextmanager
def _only_builder(say: Say) -> Iterator[None]:
    """Hold the lock of the cache; whoever waited finds the other's work done. The kernel lets go of it when its holder
    dies.
    """
    with (cache_root() / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another process is building the control plane; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        for left_by_a_killed_build in cache_root().glob(".unfinished-*"):
            shutil.rmtree(left_by_a_killed_build, ignore_errors=True)
        yield


def _how_to_get(binaries: list[Binary]) -> str:
    return (
        f"These tests need {', '.join(binary.name for binary in binaries)}, and Go is not on the PATH to build them. "
        "Either\n"
        "  - install Go 1.26 or newer and run `python -m tests.e2e.controlplane.build` (once; 5 to 15 minutes on two "
        "cores), or\n"
        "  - set KUBEBUILDER_ASSETS to a folder with etcd, kube-apiserver, kube-controller-manager, kube-scheduler "
        "and kubectl,\n"
        f"    KWOK_ASSETS to a folder with kwok and {STAGES}, and HELM_ASSETS to a folder with helm."
    )


def main() -> int:
    started_at = time.monotonic()
    try:
        assets = obtain()
        helm = obtain_one(HELM)
    except AssetsMissingError as missing:
        print(missing, file=sys.stderr)
        return 1
    for name, path in {**assets.binaries, HELM.name: helm}.items():
        print(f"{name:24} {path}")
    print(f"{'stages':24} {assets.stages}\nready after {time.monotonic() - started_at:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
