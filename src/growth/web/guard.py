"""May this request be answered? Asked of every one that reaches the page, before anything else is done with it.

| the request | the answer |
| --- | --- |
| neither GET nor HEAD; a POST anywhere but at the controls of a story | 405 |
| for a host that is not on the list: a name of this machine, or one that the settings name | 421 |
| from a page of another origin (`Origin`, `Sec-Fetch-Site`) | 403 |
| a POST that does not say it comes from this very origin, or is not JSON | 403, 415 |
| for data, where the page is exposed and there is no token | 401 |
| with a token that the API server does not know, or whose user may not see the page | 401, 403 |

The page itself is the same for everybody and holds no data, so it needs no token. No answer ever permits another origin
to read it (no CORS). A page is exposed when it listens on anything but a loopback address."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from growth.kube.api.client import Client
from growth.kube.api.errors import KubeError

DATA: Final = "/api/"
CONTROLS: Final = "/api/stage"
PAGE_PATH: Final = "/growth/page"  # the non-resource URL that a user must be allowed to `get`
_REVIEW_SECONDS: Final = 60.0
_REVIEWS_KEPT: Final = 200
_LONGEST_TOKEN: Final = 16_384
_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class Refusal(Struct, frozen=True):
    """Why a request is not answered."""

    status: int
    why: str


class Asked(Struct, frozen=True):
    """What the guard looks at."""

    method: str
    path: str
    host: str
    headers: Mapping[str, str] = {}  # by their names in small letters


class Guard:
    """Rules for one listener. `hosts` are names beyond those of this machine; `controls` permits to steer a story."""

    def __init__(
        self,
        hosts: tuple[str, ...] = (),
        *,
        is_exposed: bool = False,
        controls: bool = False,
        reviews: Reviews | None = None,
    ) -> None:
        self.is_exposed = is_exposed
        self._hosts = _NAMES | {host.lower().rstrip(".") for host in hosts}
        self._controls = controls and not self.is_exposed
        self._reviews = reviews

    async def why_not(self, asked: Asked) -> Refusal | None:
        return self.why_not_at_once(asked) or await self._why_not_token(asked)

    def why_not_at_once(self, asked: Asked) -> Refusal | None:
        """All that needs nobody else."""
        if asked.method not in ("GET", "HEAD") and not self._is_control(asked):
            return Refusal(405, "this page is only read: GET and HEAD")
        if _name_of(asked.host) not in self._hosts:
            return Refusal(421, "this host is not on the page's list (setting page.hosts)")
        if self._is_foreign(asked):
            return Refusal(403, "other pages may not ask")
        if asked.method == "POST":
            return self._why_not_control(asked)
        return None

    def _is_control(self, asked: Asked) -> bool:
        return self._controls and asked.method == "POST" and asked.path == CONTROLS

    def _is_foreign(self, asked: Asked) -> bool:
        origin, site = asked.headers.get("origin"), asked.headers.get("sec-fetch-site", "none")
        if origin is not None and not _is_same(origin, asked.host):
            return True
        is_opened = asked.headers.get("sec-fetch-mode") == "navigate" and not asked.path.startswith(DATA)
        return site not in ("none", "same-origin") and not is_opened

    @staticmethod
    def _why_not_control(asked: Asked) -> Refusal | None:
        if "origin" not in asked.headers:
            return Refusal(403, "a request that steers the story says where it comes from")
        if asked.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return Refusal(415, "JSON only")
        return None

    async def _why_not_token(self, asked: Asked) -> Refusal | None:
        if not self.is_exposed or not asked.path.startswith(DATA):
            return None
        scheme, _, token = asked.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip() or len(token) > _LONGEST_TOKEN:
            return Refusal(401, "a token is needed (kubectl create token ACCOUNT)")
        if self._reviews is None:
            return Refusal(401, "nobody can review tokens here")
        return await self._reviews.why_not(token.strip())


class Reviews:
    """Whose token is it, and may they see the page? The API server answers; its answers are kept for a minute."""

    def __init__(self, client: Client, monotonic: Callable[[], float]) -> None:
        self._client, self._monotonic = client, monotonic
        self._known: OrderedDict[str, tuple[float, Refusal | None]] = OrderedDict()  # by checksum, never the token

    async def why_not(self, token: str) -> Refusal | None:
        key, now = hashlib.sha256(token.encode()).hexdigest(), self._monotonic()
        known = self._known.get(key)
        if known is not None and now - known[0] < _REVIEW_SECONDS:
            return known[1]
        try:
            refusal = await self._asked(token)
        except KubeError:
            return Refusal(503, "the API server does not answer, so the token cannot be reviewed")
        self._known[key] = (now, refusal)
        if len(self._known) > _REVIEWS_KEPT:
            self._known.popitem(last=False)
        return refusal

    async def _asked(self, token: str) -> Refusal | None:
        user = await self._client.user_of(token)
        if user is None:
            return Refusal(401, "the API server does not know this token")
        if not await self._client.may_user_get(user, PAGE_PATH):
            return Refusal(403, f"this user may not get the non-resource URL {PAGE_PATH}")
        return None


def _name_of(host: str) -> str:
    """Of a Host header, without its port; empty if it is none."""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".") if host and "@" not in host else ""
    except ValueError:
        return ""


def _is_same(origin: str, host: str) -> bool:
    """A proxy may speak https for us, so the scheme does not count; the host with its port does."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower() and not parts.path
