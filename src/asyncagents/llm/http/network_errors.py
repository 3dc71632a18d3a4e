"""Map connection failures to errors that say what to check."""

import errno
import socket
from ipaddress import ip_address
from urllib.parse import urlsplit

import aiohttp

from asyncagents.llm.http.errors import RequestTarget, connection_error, refused_connection
from asyncagents.llm.model import StreamError


def network_error(target: RequestTarget, error: BaseException, reason: str = "") -> StreamError:
    """Return the error for a failed connection; one that a loopback server refused is retried once only.

    `reason` replaces the error's own message, except for a refused connection.
    """
    if any(isinstance(each, ConnectionRefusedError) for each in _causes(error)):
        where = _origin(target.url)
        return refused_connection(target, where, local=_is_loopback(urlsplit(where).hostname or ""))
    return connection_error(target, reason or reason_of(error))


_REASONS: tuple[tuple[type[Exception], str], ...] = (
    (aiohttp.InvalidURL, "this is no address"),
    (aiohttp.ClientPayloadError, "the answer was cut off"),
    (aiohttp.ServerDisconnectedError, "it was closed without an answer"),
    (aiohttp.ClientConnectorDNSError, "no host of this name is known"),
    (aiohttp.ConnectionTimeoutError, "nothing answers there"),
)


def reason_of(error: BaseException) -> str:
    """Describe an error without its address, which may contain a key."""
    for kind, words in _REASONS:
        if isinstance(error, kind):
            return words
    match error:
        case aiohttp.ClientResponseError():
            return error.message or type(error).__name__
        case aiohttp.ClientConnectorCertificateError():
            return f"its certificate is not trusted: {_system_message(error.certificate_error)}"
        case aiohttp.ClientConnectorError():
            return _system_message(error.os_error)
        case _:
            return _system_message(error)


def _system_message(error: BaseException) -> str:
    """Return the operating system's message without the addresses that were tried."""
    if isinstance(error, socket.gaierror):
        return "no host of this name is known"
    message = error.strerror if isinstance(error, OSError) else None
    if message and not message.startswith(("Connect call failed", "Multiple exceptions")):
        return message
    number = error.errno if isinstance(error, OSError) else None
    return errno.errorcode.get(number, str(number)) if number else str(error) or type(error).__name__


def _causes(error: BaseException | None) -> list[BaseException]:
    """Return an error and all its causes; several addresses of one host may have failed."""
    found: list[BaseException] = []
    waiting = [error]
    while waiting:
        each = waiting.pop()
        if each is None or any(each is known for known in found):
            continue
        found.append(each)
        waiting += [each.__cause__, each.__context__, getattr(each, "os_error", None)]
        waiting += getattr(each, "exceptions", ())
    return found


def _origin(url: str) -> str:
    """Return scheme, host and port of a URL."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
