"""Which cluster is this? kube-system's UID and the installation's name: what our machines are labelled with at the
provider.
"""

from __future__ import annotations

import msgspec

from growth.kube.api.client import Client
from growth.kube.api.resources import NAMESPACES


async def cluster_id(client: Client, installation: str) -> str:
    """Raises KubeError."""
    found = msgspec.json.decode(await client.get(NAMESPACES, "kube-system"))
    return f"{found['metadata']['uid']}-{installation}"
