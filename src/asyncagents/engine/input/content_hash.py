"""Hash what a caller sends under a key, to tell a repeat from a different request.

The hash covers only what the caller sent: no ids, no time, nothing that was looked up.
"""

from hashlib import sha256
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from asyncagents.domain.fact import Admit
from asyncagents.engine.input.message import PromptOptions, model_ref
from asyncagents.engine.input.output_schema import parse_format

T = TypeVar("T")
_IGNORED_KEYS = frozenset({"id", "sessionID", "messageID"})


def content_hash(**given: Any) -> str | None:
    """Return the hash; None if the values have no JSON form (the request is refused later)."""
    try:
        plain = msgspec.to_builtins({name: value for name, value in given.items() if value}, enc_hook=str)
        return sha256(msgspec.json.encode(plain, order="sorted")).hexdigest()
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return None


def with_hash(fact: Admit, key: str | None, options: PromptOptions, **content: Any) -> Admit:
    """Add the hash of the request to input, if the caller sent a key or a message id."""
    if key is None and options.get("message_id") is None:
        return fact
    return replace(fact, hash=content_hash(to=_plain_options(options), **content))


def _plain_options(options: PromptOptions) -> dict[str, Any]:
    """Normalise options: a model by its name or its reference is the same model."""
    model = model_ref(options.get("model"))
    parts = msgspec.to_builtins(tuple(options.get("parts") or ()))
    return {
        "agent": options.get("agent"),
        "model": None if model is None else [model.provider_id, model.model_id],
        "variant": options.get("variant") or (model.variant if model is not None else None),
        "files": [_plain_file(each) for each in options.get("files") or ()],
        "parts": [_without_ids(each) for each in parts],
        "format": parse_format(options.get("format")),
        "system": options.get("system"),
        "tools": dict(options.get("tools") or {}),
    }


def _plain_file(file: object) -> Any:
    return msgspec.to_builtins(file) if isinstance(file, msgspec.Struct) else str(file)


def _without_ids(part: Any) -> Any:
    if not isinstance(part, dict):
        return part
    return {name: value for name, value in part.items() if name not in _IGNORED_KEYS}
