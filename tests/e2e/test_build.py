"""Are the binaries of the control plane found, built once, and missed with a useful message? A stand-in for Go makes
these tests quick.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import yaml

from tests.e2e.controlplane import build

ROOT = Path(__file__).parents[2]

# Writes what `go build -o PATH` would, after a moment, and a line into a journal; answers `go list` with a module
# folder.
GO = """#!/bin/sh
if [ "$1" = list ]; then echo "{module}"; exit 0; fi
while [ "$1" != -o ]; do shift; done
echo "$2" >> "{journal}"
[ -x /bin/sleep ] && /bin/sleep 0.1
{ending}
"""


class Elsewhere:
    """A machine with an empty cache and nothing on its PATH but what a test puts there."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.path = folder / "bin"
        self.path.mkdir()
        self.journal = folder / "journal"
        for name in ("KUBEBUILDER_ASSETS", "KWOK_ASSETS", "HELM_ASSETS", "KUBERNETES_MINOR"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("PATH", str(self.path))
        monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))

    def install_go(self, ending: str = 'echo binary > "$2"') -> None:
        stages = self.folder / "module" / "kustomize" / "stage"
        (stages / "fast").mkdir(parents=True, exist_ok=True)
        (stages / "node").mkdir(exist_ok=True)
        (stages / "fast" / "kustomization.yaml").write_text("resources: [../node]")
        (stages / "node" / "kustomization.yaml").write_text("resources: [ready.yaml]")
        (stages / "node" / "ready.yaml").write_text("kind: Stage\n")
        self.install("go", GO.format(module=self.folder / "module", journal=self.journal, ending=ending))

    def install(self, name: str, script: str) -> None:
        (self.path / name).write_text(script)
        (self.path / name).chmod(0o755)

    def built(self) -> list[str]:
        return [Path(line).name for line in self.journal.read_text().splitlines()]


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Elsewhere:
    return Elsewhere(tmp_path, monkeypatch)


def quietly(line: str) -> None:
    """Says nothing."""


def folder_with(folder: Path, *names: str) -> Path:
    folder.mkdir()
    for name in names:
        (folder / name).write_text("brought along")
    return folder


def test_each_binary_is_built_once_and_found_ever_after(elsewhere: Elsewhere) -> None:
    elsewhere.install_go()
    said: list[str] = []
    first = build.obtain(said.append)
    second = build.obtain(said.append)
    assert first == second
    assert elsewhere.built() == [binary.name for binary in build.BINARIES]
    assert all(path.read_text() == "binary\n" for path in first.binaries.values())
    assert first.stages.read_text() == "kind: Stage\n"
    assert any(line.startswith("kube-scheduler v1.36.3: building (5 of 6)") for line in said)


def test_two_builders_at_once_build_everything_only_once(elsewhere: Elsewhere) -> None:
    elsewhere.install_go()
    builders = [threading.Thread(target=build.obtain, args=(quietly,)) for _ in range(2)]
    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join()
    assert sorted(elsewhere.built()) == sorted(binary.name for binary in build.BINARIES)


def test_a_failed_build_shows_the_compilers_words_and_leaves_nothing(elsewhere: Elsewhere) -> None:
    elsewhere.install_go(ending='echo half > "$2"; echo "undefined: everything"; exit 1')
    with pytest.raises(build.AssetsMissingError, match="undefined: everything"):
        build.obtain(quietly)
    assert [path.name for path in build.cache_root().iterdir()] == ["lock"]


def test_what_a_killed_build_left_is_swept_up(elsewhere: Elsewhere) -> None:
    left = build.cache_root() / ".unfinished-killed"
    left.mkdir(parents=True)
    elsewhere.install_go()
    build.obtain(quietly)
    assert not left.exists()


def test_an_older_kubernetes_is_built_from_its_own_module_though_a_newer_one_was_brought_along(
    elsewhere: Elsewhere, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [binary.name for binary in build.BINARIES]
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(folder_with(tmp_path / "kubernetes", *names)))
    monkeypatch.setenv("KUBERNETES_MINOR", "1.33")
    elsewhere.install_go()
    found = build.obtain(quietly).binaries
    older = [name for name, path in found.items() if path.parent.name.startswith(f"{name}-v1.33.")]
    assert older == [binary.name for binary in build.BINARIES if binary.source == build.KUBERNETES]
    assert found["etcd"].read_text() == "brought along"


def test_a_version_without_a_module_is_told_with_those_that_have_one(
    elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBERNETES_MINOR", "1.2")
    with pytest.raises(build.AssetsMissingError, match=r"no module for 1\.2; there is 1\.33"):
        build.obtain()


def test_without_go_the_message_names_what_is_missing_and_both_ways_to_get_it(elsewhere: Elsewhere) -> None:
    with pytest.raises(build.AssetsMissingError) as caught:
        build.obtain()
    for word in (
        "etcd",
        "kube-scheduler",
        "install Go",
        "python -m tests.e2e.controlplane.build",
        "KUBEBUILDER_ASSETS",
        "KWOK_ASSETS",
    ):
        assert word in str(caught.value)


def test_binaries_brought_along_need_no_go(
    elsewhere: Elsewhere, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [binary.name for binary in build.BINARIES if binary.name != "kwok"]
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(folder_with(tmp_path / "kubernetes", *names)))
    monkeypatch.setenv("KWOK_ASSETS", str(folder_with(tmp_path / "kwok", "kwok", "stage-fast.yaml")))
    assert all(path.read_text() == "brought along" for path in build.obtain().binaries.values())


def test_only_what_was_not_brought_along_is_built(
    elsewhere: Elsewhere, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The usual assets folder has no controller manager, no scheduler and no kwok."""
    monkeypatch.setenv(
        "KUBEBUILDER_ASSETS", str(folder_with(tmp_path / "kubernetes", "etcd", "kube-apiserver", "kubectl"))
    )
    elsewhere.install_go()
    build.obtain(quietly)
    assert elsewhere.built() == ["kwok", "kube-controller-manager", "kube-scheduler"]


def test_helm_is_built_only_when_it_is_asked_for_and_can_be_brought_along(
    elsewhere: Elsewhere, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere.install_go()
    assert [build.obtain_one(build.HELM, quietly), build.obtain_one(build.HELM, quietly)] == [
        build.cache_folder(build.HELM) / "helm"
    ] * 2
    assert elsewhere.built() == ["helm"]
    monkeypatch.setenv("HELM_ASSETS", str(folder_with(tmp_path / "brought", "helm")))
    assert build.obtain_one(build.HELM, quietly) == tmp_path / "brought" / "helm"


def test_kwok_brought_along_without_its_stages_is_an_error(
    elsewhere: Elsewhere, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KWOK_ASSETS", str(folder_with(tmp_path / "kwok", "kwok")))
    elsewhere.install_go()
    with pytest.raises(build.AssetsMissingError, match=r"stage-fast\.yaml"):
        build.obtain(quietly)


@pytest.mark.parametrize(
    ("version", "used"),
    [("v1.35.9", True), ("v1.37.0", True), ("v1.34.0", False), ("v1.32.4-dispatcher", False), ("nonsense", False)],
)
def test_a_kubectl_on_the_path_is_used_within_one_minor_version(elsewhere: Elsewhere, version: str, used: bool) -> None:
    elsewhere.install("kubectl", f"""#!/bin/sh\necho '{{"clientVersion": {{"gitVersion": "{version}"}}}}'\n""")
    kubectl = next(binary for binary in build.BINARIES if binary.name == "kubectl")
    assert build.find(kubectl) == (elsewhere.path / "kubectl" if used else None)


def test_another_dependency_is_another_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {binary.name: build.cache_folder(binary) for binary in build.BINARIES}
    shutil.copytree(build.HERE, tmp_path / "copy", ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    (tmp_path / "copy" / "etcd" / "go.sum").write_text("changed")
    monkeypatch.setattr(build, "HERE", tmp_path / "copy")
    after = {binary.name: build.cache_folder(binary) for binary in build.BINARIES}
    assert [name for name in before if before[name] != after[name]] == ["etcd"]


def test_the_stages_of_kwok_make_nodes_and_pods_live() -> None:
    stages = build.obtain().stages.read_text()
    names = {stage["metadata"]["name"] for stage in yaml.safe_load_all(stages)}
    assert {"node-initialize", "node-heartbeat-with-lease", "pod-ready", "pod-complete", "pod-delete"} <= names


@pytest.mark.parametrize(("in_ci", "outcome"), [(False, "1 skipped"), (True, "1 error")])
def test_without_binaries_the_tests_skip_and_in_ci_they_fail(tmp_path: Path, in_ci: bool, outcome: str) -> None:
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("CI", "KUBEBUILDER_ASSETS", "KWOK_ASSETS") and "PYTEST" not in name
    }
    environment |= {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), **({"CI": "true"} if in_ci else {})}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "tests/e2e/test_control_plane.py",
        "-k",
        "ready_within_seconds",
    ]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert outcome in done.stdout
    assert "install Go" in done.stdout
    assert (done.returncode != 0) is in_ci
