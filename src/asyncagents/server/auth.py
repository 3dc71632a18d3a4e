"""Authorization: the Host header, the origin of browser requests (CORS), and the token."""

import binascii
import hmac
from base64 import b64decode
from functools import lru_cache

from msgspec import Struct

from asyncagents.errors import ConfigError
from asyncagents.server.address import is_ipv6, is_loopback
from asyncagents.server.http.messages import Answer, Pairs, Request, refused
from asyncagents.server.http.peer import Owner
from asyncagents.server.route import Route

_FORWARDED = frozenset(
    (
        "forwarded",
        "via",
        "cdn-loop",
        "client-ip",
        "fastly-client-ip",
        "x-original-forwarded-for",
        "x-original-host",
        "x-azure-clientip",
        "x-azure-socketip",
        "x-envoy-external-address",
        "x-remote-addr",
        "wl-proxy-client-ip",
        "x-real-ip",
        "x-client-ip",
        "x-cluster-client-ip",
        "true-client-ip",
        "cf-connecting-ip",
        "cf-ray",
        "fly-client-ip",
        "tailscale-user-login",
    )
)
_FORWARDED_KIN = ("x-forwarded", "tailscale-user-")
"""Prefixes of other headers that only proxies send."""
_STATUS_CORS: Pairs = (
    ("access-control-allow-origin", "*"),
    ("access-control-allow-methods", "GET, OPTIONS"),
    ("access-control-allow-headers", "Content-Type, Authorization"),
)
_LET_IN: Pairs = (
    ("access-control-allow-methods", "GET, POST, PUT, PATCH, DELETE, OPTIONS"),
    (
        "access-control-allow-headers",
        "Content-Type, Authorization, Idempotency-Key, Last-Event-ID, X-OpenCode-Directory",
    ),
    ("vary", "Origin"),
)
_PORTS = {"http": ":80", "https": ":443"}
"""Default ports, which browsers omit from an origin."""
_CHALLENGE: Pairs = (
    ("www-authenticate", 'Basic realm="asyncagents"'),
    ("www-authenticate", 'Bearer realm="asyncagents"'),
)
AUTH_TOKEN = "auth_token"
"""Query parameter with Basic credentials: a browser's EventSource cannot send headers."""
_NO_HOST = "the Host header names an unknown host; allow it with `asyncagents serve --allow-host NAME`"
_NO_TOKEN = "a token is required: `authorization: Bearer …`; it is in server.json of the data directory"
_OTHER_TOKEN = "the token is wrong; the token of this server is in server.json of the data directory"
_OTHER_USER = "this server runs as the user {owner}, and the requesting program as another one; {}"
_UNKNOWN_USER = "this server runs as the user {owner}, and the user of the requesting program is unknown; {}"
_NO_PROOF = "without a token only local programs have access: start the server without --no-auth"
_NO_PAGE = f"{_NO_TOKEN}. Or allow the origin of this page: `asyncagents serve --cors ORIGIN`"
_FOREIGN = "cross-origin request refused; allow the origin with `asyncagents serve --cors ORIGIN`"


class Gate(Struct, frozen=True, kw_only=True):
    """`token` None: none is required (`--no-auth`). `is_loopback`: the server listens on loopback only."""

    token: str | None
    is_loopback: bool
    hosts: tuple[str, ...] = ()
    """Additional Host names, such as that of a tunnel."""
    origins: tuple[str, ...] = ()
    """Origins whose pages have the access of a local program."""
    owner: str = ""
    """The user that the server runs as, for messages."""

    def __repr__(self) -> str:
        return f"Gate(is_loopback={self.is_loopback}, hosts={self.hosts}, origins={self.origins})"

    def reached(self, request: Request) -> Answer | None:
        """Refuse unknown Host headers, before anything else (DNS rebinding)."""
        given = _all(request, "host")
        host = _host(given[0]) if len(given) == 1 else None
        if host is None or not (_is_here(host) or not self.is_loopback or host in self.hosts):
            return refused(403, _NO_HOST)
        return None

    async def admit(self, route: Route, request: Request) -> Answer | None:
        """Check access to a route; return the refusal or None. Marks the peer if the token was accepted."""
        foreign = self.is_foreign(request)
        if foreign and route.changes:
            return refused(403, _FOREIGN)
        request.peer.proven = self._proves(request)
        if request.peer.proven or route.access in {"open", "signature"}:
            return None
        local = not foreign and self.is_local(request)
        if local and self.token is None:
            request.peer.proven = route.access == "token"
            return None
        if local and route.access in {"local", "counts", "user"}:
            return await self._admit_user(route, request)
        return refused(401, self._wants(request, foreign=foreign), _CHALLENGE)

    async def _admit_user(self, route: Route, request: Request) -> Answer | None:
        """Refuse programs of other users; those of an unknown user may only read counts."""
        owner: Owner = "same" if route.access == "local" else await request.peer.find_owner()
        if owner == "same" or (owner == "unknown" and route.access == "counts"):
            return None
        why = _OTHER_USER if owner == "other" else _UNKNOWN_USER
        wants = self._wants(request, foreign=False)
        return refused(401, why.format(wants, owner=self.owner), _CHALLENGE)

    def _wants(self, request: Request, *, foreign: bool) -> str:
        """Say what to do about a refusal."""
        if self.token is None:
            return _FOREIGN if foreign else _NO_PROOF
        if request.header("authorization") or _asked(request):
            return _OTHER_TOKEN
        return _NO_PAGE if foreign else _NO_TOKEN

    def is_foreign(self, request: Request) -> bool:
        """Whether a browser sends the request for a page of an origin that is not allowed."""
        origins = _all(request, "origin")
        if not any(origins):
            return any(site in {"cross-site", "same-site"} for site in _all(request, "sec-fetch-site"))
        own = f"http://{request.header('host').lower()}"
        return not all(origin.lower() in (*self.origins, own) for origin in origins)

    def is_local(self, request: Request) -> bool:
        """Whether the request comes from a program of this machine, and not through a proxy. Requests routed
        from other machines (`route_localnet`) have their address."""
        host = _host(request.header("host"))
        if not self.is_loopback or host is None or not (_is_here(host) and _is_here(request.client)):
            return False
        return not any(_is_of_proxy(name.lower().replace("_", "-")) for name, _ in request.headers)

    def cors(self, request: Request) -> Pairs:
        """Return the CORS headers. Preflights get the same response for all paths, so they reveal nothing;
        the request that follows is authorized by its own origin and token."""
        origin = request.header("origin")
        status = request.path.startswith("/v1/")
        if origin.lower() in self.origins:
            return (("access-control-allow-origin", "*" if status else origin), *_LET_IN)
        return _STATUS_CORS if status or request.method == "OPTIONS" else ()

    def _proves(self, request: Request) -> bool:
        if self.token is None:
            return False
        proven = False
        for given in (_password(request.header("authorization")), *map(_decoded, _asked(request))):
            proven |= hmac.compare_digest(given, self.token.encode())
        return proven


def _is_of_proxy(name: str) -> bool:
    """Whether only proxies send such a header."""
    return name in _FORWARDED or name.startswith(_FORWARDED_KIN)


def _password(header: str) -> bytes:
    scheme, _, value = header.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip().encode("utf-8", "replace")
    return _decoded(value) if scheme.lower() == "basic" else b""


def _decoded(value: str) -> bytes:
    """Decode the password of base64 `user:password`; return b"" if the value is invalid."""
    try:
        return b64decode(value.strip(), validate=True).partition(b":")[2]
    except (binascii.Error, ValueError):
        return b""


def _asked(request: Request) -> list[str]:
    """Return the tokens of the query; an unencoded plus was decoded as a space."""
    return [value.replace(" ", "+") for name, value in request.query if name == AUTH_TOKEN]


def _all(request: Request, wanted: str) -> list[str]:
    return [value for name, value in request.headers if name.lower() == wanted]


def names(given: tuple[str, ...]) -> tuple[str, ...]:
    """Normalize host names for comparison. Raises `ConfigError` for an invalid one."""
    found = []
    for each in given:
        name = _host(f"[{each}]" if is_ipv6(each) else each)
        if name is None or not name.isascii() or not set(name).isdisjoint("/@*? "):
            raise ConfigError(f"{each[:80]!r} is not a host name: give one such as agents.example.org")
        found.append(name)
    return tuple(found)


def pages(given: tuple[str, ...]) -> tuple[str, ...]:
    """Normalize origins for comparison. Raises `ConfigError` for an invalid one or a wildcard."""
    found = []
    for each in given:
        scheme, apart, rest = each.lower().removesuffix("/").partition("://")
        host = _host(rest)
        if not apart or not scheme or host is None or not set(rest).isdisjoint("/@*? #"):
            raise ConfigError(f"{each[:80]!r} is not an origin: give one such as http://localhost:3000")
        found.append(f"{scheme}://{rest.removesuffix(_PORTS.get(scheme, ':'))}")
    return tuple(found)


def _host(header: str) -> str | None:
    """Return the host without port and trailing dot; None if it is not a valid host."""
    name, port = header.lower(), ""
    if header.startswith("["):
        name, closed, rest = name[1:].partition("]")
        if not closed or ":" not in name or (rest and not rest.startswith(":")):
            return None
        port = rest[1:]
    elif ":" in name:
        name, _, port = name.partition(":")
    name = name.removesuffix(".")
    return name if name and (not port or (port.isascii() and port.isdecimal())) else None


@lru_cache(maxsize=64)
def _is_here(host: str) -> bool:
    """Whether the host is a reserved local name or a loopback address: neither can be rebound by DNS."""
    return host == "localhost" or host.endswith(".localhost") or is_loopback(host)
