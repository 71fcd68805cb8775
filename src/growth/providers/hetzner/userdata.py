"""What does a new machine read when it boots? The user's template with the facts of one order filled in.

Used by launch and by `growth hetzner check`. Only `{{ growth.NAME }}` is replaced; all else in the template stays.

| name | is |
| --- | --- |
| name, pool, cluster, offering, server_type, location, architecture | of this machine; the name is also the node's |
| labels, taints | as kubelets take them: `a=b,c=d` and `a=b:NoSchedule` |
| labels_json, taints_json | a map, and a list of key, value and effect: JSON, which is YAML too |
| label_list_json, taint_list_json | lists of `a=b` and of `a=b:NoSchedule` |
| provider_id | a shell expression: the machine asks Hetzner's metadata service who it is |
| join_token | the token minted for this machine, or the content of the join token file |
| values.NAME | of the settings |

A kubelet may not give itself every label; those it may not are left out here, and growth writes them when the node has
joined."""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from growth.kube.redaction import SECRETS
from growth.model.labels import ARCHITECTURE, HOSTNAME, INSTANCE_TYPE, OPERATING_SYSTEM, REGION, ZONE
from growth.providers.contract import Order
from growth.providers.hetzner.errors import Unusable
from growth.providers.hetzner.settings import LARGEST_USER_DATA_BYTES, Launch

PROVIDER_ID: Final = (
    "hcloud://$(curl -fsS --retry 10 --retry-connrefused http://169.254.169.254/hetzner/v1/metadata/instance-id)"
)

_PLACEHOLDER: Final = re.compile(r"\{\{\s*growth\.([A-Za-z0-9_.-]+)\s*\}\}")
_DIGITS: Final = 12
_OWN_LABELS: Final = frozenset((HOSTNAME, INSTANCE_TYPE, ZONE, REGION, ARCHITECTURE, OPERATING_SYSTEM))
_OWN_DOMAINS: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")


def user_data_for(order: Order, launch: Launch, architecture: str) -> str:
    """The rendered template; raises Unusable in words that never quote it."""
    if not launch.user_data_file:
        return ""
    template = _read("user data file", launch.user_data_file)
    token = order.join_token or _from_file(launch)
    rendered = render(template, facts_of(order, launch, architecture, token))
    SECRETS.add_text(rendered, public=[order.name])
    size = len(rendered.encode())
    if size > LARGEST_USER_DATA_BYTES:
        what = f"the user data is {size} bytes when filled in, Hetzner takes at most {LARGEST_USER_DATA_BYTES}"
        raise Unusable(f"{what}: shorten {launch.user_data_file}")
    return rendered


def fingerprint(token_file: str, launch: Launch) -> str:
    """A checksum of what machines are bought and join with; raises Unusable. Its key is the project's token, which
    nobody can guess, and it is cut: it tells nothing about any of them.
    """
    paths = {"user data file": launch.user_data_file, "join token file": launch.join_token_file}
    content = "\0".join(_read(what, path) if path else "" for what, path in paths.items())
    token = _read("token file", token_file).strip()
    return hmac.new(token.encode(), content.encode(), "sha256").hexdigest()[:_DIGITS]


def _from_file(launch: Launch) -> str | None:
    if not launch.join_token_file:
        return None
    token = _read("join token file", launch.join_token_file).strip()
    SECRETS.add_token(token)
    return token


def facts_of(order: Order, launch: Launch, architecture: str, join_token: str | None) -> Mapping[str, str]:
    """The values that the template may ask for."""
    labels = {key: value for key, value in order.labels.items() if kubelet_may_set(key)}
    label_list = [f"{key}={value}" for key, value in labels.items()]
    taints = [f"{taint.key}={taint.value}:{taint.effect}" for taint in order.taints]
    taint_maps = [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in order.taints]
    facts = {
        "name": order.name,
        "pool": order.pool,
        "cluster": order.cluster,
        "offering": order.offering,
        "server_type": order.offering.partition("-")[2],
        "location": order.location,
        "architecture": architecture,
        "labels": ",".join(label_list),
        "taints": ",".join(taints),
        "labels_json": json.dumps(labels),
        "taints_json": json.dumps(taint_maps),
        "label_list_json": json.dumps(label_list),
        "taint_list_json": json.dumps(taints),
        "provider_id": PROVIDER_ID,
        **{f"values.{name}": value for name, value in launch.values.items()},
    }
    return facts if join_token is None else {**facts, "join_token": join_token}


def render(template: str, facts: Mapping[str, str]) -> str:
    def fill(found: re.Match[str]) -> str:
        if found[1] not in facts:
            hint = "; set joinTokenFile, or joinTokens.mint" if found[1] == "join_token" else ""
            there = f"(there is: {', '.join(sorted(facts))})"
            raise Unusable(f"the user data asks for growth.{found[1]}, which there is not{hint} {there}")
        return facts[found[1]]

    return _PLACEHOLDER.sub(fill, template)


def kubelet_may_set(key: str) -> bool:
    """The kubelets' own rule: in Kubernetes' domains they set only the labels meant for them."""
    domain = key.partition("/")[0] if "/" in key else ""
    if not (_within(domain, "kubernetes.io") or _within(domain, "k8s.io")):
        return True
    return key in _OWN_LABELS or any(_within(domain, own) for own in _OWN_DOMAINS)


def _within(domain: str, parent: str) -> bool:
    return domain == parent or domain.endswith(f".{parent}")


def _read(what: str, path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise Unusable(f"{what} {path}: {reason}") from None
