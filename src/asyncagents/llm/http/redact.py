"""Redact an endpoint's secrets from texts: its key, its headers, and the credentials in its URL."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from asyncagents.config.secret import Secret

SHORTEST_SECRET = 8
"""Shorter words of a header or URL are not treated as secrets: redacting them would garble messages."""
STARS = "***"
SHORTEST_PREFIX = 4
"""The shortest prefix of a secret that is redacted at the end of a truncated body."""

_WORD = re.compile(rf"[^\s,;=\"']{{{SHORTEST_SECRET},}}")


@lru_cache(maxsize=64)
def secrets_of(api_key: Secret | None, headers: tuple[str, ...], url: str) -> tuple[Secret, ...]:
    """Collect the secrets of an endpoint, the longest first, so that none is redacted only in part.

    Each word of a header is a secret too: providers echo a key without its `Bearer`.
    """
    found = {value for value in headers if len(value) >= SHORTEST_SECRET}
    found |= {word for value in headers for word in _WORD.findall(value)}
    found |= {value for value in _url_secrets(url) if len(value) >= SHORTEST_SECRET}
    if api_key is not None:
        found.add(api_key.reveal().strip())
    return tuple(Secret(value) for value in sorted(found - {""}, key=lambda value: (-len(value), value)))


@lru_cache(maxsize=64)
def redact_url(url: str) -> str:
    """Return the URL without user, password and query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "an address that cannot be read"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def redact_text(text: str, secrets: Sequence[Secret]) -> str:
    for secret in secrets:
        if secret.reveal():
            text = text.replace(secret.reveal(), STARS)
    return text


def redact_body(body: bytes, secrets: Sequence[Secret]) -> bytes:
    """Replace secrets in a raw body, also JSON-escaped ones and a secret cut off at the end."""
    stars = STARS.encode()
    for text in filter(None, (secret.reveal() for secret in secrets)):
        body = body.replace(_bytes(text), stars)
        if b"\\" in body:
            body = _escaped_pattern(text).sub(stars, body)
    halves = (_secret_prefix_length(body, _bytes(secret.reveal())) for secret in secrets)
    cut = max(halves, default=0)
    return body[:-cut] + stars if cut else body


def longest_secret(secrets: Sequence[Secret]) -> int:
    return max((len(_bytes(secret.reveal())) for secret in secrets), default=0)


def _secret_prefix_length(body: bytes, secret: bytes) -> int:
    """Return the length of the secret's prefix at the end of the body."""
    sizes = range(min(len(secret) - 1, len(body)), SHORTEST_PREFIX - 1, -1)
    return next((size for size in sizes if body.endswith(secret[:size])), 0)


def _escaped_pattern(secret: str) -> re.Pattern[bytes]:
    """Match the secret inside JSON, with any of its characters escaped in any way."""
    return re.compile(b"".join(b"(?:" + b"|".join(_encodings(character)) + b")" for character in secret))


def _encodings(character: str) -> Iterator[bytes]:
    units = character.encode("utf-16-be", "replace").hex()
    yield b"".join(rb"\\u(?i:%b)" % units[n : n + 4].encode() for n in range(0, len(units), 4))
    if character in '"\\/':
        yield rb"\\" + re.escape(character.encode())
    yield re.escape(_bytes(character))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _url_secrets(url: str) -> Iterator[str]:
    """Yield the user, password and query values of a URL, raw and percent-decoded, except an API version."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return
    secret = [value for name, value in parse_qsl(parts.query) if not name.lower().endswith("version")]
    owner = parts.netloc.rpartition("@")[0]
    for value in (*secret, *owner.split(":")):
        yield from (value, quote(value, safe=""), unquote(value))
