"""Authorization: the Host header, the origin of browser requests (CORS), and the token."""

import binascii
import hmac
from base64 import b64decode
from functools import lru_cache

from msgspec import Struct

from asyncagents.errors import ConfigError
from asyncagents.server.address import is_ipv6, is_loopback
from asyncagents.server.http.messages import Pairs, Request, Response, error_response
from asyncagents.server.http.peer import UserMatch
from asyncagents.server.route import Route

_PROXY_HEADERS = frozenset(
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
_PROXY_HEADER_PREFIXES = ("x-forwarded", "tailscale-user-")
"""Prefixes of other headers that only proxies send."""
_STATUS_CORS: Pairs = (
    ("access-control-allow-origin", "*"),
    ("access-control-allow-methods", "GET, OPTIONS"),
    ("access-control-allow-headers", "Content-Type, Authorization"),
)
_ORIGIN_CORS: Pairs = (
    ("access-control-allow-methods", "GET, POST, PUT, PATCH, DELETE, OPTIONS"),
    (
        "access-control-allow-headers",
        "Content-Type, Authorization, Idempotency-Key, Last-Event-ID, X-OpenCode-Directory",
    ),
    ("vary", "Origin"),
)
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
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
_LOCAL_ONLY = "without a token only local programs have access: start the server without --no-auth"
_NO_TOKEN_OR_ORIGIN = f"{_NO_TOKEN}. Or allow the origin of this page: `asyncagents serve --cors ORIGIN`"
_CROSS_ORIGIN = "cross-origin request refused; allow the origin with `asyncagents serve --cors ORIGIN`"


class Authorizer(Struct, frozen=True, kw_only=True):
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
        return f"Authorizer(is_loopback={self.is_loopback}, hosts={self.hosts}, origins={self.origins})"

    def check_host(self, request: Request) -> Response | None:
        """Refuse unknown Host headers, before anything else (DNS rebinding)."""
        given = _header_values(request, "host")
        host = _parse_host(given[0]) if len(given) == 1 else None
        if host is None or not (_is_local_host(host) or not self.is_loopback or host in self.hosts):
            return error_response(403, _NO_HOST)
        return None

    async def authorize(self, route: Route, request: Request) -> Response | None:
        """Check access to a route; return the refusal or None. Marks the peer if the token was accepted."""
        foreign = self.is_cross_origin(request)
        if foreign and route.changes:
            return error_response(403, _CROSS_ORIGIN)
        request.peer.has_token = self._has_token(request)
        if request.peer.has_token or route.access in {"open", "signature"}:
            return None
        local = not foreign and self.is_local(request)
        if local and self.token is None:
            request.peer.has_token = route.access == "token"
            return None
        if local and route.access in {"local", "counts", "user"}:
            return await self._authorize_user(route, request)
        return error_response(401, self._remedy(request, foreign=foreign), _CHALLENGE)

    async def _authorize_user(self, route: Route, request: Request) -> Response | None:
        """Refuse programs of other users; those of an unknown user may only read counts."""
        owner: UserMatch = "same" if route.access == "local" else await request.peer.match_user()
        if owner == "same" or (owner == "unknown" and route.access == "counts"):
            return None
        why = _OTHER_USER if owner == "other" else _UNKNOWN_USER
        wants = self._remedy(request, foreign=False)
        return error_response(401, why.format(wants, owner=self.owner), _CHALLENGE)

    def _remedy(self, request: Request, *, foreign: bool) -> str:
        """Say what to do about a refusal."""
        if self.token is None:
            return _CROSS_ORIGIN if foreign else _LOCAL_ONLY
        if request.header("authorization") or _query_tokens(request):
            return _OTHER_TOKEN
        return _NO_TOKEN_OR_ORIGIN if foreign else _NO_TOKEN

    def is_cross_origin(self, request: Request) -> bool:
        """Whether a browser sends the request for a page of an origin that is not allowed."""
        origins = _header_values(request, "origin")
        if not any(origins):
            return any(
                site in {"cross-site", "same-site"} for site in _header_values(request, "sec-fetch-site")
            )
        own = f"http://{request.header('host').lower()}"
        return not all(origin.lower() in (*self.origins, own) for origin in origins)

    def is_local(self, request: Request) -> bool:
        """Whether the request comes from a program of this machine, and not through a proxy. Requests routed
        from other machines (`route_localnet`) have their address."""
        host = _parse_host(request.header("host"))
        if (
            not self.is_loopback
            or host is None
            or not (_is_local_host(host) and _is_local_host(request.client))
        ):
            return False
        return not any(_is_proxy_header(name.lower().replace("_", "-")) for name, _ in request.headers)

    def cors_headers(self, request: Request) -> Pairs:
        """Return the CORS headers. Preflights get the same response for all paths, so they reveal nothing;
        the request that follows is authorized by its own origin and token."""
        origin = request.header("origin")
        status = request.path.startswith("/v1/")
        if origin.lower() in self.origins:
            return (("access-control-allow-origin", "*" if status else origin), *_ORIGIN_CORS)
        return _STATUS_CORS if status or request.method == "OPTIONS" else ()

    def _has_token(self, request: Request) -> bool:
        if self.token is None:
            return False
        proven = False
        for given in (
            _password(request.header("authorization")),
            *map(_basic_password, _query_tokens(request)),
        ):
            proven |= hmac.compare_digest(given, self.token.encode())
        return proven


def _is_proxy_header(name: str) -> bool:
    """Whether only proxies send such a header."""
    return name in _PROXY_HEADERS or name.startswith(_PROXY_HEADER_PREFIXES)


def _password(header: str) -> bytes:
    scheme, _, value = header.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip().encode("utf-8", "replace")
    return _basic_password(value) if scheme.lower() == "basic" else b""


def _basic_password(value: str) -> bytes:
    """Decode the password of base64 `user:password`; return b"" if the value is invalid."""
    try:
        return b64decode(value.strip(), validate=True).partition(b":")[2]
    except (binascii.Error, ValueError):
        return b""


def _query_tokens(request: Request) -> list[str]:
    """Return the tokens of the query; an unencoded plus was decoded as a space."""
    return [value.replace(" ", "+") for name, value in request.query if name == AUTH_TOKEN]


def _header_values(request: Request, wanted: str) -> list[str]:
    return [value for name, value in request.headers if name.lower() == wanted]


def normalize_hosts(given: tuple[str, ...]) -> tuple[str, ...]:
    """Normalize host names for comparison. Raises `ConfigError` for an invalid one."""
    found = []
    for each in given:
        name = _parse_host(f"[{each}]" if is_ipv6(each) else each)
        if name is None or not name.isascii() or not set(name).isdisjoint("/@*? "):
            raise ConfigError(f"{each[:80]!r} is not a host name: give one such as agents.example.org")
        found.append(name)
    return tuple(found)


def normalize_origins(given: tuple[str, ...]) -> tuple[str, ...]:
    """Normalize origins for comparison. Raises `ConfigError` for an invalid one or a wildcard."""
    found = []
    for each in given:
        scheme, apart, rest = each.lower().removesuffix("/").partition("://")
        host = _parse_host(rest)
        if not apart or not scheme or host is None or not set(rest).isdisjoint("/@*? #"):
            raise ConfigError(f"{each[:80]!r} is not an origin: give one such as http://localhost:3000")
        found.append(f"{scheme}://{rest.removesuffix(_DEFAULT_PORTS.get(scheme, ':'))}")
    return tuple(found)


def _parse_host(header: str) -> str | None:
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
def _is_local_host(host: str) -> bool:
    """Whether the host is a reserved local name or a loopback address: neither can be rebound by DNS."""
    return host == "localhost" or host.endswith(".localhost") or is_loopback(host)
