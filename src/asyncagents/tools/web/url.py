"""Normalise URLs to one spelling, so that rules, asks and requests use the same."""

import re
from ipaddress import IPv6Address
from urllib.parse import quote, urljoin

from msgspec import Struct

from asyncagents.errors import ToolError
from asyncagents.tools.web.host import find_literal, normalise_host, readable_host

MOST_URL = 8_000
_BLANKS = "".join(map(chr, range(0x21)))
_URL_FORM = re.compile(r"(https?)://([^/?#]*)([^?#]*)(\?[^#]*)?(#.*)?", re.IGNORECASE | re.DOTALL)
_AUTHORITY = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]*))?", re.ASCII | re.DOTALL)
_INVISIBLE = re.compile(r"[\x00-\x1f\x7f-\x9f\\\ud800-\udfff]")
"""Characters that URL parsers drop, or read as a slash."""
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})?")
_UNRESERVED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~")
_USUAL_PORT = {"http": 80, "https": 443}


class WebAddress(Struct, frozen=True):
    """A normalised URL."""

    url: str
    host: str
    """A host name or an IP address without brackets."""
    port: int

    @property
    def is_literal(self) -> bool:
        return find_literal(self.host) is not None

    @property
    def is_loopback_name(self) -> bool:
        """Whether the host name means this machine, whatever DNS says."""
        return self.host == "localhost" or self.host.endswith(".localhost")

    @property
    def needs_lookup(self) -> bool:
        return not self.is_literal and not self.is_loopback_name

    @property
    def site(self) -> str:
        """Scheme, host and port."""
        return "/".join(self.url.split("/", 3)[:3])

    @property
    def spellings(self) -> tuple[str, ...]:
        """The URL, and the URL with its host in readable form: a rule may have either."""
        readable = self.url.replace(self.host, readable_host(self.host), 1)
        return tuple(dict.fromkeys((self.url, readable)))


def parse_address(text: str) -> WebAddress:
    """Parse and normalise a URL. Raises `ToolError` if it is not valid."""
    text = text.strip(_BLANKS)
    if _INVISIBLE.search(text):
        raise ToolError(
            f"{_quote_short(text)} has a line break, a tab, a backslash or a character that cannot be seen: "
            "write such a character as %.. ."
        )
    form = _URL_FORM.fullmatch(text)
    if form is None or not form[2]:
        raise ToolError(f"{_quote_short(text)} is no web address; begin it with https:// and a host.")
    if "@" in form[2]:
        raise ToolError("An address with a user name or password is not fetched; leave out what is before @.")
    scheme = form[1].lower()
    host, port = _host_and_port(form[2], scheme)
    place = f"[{host}]" if ":" in host else host
    shown = "" if port == _USUAL_PORT[scheme] else f":{port}"
    url = f"{scheme}://{place}{shown}{_normalise_path(form[3])}{_normalise_query(form[4] or '')}"
    if len(url) > MOST_URL:
        raise ToolError(f"The address has more than {MOST_URL:,} characters; it is not fetched.")
    return WebAddress(url, host, port)


def join_address(base: WebAddress, target: str) -> WebAddress:
    """Return the URL that a page at `base` redirects to. Raises `ToolError`."""
    try:
        joined = urljoin(base.url, target)
    except ValueError as error:
        raise ToolError(
            f"{base.url} redirects to {_quote_short(target)}, which is no web address."
        ) from error
    return parse_address(joined)


def _host_and_port(place: str, scheme: str) -> tuple[str, int]:
    parts = _AUTHORITY.fullmatch(place)
    host = None if parts is None else _normalise_written_host(parts[1])
    if parts is None or host is None:
        raise ToolError(
            f"{_quote_short(place)} is no host: write a name, or an address in its usual form, "
            "such as 192.0.2.1 or [2001:db8::1]."
        )
    port = int(parts[2]) if parts[2] and len(parts[2]) <= 6 else 0 if parts[2] else _USUAL_PORT[scheme]
    if not 0 < port < 65_536:
        raise ToolError(f"{_quote_short(place)} has no port between 1 and 65535.")
    return host, port


def _normalise_written_host(written: str) -> str | None:
    if not written.startswith("["):
        return normalise_host(written)
    literal = find_literal(written[1:-1])
    if literal is None or ":" not in literal:
        return None
    old = IPv6Address(literal).ipv4_mapped  # the same host, which a rule names by its IPv4 address
    return literal if old is None else str(old)


def _normalise_path(written: str) -> str:
    """Resolve `.` and `..` segments, also escaped ones."""
    segments: list[str] = []
    *above, last = _escape_text(written, safe="/:@!$&'()*+,;=").split("/")[1:] or [""]
    for segment in above:
        _apply_segment(segments, segment)
    _apply_segment(segments, last)
    return "/" + "/".join([*segments, *([""] if last in (".", "..") else [])])


def _apply_segment(segments: list[str], segment: str) -> None:
    if segment == "..":
        del segments[-1:]
    elif segment != ".":
        segments.append(segment)


def _normalise_query(written: str) -> str:
    return "" if written in ("", "?") else _escape_text(written, safe="/?:@!$&'()*+,;=[]|")


def _escape_text(written: str, safe: str) -> str:
    """Escape only the characters that must be, and write each escape in one way."""
    pieces: list[str] = []
    end = 0
    for found in _ESCAPE.finditer(written):
        pieces += quote(written[end : found.start()], safe=safe), _normalise_escape(found[1])
        end = found.end()
    return "".join([*pieces, quote(written[end:], safe=safe)])


def _normalise_escape(digits: str | None) -> str:
    if digits is None:
        return "%25"
    letter = chr(int(digits, 16))
    return letter if letter in _UNRESERVED else f"%{digits.upper()}"


def _quote_short(text: str) -> str:
    return repr(text[:200])
