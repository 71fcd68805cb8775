"""Host ports: who stands in whose way."""

from __future__ import annotations

import pytest

from growth.model.pod import HostPort
from growth.solver.rules import Kind
from growth.solver.rules.ports import conflicts
from tests.solver.rules.scenes import fits, node, pod, refusal

ONE, OTHER = "10.0.0.1", "10.0.0.2"


@pytest.mark.parametrize(
    ("wanted", "used", "expected"),
    [
        (HostPort(80), HostPort(80), True),
        (HostPort(80), HostPort(81), False),
        (HostPort(80), HostPort(80, "UDP"), False),
        (HostPort(80, host_ip=ONE), HostPort(80), True),
        (HostPort(80), HostPort(80, host_ip=ONE), True),
        (HostPort(80, host_ip=ONE), HostPort(80, host_ip=OTHER), False),
        (HostPort(80, host_ip=ONE), HostPort(80, host_ip=ONE), True),
    ],
)
def test_ports_conflict_unless_they_name_different_addresses(wanted: HostPort, used: HostPort, expected: bool) -> None:
    assert conflicts(wanted, used) is expected
    assert fits(pod(host_ports=(wanted,)), node(), pod("other", "a", host_ports=(used,))) is not expected


def test_the_port_that_is_taken_is_named() -> None:
    refused = refusal(
        pod(host_ports=(HostPort(8080), HostPort(53, "UDP", ONE))),
        node(),
        pod("other", "a", host_ports=(HostPort(53, "UDP"),)),
    )
    assert refused is not None
    assert (refused.kind, str(refused)) == (Kind.HOSTPORT, "host port 10.0.0.1:53/UDP taken")


def test_a_port_on_another_node_does_not_matter() -> None:
    assert fits(
        pod(host_ports=(HostPort(80),)), node("a"), pod("other", "b", host_ports=(HostPort(80),)), others=(node("b"),)
    )
