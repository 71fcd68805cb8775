"""Where is the oracle's binary? Built once for each version of its source, the Kubernetes it asks and the Go that
compiles it.

Asked by `make oracle` and the tests beside it. Where Go is missing there is no oracle: it says so, and whoever asked is
skipped; in CI (the variable CI is set) a skip is a failure."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


class OracleMissingError(Exception):
    """There is no oracle here, and why."""


def build_oracle() -> Path:
    """The binary's path; raises OracleMissingError where it cannot be built for want of Go."""
    go = shutil.which("go")
    if go is None:
        raise OracleMissingError("Go is not on PATH, so the kube-scheduler's own plugins cannot be asked")
    binary = _cache() / _key(go) / "oracle"
    if not binary.exists():
        print(f"building the oracle into {binary.parent} (minutes, once)", file=sys.stderr)
        binary.parent.mkdir(parents=True, exist_ok=True)
        made = binary.with_suffix(f".{os.getpid()}")
        subprocess.run([go, "build", "-trimpath", "-o", str(made), "."], cwd=HERE, check=True)
        made.replace(binary)
    return binary


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "growth" / "oracle"


def _key(go: str) -> str:
    version = subprocess.run(
        [go, "env", "GOVERSION", "GOOS", "GOARCH"], capture_output=True, text=True, check=True
    ).stdout
    digest = hashlib.sha256(version.encode())
    for path in sorted((*HERE.glob("*.go"), HERE / "go.mod", HERE / "go.sum")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def is_skip_allowed() -> bool:
    return not os.environ.get("CI")


def oracle_or_skip() -> Path:
    """The program; where it cannot be built the test is skipped, and under CI fails."""
    try:
        return build_oracle()
    except OracleMissingError as error:
        if is_skip_allowed():
            pytest.skip(str(error))
        raise
