"""Fresh certificates for tests of TLS, so that no private key lies in the repository. P-256 and just enough of X.509;
not for any other use.
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import secrets
from typing import NamedTuple

PRIME = 2**256 - 2**224 + 2**192 + 2**96 - 1
ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
BASE = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)
EC_PUBLIC_KEY, P256, ECDSA_SHA256 = "06072a8648ce3d0201", "06082a8648ce3d030107", "06082a8648ce3d040302"
COMMON_NAME, BASIC_CONSTRAINTS, ALTERNATIVE_NAMES = "0603550403", "0603551d13", "0603551d11"

Point = tuple[int, int] | None


class Pair(NamedTuple):
    """A certificate and its key, both PEM; `secret` and `name` let it sign others."""

    certificate: bytes
    key: bytes
    secret: int
    name: str


def authority(name: str = "test authority") -> Pair:
    return _issue(name, None, (), is_authority=True)


def signed(by: Pair, name: str, *hosts: str) -> Pair:
    return _issue(name, by, hosts, is_authority=False)


def _issue(name: str, by: Pair | None, hosts: tuple[str, ...], is_authority: bool) -> Pair:
    secret = secrets.randbelow(ORDER - 1) + 1
    public = _times(secret, BASE)
    assert public is not None
    point = b"\x04" + public[0].to_bytes(32) + public[1].to_bytes(32)
    curve = _tag(0x30, bytes.fromhex(EC_PUBLIC_KEY), bytes.fromhex(P256))
    algorithm = _tag(0x30, bytes.fromhex(ECDSA_SHA256))
    validity = _tag(0x30, _tag(0x17, b"200101000000Z"), _tag(0x18, b"20991231235959Z"))
    body = _tag(
        0x30,
        _tag(0xA0, _integer(2)),
        _integer(secrets.randbits(64)),
        algorithm,
        _name(by.name if by else name),
        validity,
        _name(name),
        _tag(0x30, curve, _bits(point)),
        _tag(0xA3, _tag(0x30, *_extensions(hosts, is_authority))),
    )
    certificate = _tag(0x30, body, algorithm, _bits(_signature(by.secret if by else secret, body)))
    key = _tag(
        0x30, _integer(1), _tag(0x04, secret.to_bytes(32)), _tag(0xA0, bytes.fromhex(P256)), _tag(0xA1, _bits(point))
    )
    return Pair(_pem("CERTIFICATE", certificate), _pem("EC PRIVATE KEY", key), secret, name)


def _extensions(hosts: tuple[str, ...], is_authority: bool) -> list[bytes]:
    basic = _tag(
        0x30,
        bytes.fromhex(BASIC_CONSTRAINTS),
        _tag(0x01, b"\xff"),
        _tag(0x04, _tag(0x30, *([_tag(0x01, b"\xff")] if is_authority else []))),
    )
    names = [
        _tag(0x87, ipaddress.ip_address(host).packed) if host[0].isdigit() else _tag(0x82, host.encode())
        for host in hosts
    ]
    return [basic, *([_tag(0x30, bytes.fromhex(ALTERNATIVE_NAMES), _tag(0x04, _tag(0x30, *names)))] if names else [])]


def _signature(secret: int, message: bytes) -> bytes:
    nonce = secrets.randbelow(ORDER - 1) + 1
    point = _times(nonce, BASE)
    assert point is not None
    first = point[0] % ORDER
    second = pow(nonce, -1, ORDER) * (int.from_bytes(hashlib.sha256(message).digest()) + first * secret) % ORDER
    return _tag(0x30, _integer(first), _integer(second))


def _plus(one: Point, other: Point) -> Point:
    if one is None or other is None:
        return one or other
    if one[0] == other[0] and one[1] != other[1]:
        return None
    slope = (
        (3 * one[0] ** 2 - 3) * pow(2 * one[1], -1, PRIME)
        if one == other
        else (other[1] - one[1]) * pow(other[0] - one[0], -1, PRIME)
    )
    across = (slope**2 - one[0] - other[0]) % PRIME
    return across, (slope * (one[0] - across) - one[1]) % PRIME


def _times(factor: int, point: Point) -> Point:
    total: Point = None
    while factor:
        total = _plus(total, point) if factor & 1 else total
        point, factor = _plus(point, point), factor >> 1
    return total


def _tag(tag: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    length = len(content).to_bytes((len(content).bit_length() + 7) // 8 or 1)
    return bytes([tag]) + (length if len(content) < 128 else bytes([0x80 | len(length)]) + length) + content


def _integer(value: int) -> bytes:
    return _tag(0x02, value.to_bytes(value.bit_length() // 8 + 1))


def _bits(content: bytes) -> bytes:
    return _tag(0x03, b"\x00", content)


def _name(name: str) -> bytes:
    return _tag(0x30, _tag(0x31, _tag(0x30, bytes.fromhex(COMMON_NAME), _tag(0x0C, name.encode()))))


def _pem(label: str, content: bytes) -> bytes:
    return b"-----BEGIN %b-----\n%b-----END %b-----\n" % (label.encode(), base64.encodebytes(content), label.encode())
