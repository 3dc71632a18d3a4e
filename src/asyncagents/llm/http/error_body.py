"""Parse the body of an error response, in the shapes of all known servers."""

import re
from typing import Any

import msgspec
from msgspec import Struct

from asyncagents.llm.wire.json_repair import DECODE_ERRORS

MESSAGE_KEPT = 500

# A masked key as providers echo it: its ends with stars between.
_MASKED = re.compile(r"\S*\*{2,}\S*")


class ErrorDetails(Struct, frozen=True, kw_only=True):
    message: str = ""
    codes: frozenset[str] = frozenset()
    status: int | None = None


def read_error(body: bytes) -> ErrorDetails:
    try:
        value = msgspec.json.decode(body)
    except DECODE_ERRORS:
        return ErrorDetails(message=_tidy(plain_text(body)))
    return _read_value(value)


def is_error(body: bytes) -> bool:
    """Return whether the body of a success status is an error object."""
    try:
        value = msgspec.json.decode(body)
    except DECODE_ERRORS:
        return False
    match value:
        case {"error": dict() | str()} | {"object": "error"} | {"type": "error"}:
            return True
        case _:
            return False


def plain_text(body: bytes) -> str:
    """Return the title of an HTML page, or the text on one line."""
    text = body.decode("utf-8", "replace")
    before, title, rest = text.partition("<title>")
    if title and before.lstrip().startswith("<"):
        text = rest.partition("</title>")[0]
    return " ".join(text.split())


def _read_value(value: Any) -> ErrorDetails:
    match value:
        case [first, *_]:  # Google's
            return _read_value(first)
        case {"error": dict(inner)}:  # OpenAI's, Anthropic's, OpenRouter's
            return _with_upstream(_read_object(inner), inner)
        case {"error": str(text)}:  # Ollama's
            return ErrorDetails(message=_tidy(text), codes=_read_object(value).codes)
        case dict():  # vLLM's, FastAPI's, Mistral's
            return _read_object(value)
        case str(text):
            return ErrorDetails(message=_tidy(text))
        case _:
            return ErrorDetails()


def _read_object(error: dict[str, Any]) -> ErrorDetails:
    inner = error.get("innererror")
    named = [error.get("type"), error.get("code"), error.get("status")]
    named.append(inner.get("code") if isinstance(inner, dict) else None)
    code = error.get("code")
    message = next((error[name] for name in ("message", "detail", "msg", "error_msg") if error.get(name)), "")
    return ErrorDetails(
        message=_tidy(message if isinstance(message, str) else _json(message)),
        codes=frozenset(name.lower() for name in named if isinstance(name, str)),
        status=code if isinstance(code, int) and 400 <= code <= 599 else None,
    )


def _with_upstream(details: ErrorDetails, error: dict[str, Any]) -> ErrorDetails:
    """Add the upstream provider's error that OpenRouter nests in `metadata.raw`."""
    match error.get("metadata"):
        case {"raw": str(raw)} if raw:
            origin = read_error(raw.encode("utf-8", "replace"))
            return ErrorDetails(
                message=_tidy(f"{details.message}: {origin.message}"),
                codes=details.codes | origin.codes,
                status=details.status,
            )
        case _:
            return details


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _tidy(text: str) -> str:
    return _MASKED.sub("***", " ".join(text[: 4 * MESSAGE_KEPT].split())[:MESSAGE_KEPT])
