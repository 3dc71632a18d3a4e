"""Finds the server that runs a command's session: the one of --attach, or of the data directory."""

from ipaddress import ip_address
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from msgspec import Struct

from asyncagents.cli.exit import USAGE, CliError
from asyncagents.config.env import system_environment
from asyncagents.config.secret import Secret
from asyncagents.server.discovery import Listing, find_server, find_worker

TOKEN_VARIABLE = "ASYNCAGENTS_TOKEN"
PORTS = {"http": 80, "https": 443}


class TargetServer(Struct, frozen=True):
    """A server; `own`: it runs on this data directory, and so on this machine."""

    url: str
    token: Secret | None
    own: bool


def find_target_server(data: Path, attach: str | None, token: Secret | None) -> TargetServer | None:
    """Return the server, None to run in this process. Raises `CliError` if --attach is invalid."""
    if attach is None:
        worker = find_worker(data)
        return None if worker is None else own_server(worker)
    asked = _parse_address(attach)
    listing = find_server(data)
    own = listing is not None and _is_same_server(asked, urlsplit(listing.url))
    if own and listing is not None and not listing.serves_all:
        raise CliError(
            f"the server at {attach} belongs to a run, and runs no other sessions",
            hint="leave out --attach to run in this process",
            code=USAGE,
        )
    given = token or _secret(system_environment().get(TOKEN_VARIABLE).strip())
    if given is None and own and listing is not None:
        given = _secret(listing.token)
    return TargetServer(f"{asked.scheme}://{asked.netloc}{asked.path}", _check_token(given), own)


def own_server(listing: Listing) -> TargetServer:
    """Return the server that a listing of the data directory names."""
    return TargetServer(listing.url, _secret(listing.token), own=True)


def _secret(token: str | None) -> Secret | None:
    return Secret(token) if token else None


def _check_token(token: Secret | None) -> Secret | None:
    text = token.reveal() if token is not None else ""
    if text.isascii() and text.isprintable():
        return token
    raise CliError("the token must be printable ASCII without line breaks", code=USAGE)


def _parse_address(text: str) -> SplitResult:
    try:
        found = urlsplit(text.strip().rstrip("/"))
        extra = found.username is not None or found.query or found.fragment
        if found.hostname and found.scheme in PORTS and found.port != 0 and not extra:
            return found
    except ValueError:
        pass
    shown = text.rpartition("@")[2][:80]
    raise CliError(
        f"{shown!r} is not a valid server address",
        hint="use the form that `asyncagents serve` prints, such as http://127.0.0.1:5165",
        code=USAGE,
    )


def _is_same_server(one: SplitResult, other: SplitResult) -> bool:
    """Return whether two addresses are the same server; all loopback names are equal."""
    ports = [each.port or PORTS[each.scheme] for each in (one, other)]
    return ports[0] == ports[1] and (one.hostname == other.hostname or (_is_local(one) and _is_local(other)))


def _is_local(address: SplitResult) -> bool:
    host = address.hostname or ""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
