"""What nobody may see of an endpoint: its key, its headers, and what stands in its address."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from asyncagents.config.secret import Secret

SHORTEST = 8
"""A word of a header or an address that is shorter is no key, and hiding it would spoil messages."""
STARS = "***"
HALF = 4
"""So much of a secret, at the end of a body that was cut, is known as one."""

_WORD = re.compile(rf"[^\s,;=\"']{{{SHORTEST},}}")


@lru_cache(maxsize=64)
def hidden(api_key: Secret | None, headers: tuple[str, ...], url: str) -> tuple[Secret, ...]:
    """The longest first, so that none is found in part inside another.

    Of a header also each word by itself: providers show a key without the `Bearer` that stood before it.
    """
    found = {value for value in headers if len(value) >= SHORTEST}
    found |= {word for value in headers for word in _WORD.findall(value)}
    found |= {value for value in _of_address(url) if len(value) >= SHORTEST}
    if api_key is not None:
        found.add(api_key.reveal().strip())
    return tuple(Secret(value) for value in sorted(found - {""}, key=lambda value: (-len(value), value)))


@lru_cache(maxsize=64)
def shown(url: str) -> str:
    """The address as people may see it: without user, password and query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "an address that cannot be read"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def clean_text(text: str, secrets: Sequence[Secret]) -> str:
    for secret in secrets:
        if secret.reveal():
            text = text.replace(secret.reveal(), STARS)
    return text


def clean_body(body: bytes, secrets: Sequence[Secret]) -> bytes:
    """As it came, JSON or not; a secret of which only the beginning came is hidden too."""
    stars = STARS.encode()
    for text in filter(None, (secret.reveal() for secret in secrets)):
        body = body.replace(_bytes(text), stars)
        if b"\\" in body:
            body = _escaped(text).sub(stars, body)
    halves = (_half(body, _bytes(secret.reveal())) for secret in secrets)
    cut = max(halves, default=0)
    return body[:-cut] + stars if cut else body


def longest(secrets: Sequence[Secret]) -> int:
    return max((len(_bytes(secret.reveal())) for secret in secrets), default=0)


def _half(body: bytes, secret: bytes) -> int:
    """How much of the secret stands at the end of the body."""
    sizes = range(min(len(secret) - 1, len(body)), HALF - 1, -1)
    return next((size for size in sizes if body.endswith(secret[:size])), 0)


def _escaped(secret: str) -> re.Pattern[bytes]:
    """The secret inside JSON, any of its characters escaped in any of the ways there are."""
    return re.compile(b"".join(b"(?:" + b"|".join(_ways(character)) + b")" for character in secret))


def _ways(character: str) -> Iterator[bytes]:
    units = character.encode("utf-16-be", "replace").hex()
    yield b"".join(rb"\\u(?i:%b)" % units[n : n + 4].encode() for n in range(0, len(units), 4))
    if character in '"\\/':
        yield rb"\\" + re.escape(character.encode())
    yield re.escape(_bytes(character))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _of_address(url: str) -> Iterator[str]:
    """Each both as it is written there and as it is meant; the version of an API is no secret."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return
    secret = [value for name, value in parse_qsl(parts.query) if not name.lower().endswith("version")]
    owner = parts.netloc.rpartition("@")[0]
    for value in (*secret, *owner.split(":")):
        yield from (value, quote(value, safe=""), unquote(value))
