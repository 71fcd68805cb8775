"""A join token for each NodeRequest: a bootstrap token that the new machine joins with, minted before the order and
deleted once it has joined.

Asked by `controllers/act/nodes`, where the settings say so. growth may create and delete such Secrets, and read none:
the secret part is known only to the process that made it. So the name of a token follows from the request's, and a
token that a restarted growth finds under it is replaced.

| when | the token |
| --- | --- |
| an order goes out | is minted, or is the one of the attempt before |
| the node has joined | is deleted |
| the request is Ready, Unmet, Deprovisioning or released | is deleted, if it is still there |
| growth is away | expires by itself |
"""

from __future__ import annotations

from hashlib import sha256
from typing import Annotated, Any, Final

import structlog
from msgspec import Meta, Struct

from growth.kube.api.client import Client
from growth.kube.api.errors import AlreadyExists, Forbidden, KubeError, NotFound
from growth.kube.api.resources import SECRETS, Right
from growth.kube.crds.policies import LONGEST_SECONDS, NAMESPACE, TOKEN_TYPE
from growth.kube.redaction import SECRETS as KNOWN_SECRETS
from growth.kube.redaction import redact
from growth.model.instant import format_instant
from growth.model.node import REQUEST_LABEL
from growth.runtime import Runtime

RIGHTS: Final = (Right(SECRETS, ("create", "delete"), namespace=NAMESPACE),)
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_ID_LENGTH: Final = 6
_SECRET_LENGTH: Final = 16
_LEAST_LEFT: Final = 0.5  # of its life; an order with less gets a new one

log = structlog.get_logger(__name__)


class JoinTokens(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Whether join tokens are minted, and how."""

    mint: Annotated[
        bool,
        Meta(
            description="Mint a bootstrap token for each NodeRequest, in place of a join token file. Brings a Role in "
            "kube-system and an admission policy: growth may create and delete such tokens there, and no other Secret."
        ),
    ] = False
    group: Annotated[
        str,
        Meta(
            max_length=255,
            pattern=r"^system:bootstrappers:[a-z0-9:-]*[a-z0-9]\Z",
            description="The group that machines join as; this one is kubeadm's.",
        ),
    ] = "system:bootstrappers:kubeadm:default-node-token"
    lifetime_seconds: Annotated[
        int,
        Meta(
            ge=300,
            le=LONGEST_SECONDS,
            description="How long a token is good for, less what the clocks of growth and API server differ.",
        ),
    ] = 1500


class _Minted(Struct, frozen=True):
    token: str
    expires_at: float


class Mint:
    """Makes tokens, and takes them back."""

    def __init__(self, client: Client, runtime: Runtime, settings: JoinTokens) -> None:
        self._client = client
        self._runtime = runtime
        self._settings = settings
        self._minted: dict[str, _Minted] = {}  # by request

    async def token_for(self, request: str) -> str:
        """Raises KubeError where none can be made."""
        now = self._runtime.now()
        known = self._minted.get(request)
        if known is None or known.expires_at - now < self._settings.lifetime_seconds * _LEAST_LEFT:
            known = await self._mint(request, now + self._settings.lifetime_seconds)
            self._minted[request] = known
        return known.token

    async def _mint(self, request: str, expires_at: float) -> _Minted:
        secret = _digits(self._runtime.new_id() + self._runtime.new_id(), _SECRET_LENGTH)
        KNOWN_SECRETS.add_token(secret)
        item = _secret(request, secret, expires_at, self._settings.group)
        try:
            await self._client.create(SECRETS, item)
        except AlreadyExists:  # of a growth before us, or its answer was lost: its secret part is not known
            await self._delete(request)
            await self._client.create(SECRETS, item)
        return _Minted(f"{token_id(request)}.{secret}", expires_at)

    async def take_back(self, request: str) -> None:
        """Nothing waits for this: a token that cannot be deleted now expires by itself."""
        try:
            await self._delete(request)
        except KubeError as error:
            log.warning("a join token could not be deleted; it expires by itself", request=request, error=str(error))
            return
        known = self._minted.pop(request, None)
        if known is not None:
            KNOWN_SECRETS.forget_token(known.token.partition(".")[2])

    async def _delete(self, request: str) -> None:
        try:
            await self._client.delete(SECRETS, secret_name(request), NAMESPACE)
        except NotFound:
            pass


def why_not_minted(error: KubeError) -> str:
    """In words for the request and its pool."""
    role = ": apply the role and policy for join tokens (`growth role --settings FILE`, or `helm upgrade`)"
    return redact(f"no join token could be minted{role if isinstance(error, Forbidden) else ''}: {error}")


def token_id(request: str) -> str:
    """The public part; always the same for the same request."""
    return _digits(request, _ID_LENGTH)


def secret_name(request: str) -> str:
    return f"bootstrap-token-{token_id(request)}"


def _secret(request: str, secret: str, expires_at: float, group: str) -> dict[str, Any]:
    return {
        "apiVersion": SECRETS.api_version,
        "kind": SECRETS.kind,
        "type": TOKEN_TYPE,
        "metadata": {"name": secret_name(request), "namespace": NAMESPACE, "labels": {REQUEST_LABEL: request}},
        "stringData": {
            "token-id": token_id(request),
            "token-secret": secret,
            "expiration": format_instant(expires_at),
            "usage-bootstrap-authentication": "true",
            "usage-bootstrap-signing": "true",
            "auth-extra-groups": group,
        },
    }


def _digits(text: str, length: int) -> str:
    """Letters and digits that follow from the text, evenly spread."""
    number, found = int.from_bytes(sha256(text.encode()).digest()), ""
    while len(found) < length:
        number, place = divmod(number, len(_DIGITS))
        found += _DIGITS[place]
    return found
