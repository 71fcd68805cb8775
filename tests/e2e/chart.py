"""The Helm chart as a test sees it: linted, rendered, and what it renders. Asked by tests of the chart, and by those
that run growth as it ships.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy/chart"
IMAGE = "image.repository=registry.invalid/growth"

Json = dict[str, Any]


class HelmError(Exception):
    """helm said no; the message is what it said."""


class Helm:
    """helm on our chart, without anything of the person who tests: no plugins, no repositories, no kubeconfig."""

    def __init__(self, binary: Path, folder: Path) -> None:
        self.binary = binary
        homes = {f"HELM_{what}_HOME": str(folder / what.lower()) for what in ("CACHE", "CONFIG", "DATA")}
        self.environment = {**os.environ, **homes, "KUBECONFIG": str(folder / "none")}

    def __call__(self, *arguments: str) -> str:
        done = subprocess.run(
            [str(self.binary), *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=self.environment,
        )
        if done.returncode != 0:
            raise HelmError(done.stdout + done.stderr)
        return done.stdout

    def lint(self, *values: str) -> str:
        return self("lint", "--strict", str(CHART), *_set(values))

    def render(self, *values: str, release: str = "growth", namespace: str = "growth-system") -> list[Json]:
        """Every object of the chart, with these values: `replicas=1`, `settings.observe=true`."""
        text = self("template", release, str(CHART), f"--namespace={namespace}", *_set([IMAGE, *values]))
        return [item for item in yaml.safe_load_all(text) if item]


def only(kind: str, items: Sequence[Json]) -> Json:
    (found,) = [item for item in items if item["kind"] == kind]
    return found


def _set(values: Sequence[str]) -> list[str]:
    return [f"--set={value}" for value in values]
