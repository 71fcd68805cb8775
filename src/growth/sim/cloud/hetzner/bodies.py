"""What do bodies of requests and answers look like? A server that is ordered is checked and its names are looked up;
what is in a project is shown in the API's own JSON, complete. Asked by the API."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from datetime import UTC, datetime
from ipaddress import IPv4Network
from typing import Final

from growth.sim.cloud.hetzner.assortment import (
    LOCATIONS,
    FakeImage,
    FakeServerType,
    Json,
    image_json,
    location_json,
    server_type_json,
)
from growth.sim.cloud.hetzner.inventory import FakeAction, FakeGroup, FakeNetwork, FakeServer, FakeSubnet
from growth.sim.cloud.hetzner.project import FakeRefusal, Project, invalid_input

LARGEST_USER_DATA: Final = 32 * 1024

_HOSTNAME: Final = re.compile(
    r"^[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(\.[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$"
)
_LABEL_VALUE: Final = re.compile(r"^(()|[a-z0-9A-Z]|([a-z0-9A-Z][a-z0-9A-Z\._-]{0,61}[a-z0-9A-Z]))$")


def ordered_server(body: Json, project: Project) -> FakeServer:
    _check_fields(body)
    public = {"enable_ipv4": True, "enable_ipv6": True, **(body.get("public_net") or {})}
    kind = project.kind(body["server_type"])
    if kind is None:
        raise invalid_input(f"server type {body['server_type']} not found", "server_type", "unknown")
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
        raise FakeRefusal(404, "not_found", "placement group not found")
    if server.starts_by_itself:
        check_reachable(server)
    return server


def check_reachable(server: FakeServer) -> None:
    """A server without any address cannot be started."""
    if not (server.ipv4 or server.ipv6 or server.addresses):
        raise invalid_input("a server needs a public address or a network to be started", "public_net")


def _check_fields(body: Json) -> None:
    problems = {
        "name": not _HOSTNAME.fullmatch(str(body.get("name", ""))),
        "server_type": not isinstance(body.get("server_type"), str),
        "image": not isinstance(body.get("image"), str),
        "location": body.get("location") not in [place.name for place in LOCATIONS],
        "user_data": len(str(body.get("user_data") or "").encode()) > LARGEST_USER_DATA,
        "labels": not all(_LABEL_VALUE.fullmatch(str(value)) for value in (body.get("labels") or {}).values()),
    }
    wrong = [name for name, is_wrong in problems.items() if is_wrong]
    if wrong:
        fields = [{"name": name, "messages": [f"invalid value {str(body.get(name))[:40]!r}"]} for name in wrong]
        message = f"invalid input in field{'s' if len(wrong) > 1 else ''} '{', '.join(wrong)}'"
        raise FakeRefusal(422, "invalid_input", message, {"fields": fields})


def _image(wanted: str, kind: FakeServerType, project: Project) -> FakeImage:
    """By id, or by name and the architecture of the type."""
    for image in project.images:
        if wanted == str(image.id) or (wanted == image.name and image.architecture == kind.architecture):
            if image.architecture != kind.architecture:
                raise invalid_input("image architecture does not match the server type", "image", "mismatch")
            return image
    raise FakeRefusal(404, "not_found", f"image {wanted} not found")


def _known(what: str, ids: Iterable[int], known: Container[int]) -> tuple[int, ...]:
    found = tuple(ids)
    missing = [each for each in found if each not in known]
    if missing:
        raise FakeRefusal(404, "not_found", f"{what} {missing[0]} not found")
    return found


# ------------------------------------------------------------------------------------------ answers


def instant(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def server_json(server: FakeServer, project: Project) -> Json:
    place = next(place for place in LOCATIONS if place.name == server.location)
    location = location_json(place)
    group = project.groups.get(server.group) if server.group is not None else None
    octets = f"{server.id >> 8 & 255}.{server.id & 255}"
    ipv4 = {"id": server.id, "ip": f"203.0.{octets}", "blocked": False, "dns_ptr": "static.example"}
    ipv6 = {"id": server.id + 1, "ip": "2001:db8::/64", "blocked": False, "dns_ptr": []}
    return {
        "id": server.id,
        "name": server.name,
        "status": server.status,
        "created": instant(server.created_at),
        "public_net": {
            "ipv4": ipv4 if server.ipv4 else None,
            "ipv6": ipv6 if server.ipv6 else None,
            "floating_ips": [],
            "firewalls": [{"id": each, "status": "applied"} for each in server.firewalls],
        },
        "private_net": [
            {"network": network, "ip": address, "alias_ips": [], "mac_address": "86:00:ff:2a:7d:e1"}
            for network, address in server.addresses.items()
        ],
        "server_type": server_type_json(server.kind, project.in_stock(server.kind)),
        "location": location,
        "datacenter": {
            "id": place.id,
            "name": place.datacenter,
            "description": place.datacenter,
            "location": location,
            "server_types": {"supported": [], "available": [], "available_for_migration": []},
        },
        "image": image_json(server.image),
        "iso": None,
        "rescue_enabled": False,
        "locked": server.status in ("initializing", "deleting"),
        "backup_window": None,
        "outgoing_traffic": 0,
        "ingoing_traffic": 0,
        "included_traffic": 21_990_232_555_520,
        "protection": {"delete": server.is_protected, "rebuild": server.is_protected},
        "labels": dict(server.labels),
        "volumes": [],
        "load_balancers": [],
        "primary_disk_size": server.kind.disk,
        "placement_group": group_json(group, project) if group is not None else None,
    }


def action_json(action: FakeAction) -> Json:
    is_over = action.finished_at is not None
    return {
        "id": action.id,
        "command": action.command,
        "status": "error" if action.error and is_over else "success" if is_over else "running",
        "progress": 100 if is_over else 0,
        "started": instant(action.started_at),
        "finished": instant(action.finished_at) if action.finished_at is not None else None,
        "resources": [{"id": action.server, "type": "server"}],
        "error": {"code": action.error[0], "message": action.error[1]} if action.error and is_over else None,
    }


def group_json(group: FakeGroup, project: Project) -> Json:
    return {
        "id": group.id,
        "name": group.name,
        "type": "spread",
        "labels": dict(group.labels),
        "created": instant(group.created_at),
        "servers": project.members(group.id),
    }


def firewall_json(firewall_id: int, name: str) -> Json:
    return {
        "id": firewall_id,
        "name": name,
        "labels": {},
        "created": "2026-01-01T00:00:00+00:00",
        "rules": [],
        "applied_to": [],
    }


def ssh_key_json(key_id: int, name: str) -> Json:
    return {
        "id": key_id,
        "name": name,
        "fingerprint": "b7:2f:30:a0:2f:6c:58:6c:21:04:58:61:ba:06:3b:2f",
        "public_key": "ssh-ed25519 AAAAC3",
        "labels": {},
        "created": "2026-01-01T00:00:00+00:00",
    }


def network_json(network: FakeNetwork, servers: Iterable[int]) -> Json:
    return {
        "id": network.id,
        "name": network.name,
        "ip_range": "10.0.0.0/8",
        "subnets": [_subnet_json(subnet) for subnet in network.subnets],
        "routes": [],
        "servers": list(servers),
        "load_balancers": [],
        "protection": {"delete": False},
        "labels": {},
        "created": "2026-01-01T00:00:00+00:00",
        "expose_routes_to_vswitch": False,
    }


def _subnet_json(subnet: FakeSubnet) -> Json:
    gateway = str(IPv4Network(subnet.ip_range)[1])
    return {
        "type": "cloud",
        "ip_range": subnet.ip_range,
        "network_zone": subnet.network_zone,
        "gateway": gateway,
        "vswitch_id": None,
    }
