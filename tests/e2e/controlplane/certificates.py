"""Who vouches for whom in a test control plane? Asked by `cluster` and `kubeconfig`.

One authority made for one run signs the servers' certificate and every client's. Nothing here outlives the folder it is
written to."""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Sequence
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID_FOR = dt.timedelta(days=2)
CLOCK_SKEW = dt.timedelta(minutes=5)


class KeyPair(msgspec.Struct, frozen=True):
    """A certificate and its private key, as PEM files."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority in a folder; `certificate` is the file that clients and servers trust."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "growth-test-authority")])
        self.certificate = folder / "authority.crt"
        self.certificate.write_bytes(self._sign_itself())

    def issue_client(self, user: str, groups: Sequence[str] = ()) -> KeyPair:
        """A client certificate: the API server reads the user from its common name and the groups from its
        organizations.
        """
        names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*names, x509.NameAttribute(NameOID.COMMON_NAME, user)])
        return self._issue(subject, ExtendedKeyUsageOID.CLIENT_AUTH, [])

    def issue_server(self, name: str) -> KeyPair:
        """A certificate for servers on the loopback address, and for the names pods use for the API server."""
        hosts = [
            x509.DNSName(host) for host in ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
        ]
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        return self._issue(
            subject, ExtendedKeyUsageOID.SERVER_AUTH, [*hosts, x509.IPAddress(ipaddress.IPv4Address("127.0.0.1"))]
        )

    def issue_signing_key(self, name: str) -> KeyPair:
        """A bare key pair with which service account tokens are signed and checked."""
        key = ec.generate_private_key(ec.SECP256R1())
        public = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        return self._write(name, public, key)

    def _issue(self, subject: x509.Name, usage: x509.ObjectIdentifier, hosts: list[x509.GeneralName]) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(subject, key.public_key()).add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return self._write(f"{certificate.serial_number:x}", certificate.public_bytes(serialization.Encoding.PEM), key)

    def _sign_itself(self) -> bytes:
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        builder = self._builder(self._name, self._key.public_key()).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        return (
            builder.add_extension(usage, critical=True)
            .sign(self._key, hashes.SHA256())
            .public_bytes(serialization.Encoding.PEM)
        )

    def _builder(self, subject: x509.Name, public_key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        """Both key identifiers are set: Python's strict verification wants them."""
        now = dt.datetime.now(dt.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - CLOCK_SKEW)
            .not_valid_after(now + VALID_FOR)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )

    def _write(self, name: str, public: bytes, key: ec.EllipticCurvePrivateKey) -> KeyPair:
        pair = KeyPair(self.folder / f"{name}.crt", self.folder / f"{name}.key")
        pair.certificate.write_bytes(public)
        pair.key.touch(mode=0o600)
        pair.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
            )
        )
        return pair
