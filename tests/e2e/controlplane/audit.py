"""Who asked the API server for what, and what was the answer? Asked by tests that judge manners: rights used, rights
refused, writes at rest.

The policy keeps one line for every request at Metadata level, except the noise: health checks, the harness's own calls,
and what the control plane's own programs read or write in leases and events. Their other writes (bindings, statuses,
deletions) stay, so that a test can tell who did it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from tests.e2e.controlplane.identities import HARNESS, PROGRAMS

POLICY: dict[str, Any] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "users": [HARNESS]},
        {"level": "None", "nonResourceURLs": ["/healthz*", "/livez*", "/readyz*"]},
        {"level": "None", "users": PROGRAMS, "verbs": ["get", "list", "watch"]},
        {
            "level": "None",
            "users": PROGRAMS,
            "resources": [
                {"group": "coordination.k8s.io", "resources": ["leases"]},
                {"group": "", "resources": ["events"]},
                {"group": "events.k8s.io", "resources": ["events"]},
            ],
        },
        {"level": "Metadata"},
    ],
}


class AuditUser(msgspec.Struct, frozen=True):
    username: str = ""
    groups: tuple[str, ...] = ()


class AuditObject(msgspec.Struct, frozen=True, rename="camel"):
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    api_group: str = ""


class AuditStatus(msgspec.Struct, frozen=True):
    code: int = 0


class AuditEvent(msgspec.Struct, frozen=True, rename="camel"):
    """One line of the audit log. A watch has two: `ResponseStarted` when it opens and `ResponseComplete` when it ends;
    all others have the latter only.
    """

    verb: str
    stage: str
    request_uri: str = msgspec.field(name="requestURI")
    user: AuditUser = AuditUser()
    object_ref: AuditObject = AuditObject()
    response_status: AuditStatus = AuditStatus()
    user_agent: str = ""
    stage_timestamp: str = ""

    @property
    def user_name(self) -> str:
        return self.user.username

    @property
    def code(self) -> int:
        """The HTTP status of the answer."""
        return self.response_status.code

    @property
    def resource(self) -> str:
        """As RBAC rules write it: `pods`, `pods/eviction`."""
        reference = self.object_ref
        return f"{reference.resource}/{reference.subresource}" if reference.subresource else reference.resource


class RightsUsed:
    """Which rights did one user make use of, over all tests?"""

    def __init__(self, user: str, used: Iterable[Iterable[str]] = ()) -> None:
        self.used = {tuple(each) for each in used}  # verb, group, resource
        self._user = user

    def take(self, events: Iterable[AuditEvent]) -> set[str]:
        """Learn from these, and return what was refused."""
        mine = [event for event in events if event.user_name == self._user and event.object_ref.resource]
        self.used |= {(event.verb, event.object_ref.api_group, event.resource) for event in mine if event.code != 403}
        return {f"{event.verb} {event.resource}" for event in mine if event.code == 403}

    def unused(self, rules: list[dict[str, Any]]) -> list[str]:
        """Verbs of these policy rules that nobody used."""
        granted = {(verb, rule["apiGroups"][0], rule["resources"][0]) for rule in rules for verb in rule["verbs"]}
        return sorted(f"{verb} {resource}" for verb, _, resource in granted - self.used)


def events_in(path: Path, offset: int = 0) -> Iterator[AuditEvent]:
    """The events of a log from a byte on: without a line that this byte cuts, and without a last one that is still
    being written.
    """
    decoder = msgspec.json.Decoder(AuditEvent)
    with path.open("rb") as log:
        if offset:
            log.seek(offset - 1)
            log.readline()
        for line in log:
            if line.endswith(b"\n"):
                yield decoder.decode(line)
