"""How does the harness itself speak to the servers it started? Asked by `cluster` and `cleaning`.

A few blocking calls over the standard library: the client that growth brings is what these tests judge, so it cannot
also be their tool."""

from __future__ import annotations

import http.client
import json
import ssl
from pathlib import Path
from typing import Any

import msgspec

from tests.e2e.controlplane.certificates import KeyPair

METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
ALL_RESOURCES = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
MERGE_PATCH = "application/merge-patch+json"


class Answer(msgspec.Struct, frozen=True):
    status: int
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def good(self) -> bool:
        return self.status < 400


class RefusedError(Exception):
    """A server answered a call of the harness with an error."""


class Connection:
    """One kept-alive connection to a server on the loopback address, with or without TLS."""

    def __init__(self, port: int, context: ssl.SSLContext | None = None, timeout_seconds: float = 30.0) -> None:
        self._http = (
            http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_seconds)
            if context is None
            else http.client.HTTPSConnection("127.0.0.1", port, timeout=timeout_seconds, context=context)
        )

    def close(self) -> None:
        self._http.close()

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> Answer:
        """One request; again on a fresh connection if the kept one was closed meanwhile (every call of the harness may
        be repeated).
        """
        payload = None if body is None else json.dumps(body)
        headers = {"Accept": accept, **({} if payload is None else {"Content-Type": content_type})}
        for attempt in range(2):
            try:
                self._http.request(method, path, body=payload, headers=headers)
                response = self._http.getresponse()
                return Answer(response.status, response.read())
            except (http.client.HTTPException, OSError):
                self._http.close()
                if attempt:
                    raise
        raise AssertionError("unreachable")

    def get(self, path: str, accept: str = "application/json") -> Any:
        return self._accepted("GET", path, self.ask("GET", path, accept=accept))

    def post(self, path: str, body: object) -> Any:
        return self._accepted("POST", path, self.ask("POST", path, body))

    def healthy(self, path: str) -> bool:
        """Whether a health endpoint says so now; a server that is not there is not healthy."""
        try:
            return self.ask("GET", path).status == 200
        except (http.client.HTTPException, OSError):
            return False

    @staticmethod
    def _accepted(method: str, path: str, answer: Answer) -> Any:
        if not answer.good:
            raise RefusedError(f"{method} {path}: {answer.status} {answer.body[:500]!r}")
        return answer.json()


def context_for(authority: Path, client: KeyPair) -> ssl.SSLContext:
    """TLS that trusts the run's authority and shows a client certificate."""
    context = ssl.create_default_context(cafile=str(authority))
    context.load_cert_chain(client.certificate, client.key)
    return context
