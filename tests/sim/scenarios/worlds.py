"""Scenario files in few words, for the tests of the room."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]


def pool(name: str = "default", *types: str, **spec: Any) -> Json:
    choices = [{"name": each} for each in types or ("CX33",)]
    kind = {"apiVersion": "growth.dev/v1alpha1", "kind": "NodePool", "metadata": {"name": name}}
    return {**kind, "spec": {"serverTypes": choices, **spec}}


def web(replicas: int, cpu: str = "1", name: str = "web", kind: str = "Deployment", **spec: Any) -> Json:
    container = {"name": "main", "image": "main", "resources": {"requests": {"cpu": cpu, "memory": "256Mi"}}}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container], **spec}}
    selector = {"matchLabels": {"app": name}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": selector, "template": template},
    }


def write(folder: Path, content: Json | str, name: str = "scenario.yaml") -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False))
    return path


def scenario(*objects: Json, **parts: Any) -> Json:
    return {"name": "small", "duration": "20m", "objects": list(objects), **parts}
