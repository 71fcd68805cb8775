"""Is this a server that Hetzner would make? Checks the body of a create request and finds what its names mean. Asked by
`api.py`.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from typing import Any, Final

from growth.sim.cloud.hetzner.assortment import PLACES, Image, Json, Kind
from growth.sim.cloud.hetzner.project import FakeServer, Project, Refusal

LARGEST_USER_DATA: Final = 32 * 1024

_HOSTNAME: Final = re.compile(
    r"^[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(\.[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$"
)
_LABEL_VALUE: Final = re.compile(r"^(()|[a-z0-9A-Z]|([a-z0-9A-Z][a-z0-9A-Z\._-]{0,61}[a-z0-9A-Z]))$")


def ordered_server(body: Json, project: Project) -> FakeServer:
    _check_fields(body)
    public = {"enable_ipv4": True, "enable_ipv6": True, **(body.get("public_net") or {})}
    kind = _kind(body["server_type"], project)
    server = FakeServer(
        id=0,
        name=body["name"],
        kind=kind,
        location=body["location"],
        labels=dict(body.get("labels") or {}),
        created_at=project.now(),
        image=_image(body["image"], kind, project),
        user_data=body.get("user_data") or "",
        addresses={
            each: project.free_address(each, body["location"])
            for each in _known("networks", body.get("networks") or (), project.networks)
        },
        firewalls=_known("firewalls", (each["firewall"] for each in body.get("firewalls") or ()), project.firewalls),
        group=body.get("placement_group"),
        ipv4=public["enable_ipv4"],
        ipv6=public["enable_ipv6"],
        starts_by_itself=body.get("start_after_create", True),
    )
    _known("ssh_keys", (int(each) for each in body.get("ssh_keys") or ()), project.ssh_keys)
    if server.group is not None and server.group not in project.groups:
        raise Refusal(404, "not_found", "placement group not found")
    if server.starts_by_itself:
        check_reachable(server)
    return server


def check_reachable(server: FakeServer) -> None:
    """A server without any address cannot be started."""
    if not (server.ipv4 or server.ipv6 or server.addresses):
        raise Refusal(
            422,
            "invalid_input",
            "a server needs a public address or a network to be started",
            {"fields": [{"name": "public_net", "messages": []}]},
        )


def _check_fields(body: Json) -> None:
    problems = {
        "name": not _HOSTNAME.fullmatch(str(body.get("name", ""))),
        "server_type": not isinstance(body.get("server_type"), str),
        "image": not isinstance(body.get("image"), str),
        "location": body.get("location") not in [place.name for place in PLACES],
        "user_data": len(str(body.get("user_data") or "").encode()) > LARGEST_USER_DATA,
        "labels": not all(_LABEL_VALUE.fullmatch(str(value)) for value in (body.get("labels") or {}).values()),
    }
    wrong = [name for name, is_wrong in problems.items() if is_wrong]
    if wrong:
        fields = [{"name": name, "messages": [f"invalid value {str(body.get(name))[:40]!r}"]} for name in wrong]
        raise Refusal(
            422,
            "invalid_input",
            f"invalid input in field{'s' if len(wrong) > 1 else ''} '{', '.join(wrong)}'",
            {"fields": fields},
        )


def _kind(name: Any, project: Project) -> Kind:
    kind = project.kind(name)
    if kind is None:
        raise Refusal(
            422,
            "invalid_input",
            f"server type {name} not found",
            {"fields": [{"name": "server_type", "messages": ["unknown"]}]},
        )
    return kind


def _image(wanted: str, kind: Kind, project: Project) -> Image:
    """By id, or by name and the architecture of the type."""
    for image in project.images:
        if wanted == str(image.id) or (wanted == image.name and image.architecture == kind.architecture):
            if image.architecture != kind.architecture:
                raise Refusal(
                    422,
                    "invalid_input",
                    "image architecture does not match the server type",
                    {"fields": [{"name": "image", "messages": ["mismatch"]}]},
                )
            return image
    raise Refusal(404, "not_found", f"image {wanted} not found")


def _known(what: str, ids: Iterable[int], known: Container[int]) -> tuple[int, ...]:
    found = tuple(ids)
    missing = [each for each in found if each not in known]
    if missing:
        raise Refusal(404, "not_found", f"{what} {missing[0]} not found")
    return found
