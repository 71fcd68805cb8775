"""`growth import`: what would the NodePools of another tool be as growth's? Reads its objects or flags and prints
manifests; it asks no cluster and writes to none.

| from | reads | answered by |
| --- | --- | --- |
| karpenter | its NodePools in YAML or JSON, as kubectl prints them | `cli/imports/karpenter` |
| cluster-autoscaler | its Deployment, or its flags as text | `cli/imports/cluster_autoscaler` |

What has no like in growth is not guessed: it is named in a comment, pool by pool.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
import yaml
from cyclopts import Parameter

from growth.cli.imports.cluster_autoscaler import pools_of_flags
from growth.cli.imports.karpenter import pools_of_karpenter
from growth.cli.imports.translation import Translation
from growth.cli.session import read_text
from growth.kube.codec import Codec
from growth.model.malformed import Malformed

_HEAD: Final = "# NodePools for growth. Look at each comment, then: kubectl apply -f FILE"


def import_objects(
    source: Annotated[Literal["karpenter", "cluster-autoscaler"], Parameter(help="Whose objects or flags they are.")],
    /,
    *,
    file: Annotated[
        Path,
        Parameter(name=("--file", "-f"), allow_leading_hyphen=True, help="What it says now; - is standard input."),
    ],
    server_types: Annotated[
        str, Parameter(help="Comma-separated: what pools may buy whose own types are none of your provider's.")
    ] = "",
) -> int:
    """Print NodePools for growth made from Karpenter's NodePools or Cluster Autoscaler's flags."""
    types = tuple(name.strip() for name in server_types.split(",") if name.strip())
    text = read_text(file)
    found = pools_of_karpenter(text, types) if source == "karpenter" else pools_of_flags(text, types)
    if not found.pools:
        raise ValueError(f"{file}: there is nothing in it that makes a NodePool")
    sys.stdout.write(as_manifests(found))
    return 0


def as_manifests(found: Translation) -> str:
    """YAML that kubectl takes, with what could not be taken over as comments before each pool."""
    lines = [_HEAD, *(f"# {note}" for note in found.notes)]
    if found.plans:
        lines += ["#", "# In the settings of growth:", *_commented(yaml.safe_dump({"plans": dict(found.plans)}))]
    parts = ["\n".join(lines) + "\n"]
    for name, spec in found.pools.items():
        notes = (*found.of_pool.get(name, ()), *_problems(name, spec))
        manifest = {
            "apiVersion": "growth.dev/v1alpha1",
            "kind": "NodePool",
            "metadata": {"name": name},
            "spec": dict(spec),
        }
        parts.append("---\n" + "".join(f"# {note}\n" for note in notes) + yaml.safe_dump(manifest, sort_keys=False))
    return "".join(parts)


def _commented(text: str) -> Iterable[str]:
    return (f"#   {line}" for line in text.splitlines())


def _problems(name: str, spec: Mapping[str, Any]) -> tuple[str, ...]:
    """What the API server would refuse, said before it does."""
    item = {"apiVersion": "growth.dev/v1alpha1", "kind": "NodePool", "metadata": {"name": name}, "spec": spec}
    noun = Codec().decode("NodePool", msgspec.json.encode(item)).noun
    return (f"cannot be applied as it is: {noun.why}",) if isinstance(noun, Malformed) else ()
