"""Signs and verifies webhooks with HMAC. Nothing here raises for any input.

Two schemes: Standard Webhooks (`webhook-id`, `webhook-timestamp`, `webhook-signature`, also by their `svix-`
names) signs `id.timestamp.body`; the plain `X-Webhook-Signature` is the hex HMAC-SHA256 of the body alone.
If any header of the first scheme is present, that scheme decides: a stale delivery cannot be saved by adding
the plain header.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from hmac import compare_digest, digest
from typing import TypeAlias

from msgspec import Struct

Headers: TypeAlias = Mapping[str, str] | Iterable[tuple[str, str]] | Iterable[tuple[bytes, bytes]]
"""Headers as received: names in any case, possibly repeated, as text or (ASGI) as bytes."""

TOLERANCE_MS = 5 * 60 * 1000
"""Max distance of a timestamp from our clock, in the past or future."""

MOST_HEADER_CHARACTERS = 4096
MOST_SIGNATURES = 16
"""Max signatures to compare per delivery; a rotation of secrets needs two."""

PLAIN_HEADER = "x-webhook-signature"
_PREFIXES = ("webhook-", "svix-")
_PARTS = ("id", "timestamp", "signature")
_SECRET_PREFIX = "whsec_"
# No dot: `id.timestamp.body` would be ambiguous. No quote, no brace: a JSON body that was signed plainly
# can never pass as the signed text of the other scheme.
_ID = re.compile(r"[A-Za-z0-9_:@/+=~-]{1,256}", re.ASCII)
_TIMESTAMP = re.compile(r"[0-9]{1,12}", re.ASCII)

_MISMATCH = "no signature matches: sign the body, byte for byte as it is sent, with the secret of this call"
_UNSIGNED = (
    "the request is not signed: send the webhook-id, webhook-timestamp and webhook-signature headers of"
    " Standard Webhooks, or X-Webhook-Signature"
)


class ValidSignature(Struct, frozen=True):
    """The sender knows a secret and signed these bytes."""


class InvalidSignature(Struct, frozen=True):
    """No valid signature. The reason depends on the headers and the clock only and may be sent to anyone."""

    reason: str


SignatureCheck: TypeAlias = ValidSignature | InvalidSignature


class UncheckedSignature(Struct, frozen=True):
    """A well-formed signature within the tolerance, not compared yet."""

    signatures: tuple[bytes, ...]
    head: bytes | None
    """The signed bytes before the body; None: a plain signature, of the body alone."""


def sign_standard(secret: str, id: str, timestamp: int, body: bytes) -> str:
    """Return the value of `webhook-signature`; `timestamp` is in seconds, as in the header."""
    digest = _standard_digest(_standard_key(secret), _signed_head(id, str(timestamp)), body)
    return f"v1,{b64encode(digest).decode()}"


def sign_plain(secret: str, body: bytes) -> str:
    """Return the value of `X-Webhook-Signature`: hex, keyed with the secret's text, `whsec_` included."""
    return digest(_bytes(secret), body, "sha256").hex()


def verify_signature(headers: Headers, body: bytes, secrets: Iterable[str], now_ms: int) -> SignatureCheck:
    """Check that one of the secrets signed these bytes, in time. Without a secret nothing is valid."""
    claim = read_signature(headers, now_ms)
    return claim if isinstance(claim, InvalidSignature) else check_signature(claim, body, secrets)


def read_signature(headers: Headers, now_ms: int) -> UncheckedSignature | InvalidSignature:
    """Check everything that needs no secret, so that it can run before the secret is looked up."""
    found = _signature_headers(headers)
    for prefix in _PREFIXES:
        if any(f"{prefix}{part}" in found for part in _PARTS):
            return _read_standard({part: found.get(f"{prefix}{part}", []) for part in _PARTS}, now_ms)
    return _read_plain(found[PLAIN_HEADER]) if PLAIN_HEADER in found else InvalidSignature(_UNSIGNED)


def check_signature(signature: UncheckedSignature, body: bytes, secrets: Iterable[str]) -> SignatureCheck:
    """Compare every signature with every secret, without an early exit, so that timing reveals nothing."""
    genuine = False
    for expected in _expected_signatures(signature, body, secrets):
        for given in signature.signatures:
            genuine |= compare_digest(expected, given)
    return ValidSignature() if genuine else InvalidSignature(_MISMATCH)


def _expected_signatures(signature: UncheckedSignature, body: bytes, secrets: Iterable[str]) -> list[bytes]:
    # A blank secret, from a setting that was not filled in, would be known to anyone.
    known = [secret for secret in dict.fromkeys(secrets) if secret.removeprefix(_SECRET_PREFIX).strip()]
    if signature.head is not None:
        return [b64encode(_standard_digest(_standard_key(secret), signature.head, body)) for secret in known]
    # Recipes for the plain header differ in whether they decode the key; both prove the secret.
    keys = [key for secret in known for key in dict.fromkeys((_bytes(secret), _standard_key(secret)))]
    return [digest(key, body, "sha256").hex().encode() for key in keys]


def _signature_headers(headers: Headers) -> dict[str, list[str]]:
    wanted = {PLAIN_HEADER, *(f"{prefix}{part}" for prefix in _PREFIXES for part in _PARTS)}
    found: dict[str, list[str]] = {}
    for name, value in _pairs(headers):
        if (lowered := _text(name).strip().lower()) in wanted:
            found.setdefault(lowered, []).append(_text(value).strip())
    return found


def _pairs(headers: Headers) -> Iterable[tuple[str | bytes, str | bytes]]:
    if isinstance(headers, Mapping):
        return headers.items()
    # Headers of some frameworks are not a `Mapping`; those that are not pairs have `items`.
    items: Callable[[], Iterable[tuple[str, str]]] | None = getattr(headers, "items", None)
    return headers if items is None else items()


def _text(raw: str | bytes) -> str:
    return raw if isinstance(raw, str) else raw.decode("latin-1")


def _read_standard(found: dict[str, list[str]], now_ms: int) -> UncheckedSignature | InvalidSignature:
    message_id, timestamp = _single_value(found["id"]), _single_value(found["timestamp"])
    if message_id is None or not _ID.fullmatch(message_id):
        return InvalidSignature(
            "webhook-id is missing, ambiguous or invalid: use letters, digits and _ : @ / + = ~ - only"
        )
    if timestamp is None or not _TIMESTAMP.fullmatch(timestamp):
        return InvalidSignature(
            "webhook-timestamp is missing, ambiguous or not a number of seconds since 1970"
        )
    if abs(now_ms - int(timestamp) * 1000) > TOLERANCE_MS:
        return InvalidSignature(
            "webhook-timestamp is more than five minutes off: sign each attempt anew, check the clock"
        )
    listed = _split_values(found["signature"])
    if listed is None:
        return InvalidSignature(_too_many("webhook-signature"))
    # A proxy joins repeated headers with a comma and a space. Other versions (v1a) are ignored.
    given = (word.removesuffix(",").partition(",") for word in listed)
    signatures = tuple(_bytes(value) for version, _, value in given if version == "v1" and value)
    if not signatures:
        return InvalidSignature(
            "webhook-signature has no signature of version v1: write v1, a comma and base64"
        )
    return UncheckedSignature(signatures, _signed_head(message_id, timestamp))


def _read_plain(values: list[str]) -> UncheckedSignature | InvalidSignature:
    listed = _split_values(values)
    if listed is None:
        return InvalidSignature(_too_many("X-Webhook-Signature"))
    given = (_bytes(word).removesuffix(b",").lower().removeprefix(b"sha256=") for word in listed)
    signatures = tuple(word for word in given if word)
    if not signatures:
        return InvalidSignature("X-Webhook-Signature is empty: write the hex HMAC-SHA256 of the body")
    return UncheckedSignature(signatures, None)


def _single_value(values: list[str]) -> str | None:
    """Return the one value, possibly repeated; None if there is none or values differ."""
    return values[0] if len(set(values)) == 1 else None


def _split_values(values: list[str]) -> list[str] | None:
    """Split header values into words; None if they exceed the limits."""
    if sum(map(len, values)) > MOST_HEADER_CHARACTERS:
        return None
    words = [word for value in values for word in value.split()]
    return words if len(words) <= MOST_SIGNATURES else None


def _too_many(name: str) -> str:
    return f"{name} is too long: at most {MOST_SIGNATURES} signatures, {MOST_HEADER_CHARACTERS} characters"


def _signed_head(id: str, timestamp: str) -> bytes:
    return _bytes(f"{id}.{timestamp}.")


def _standard_digest(key: bytes, head: bytes, body: bytes) -> bytes:
    return digest(key, head + body, "sha256")


def _standard_key(secret: str) -> bytes:
    """Return the key of a secret: the decoded bytes of `whsec_` and base64, else its text."""
    if not secret.startswith(_SECRET_PREFIX):
        return _bytes(secret)
    encoded = secret.removeprefix(_SECRET_PREFIX).rstrip("=")
    try:
        return b64decode(_bytes(encoded + "=" * (-len(encoded) % 4)), validate=True) or _bytes(secret)
    except ValueError:
        return _bytes(secret)


def _bytes(text: str) -> bytes:
    """Encode a text that may hold unpaired surrogates, without raising."""
    return text.encode("utf-8", "surrogatepass")
