"""How does the API show what is in a project? Servers, actions and groups in its own JSON, complete. Asked by `api.py`."""

from __future__ import annotations

from datetime import UTC, datetime

from growth.sim.cloud.hetzner.assortment import PLACES, Json, image_json, kind_json, location_json
from growth.sim.cloud.hetzner.project import FakeAction, FakeServer, Group, Project


def instant(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def server_json(server: FakeServer, project: Project) -> Json:
    place = next(place for place in PLACES if place.name == server.location)
    location = location_json(place)
    group = project.groups.get(server.group) if server.group is not None else None
    octets = f"{server.id >> 8 & 255}.{server.id & 255}"
    return {
        "id": server.id,
        "name": server.name,
        "status": server.status,
        "created": instant(server.created_at),
        "public_net": {
            "ipv4": {"id": server.id, "ip": f"203.0.{octets}", "blocked": False, "dns_ptr": "static.example"}
            if server.ipv4
            else None,
            "ipv6": {"id": server.id + 1, "ip": "2001:db8::/64", "blocked": False, "dns_ptr": []}
            if server.ipv6
            else None,
            "floating_ips": [],
            "firewalls": [{"id": each, "status": "applied"} for each in server.firewalls],
        },
        "private_net": [
            {"network": network, "ip": address, "alias_ips": [], "mac_address": "86:00:ff:2a:7d:e1"}
            for network, address in server.addresses.items()
        ],
        "server_type": kind_json(server.kind, project.in_stock(server.kind)),
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


def group_json(group: Group, project: Project) -> Json:
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
