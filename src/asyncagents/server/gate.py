"""Who is let in: the name it was reached by, where a browser's page comes from, and the token."""

import binascii
import hmac
from base64 import b64decode
from functools import lru_cache

from msgspec import Struct

from asyncagents.errors import ConfigError
from asyncagents.server.address import is_ipv6, is_loopback
from asyncagents.server.http import Answer, Pairs, Request, refused
from asyncagents.server.peer import Owner
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
"""What names of other such headers begin with."""
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
"""Browsers leave them out."""
_CHALLENGE: Pairs = (
    ("www-authenticate", 'Basic realm="asyncagents"'),
    ("www-authenticate", 'Bearer realm="asyncagents"'),
)
AUTH_TOKEN = "auth_token"
"""In a query, what stands after `Basic`: a browser's EventSource sends no headers."""
_NO_HOST = "this server is not reached by that name; `asyncagents serve --allow-host NAME` lets one in"
_NO_TOKEN = "a token is wanted: `authorization: Bearer …`; it is in server.json of the data directory"
_OTHER_TOKEN = "this is not the token of this server; that is in server.json of the data directory"
_OTHER_USER = "this server is of the user {owner}, and the program that asks is of another one; {}"
_UNKNOWN_USER = "this server is of the user {owner}, and the system does not tell whose program asks; {}"
_NO_PROOF = "only programs of this machine may come while the server has no token: start it without --no-auth"
_NO_PAGE = f"{_NO_TOKEN}. Or let pages of this origin in: `asyncagents serve --cors ORIGIN`"
_FOREIGN = "a page of another origin may not do this; `asyncagents serve --cors ORIGIN` lets one"


class Gate(Struct, frozen=True, kw_only=True):
    """`token` None: nobody needs one (`--no-auth`). `is_loopback`: nobody reaches it from another machine."""

    token: str | None
    is_loopback: bool
    hosts: tuple[str, ...] = ()
    """Names, besides those of this machine, by which it is reached: through a tunnel, say."""
    origins: tuple[str, ...] = ()
    """Pages of these may do what a local program may."""
    owner: str = ""
    """The user whose server it is, for people."""

    def __repr__(self) -> str:
        return f"Gate(is_loopback={self.is_loopback}, hosts={self.hosts}, origins={self.origins})"

    def reached(self, request: Request) -> Answer | None:
        """First of all: a name that somebody else's name server let point here is refused (DNS rebinding)."""
        given = _all(request, "host")
        host = _host(given[0]) if len(given) == 1 else None
        if host is None or not (_is_here(host) or not self.is_loopback or host in self.hosts):
            return refused(403, _NO_HOST)
        return None

    async def admit(self, route: Route, request: Request) -> Answer | None:
        """Refuse what is not for the program that asks. What is let in by the token is marked so."""
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
        """Refuse programs of other users. A program whose user is not known reads counts, no conversation."""
        owner: Owner = "same" if route.access == "local" else await request.peer.find_owner()
        if owner == "same" or (owner == "unknown" and route.access == "counts"):
            return None
        why = _OTHER_USER if owner == "other" else _UNKNOWN_USER
        wants = self._wants(request, foreign=False)
        return refused(401, why.format(wants, owner=self.owner), _CHALLENGE)

    def _wants(self, request: Request, *, foreign: bool) -> str:
        """What to do about a refusal, for whoever is refused."""
        if self.token is None:
            return _FOREIGN if foreign else _NO_PROOF
        if request.header("authorization") or _asked(request):
            return _OTHER_TOKEN
        return _NO_PAGE if foreign else _NO_TOKEN

    def is_foreign(self, request: Request) -> bool:
        """Whether a browser sends it for a page that is not of this server."""
        origins = _all(request, "origin")
        if not any(origins):
            return any(site in {"cross-site", "same-site"} for site in _all(request, "sec-fetch-site"))
        own = f"http://{request.header('host').lower()}"
        return not all(origin.lower() in (*self.origins, own) for origin in origins)

    def is_local(self, request: Request) -> bool:
        """Whether it comes from a program of this machine, not through something that hands on. What is
        routed here from other machines (`route_localnet`) has their address."""
        host = _host(request.header("host"))
        if not self.is_loopback or host is None or not (_is_here(host) and _is_here(request.client)):
            return False
        return not any(_is_of_proxy(name.lower().replace("_", "-")) for name, _ in request.headers)

    def cors(self, request: Request) -> Pairs:
        """Say what browsers are told. A preflight is answered alike for all paths, so it reveals nothing;
        the request that follows it is admitted, or not, by its own origin and token."""
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
    """Whether only something that hands requests on sends such a header."""
    return name in _FORWARDED or name.startswith(_FORWARDED_KIN)


def _password(header: str) -> bytes:
    scheme, _, value = header.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip().encode("utf-8", "replace")
    return _decoded(value) if scheme.lower() == "basic" else b""


def _decoded(value: str) -> bytes:
    """The password of `user:password` in base64; nothing, if it is no such thing."""
    try:
        return b64decode(value.strip(), validate=True).partition(b":")[2]
    except (binascii.Error, ValueError):
        return b""


def _asked(request: Request) -> list[str]:
    """A plus that was not encoded has become a space."""
    return [value.replace(" ", "+") for name, value in request.query if name == AUTH_TOKEN]


def _all(request: Request, wanted: str) -> list[str]:
    return [value for name, value in request.headers if name.lower() == wanted]


def names(given: tuple[str, ...]) -> tuple[str, ...]:
    """Of other hosts, as they are compared. Raises `ConfigError` for one that no request has."""
    found = []
    for each in given:
        name = _host(f"[{each}]" if is_ipv6(each) else each)
        if name is None or not name.isascii() or not set(name).isdisjoint("/@*? "):
            raise ConfigError(f"{each[:80]!r} is no name of a host: give one such as agents.example.org")
        found.append(name)
    return tuple(found)


def pages(given: tuple[str, ...]) -> tuple[str, ...]:
    """Origins, as they are compared. Raises `ConfigError` for one that no page has, or that any page has."""
    found = []
    for each in given:
        scheme, apart, rest = each.lower().removesuffix("/").partition("://")
        host = _host(rest)
        if not apart or not scheme or host is None or not set(rest).isdisjoint("/@*? #"):
            raise ConfigError(f"{each[:80]!r} is no origin of a page: give one such as http://localhost:3000")
        found.append(f"{scheme}://{rest.removesuffix(_PORTS.get(scheme, ':'))}")
    return tuple(found)


def _host(header: str) -> str | None:
    """Without its port, nor the dot that may end it; None: that is no host."""
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
    """Nobody else is given these names; an address is no name, and nothing that points elsewhere later."""
    return host == "localhost" or host.endswith(".localhost") or is_loopback(host)
