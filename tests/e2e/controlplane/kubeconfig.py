"""What does a client need to reach the test cluster as somebody? Asked by `cluster`, which writes one kubeconfig for
each identity.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.controlplane.certificates import KeyPair


def with_certificate(pair: KeyPair) -> dict[str, str]:
    """The user part of a kubeconfig that shows a client certificate."""
    return {"client-certificate-data": _encoded(pair.certificate), "client-key-data": _encoded(pair.key)}


def with_token(token: str) -> dict[str, str]:
    """The user part of a kubeconfig that shows a bearer token."""
    return {"token": token}


def write(path: Path, server: str, authority: Path, user: dict[str, str]) -> Path:
    """A self-contained kubeconfig with one context, readable by its owner only."""
    content: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "test", "cluster": {"server": server, "certificate-authority-data": _encoded(authority)}}
        ],
        "users": [{"name": "test", "user": user}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "current-context": "test",
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(content))
    return path


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
