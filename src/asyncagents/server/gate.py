"""Who is let in: the name it was reached by, where a browser's page comes from, and the token."""

import binascii
import hmac
from base64 import b64decode
from ipaddress import ip_address

from msgspec import Struct

from asyncagents.server.http import Answer, Pairs, Request, refused
from asyncagents.server.route import Route

_LOOPBACK_NAMES = ("localhost", "localhost.", "ip6-localhost")
_FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")
_STATUS_CORS: Pairs = (
    ("access-control-allow-origin", "*"),
    ("access-control-allow-methods", "GET, OPTIONS"),
    ("access-control-allow-headers", "Content-Type, Authorization"),
)
_ALL_METHODS = "GET, POST, PATCH, DELETE, OPTIONS"
_CHALLENGE: Pairs = (("www-authenticate", 'Bearer realm="asyncagents"'),)
_NO_HOST = "this server is not reached by that name; `asyncagents serve --allow-host NAME` lets one in"
_NO_TOKEN = "a token is wanted: `authorization: Bearer …`; it is in server.json of the data directory"
_FOREIGN = "a page of another origin may not do this; `asyncagents serve --cors ORIGIN` lets one"


class Gate(Struct, frozen=True, kw_only=True):
    """`token` None: nobody needs one (`--no-auth`). `is_loopback`: nobody reaches it from another machine."""

    token: str | None
    is_loopback: bool
    hosts: tuple[str, ...] = ()
    """Names, besides those of this machine, by which it is reached: through a tunnel, say."""
    origins: tuple[str, ...] = ()
    """Pages of these may do what a local program may."""

    def reached(self, request: Request) -> Answer | None:
        """First of all: a name that somebody else's name server let point here is refused (DNS rebinding)."""
        given = [value for name, value in request.headers if name.lower() == "host"]
        host = _host(given[0]) if len(given) == 1 else None
        if host is None or not (_is_loopback(host) or not self.is_loopback or host in self.hosts):
            return refused(403, _NO_HOST)
        return None

    def admitted(self, route: Route, request: Request) -> Answer | None:
        """A refusal, if this is not for whoever asks."""
        if route.access in {"open", "signature"}:
            return None
        foreign = self.is_foreign(request)
        if foreign and route.changes:
            return refused(403, _FOREIGN)
        proven = self._proves(request)
        if proven or (route.access == "local" and not foreign and self.is_local(request)):
            return None
        if self.token is None and not foreign and self.is_local(request):
            return None
        return refused(401, _NO_TOKEN, _CHALLENGE)

    def is_foreign(self, request: Request) -> bool:
        """Whether a browser sends it for a page that is not of this server."""
        origin = request.header("origin")
        if not origin:
            return request.header("sec-fetch-site") in {"cross-site", "same-site"}
        return origin not in self.origins and origin.lower() != f"http://{request.header('host').lower()}"

    def is_local(self, request: Request) -> bool:
        """Whether it comes from a program of this machine, not through something that hands on."""
        host = _host(request.header("host"))
        handed_on = any(request.header(name) for name in _FORWARDED)
        return self.is_loopback and host is not None and _is_loopback(host) and not handed_on

    def cors(self, request: Request) -> Pairs:
        """What browsers are told."""
        if request.path.startswith("/v1/"):
            return _STATUS_CORS
        origin = request.header("origin")
        if origin not in self.origins:
            return ()
        return (
            ("access-control-allow-origin", origin),
            ("access-control-allow-methods", _ALL_METHODS),
            ("access-control-allow-headers", "Content-Type, Authorization"),
            ("vary", "Origin"),
        )

    def _proves(self, request: Request) -> bool:
        given = _password(request.header("authorization"))
        return self.token is not None and hmac.compare_digest(given, self.token.encode())


def _password(header: str) -> bytes:
    scheme, _, value = header.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip().encode("utf-8", "replace")
    if scheme.lower() != "basic":
        return b""
    try:
        return b64decode(value.strip(), validate=True).partition(b":")[2]
    except (binascii.Error, ValueError):
        return b""


def _host(header: str) -> str | None:
    """Without its port; None: that is no host."""
    name, port = header.lower(), ""
    if header.startswith("["):
        name, closed, rest = name[1:].partition("]")
        if not closed or (rest and not rest.startswith(":")):
            return None
        port = rest[1:]
    elif ":" in name:
        name, _, port = name.partition(":")
    return name if name and (not port or (port.isascii() and port.isdecimal())) else None


def _is_loopback(host: str) -> bool:
    if host in _LOOPBACK_NAMES or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
