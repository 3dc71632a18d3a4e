"""Encode a reply as Anthropic's Messages API sends it."""

from typing import Any

import msgspec

from asyncagents.testing.provider_reply import (
    LOCAL,
    Reply,
    Stamp,
    TokenUsage,
    ToolUse,
    join_writes,
    split_text,
)

REQUEST_ID = "request-id"
INPUT_PIECES = 3
MODEL_DATE = "2023-11-14T22:13:20Z"

STOP_REASON = {
    "stop": "end_turn",
    "tool-calls": "tool_use",
    "length": "max_tokens",
    "content-filter": "refusal",
    "unknown": "unlisted",
}

ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
IN_STREAM = "overloaded_error"

_encode = msgspec.json.encode


def _event(kind: str, **rest: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), _encode({"type": kind, **rest}))


PING = _event("ping")


def anthropic_bytes(reply: Reply, stamp: Stamp = LOCAL) -> list[bytes]:
    """Return the body of a streamed answer in writes of whole events; `gap` separates two writes."""
    message = _message(stamp, [], None)
    if reply.usage is not None:
        message["usage"] = _usage(reply.usage, output=1)
    writes: list[bytes] = []
    number = 0
    if reply.reasoning:
        writes += _thinking(number, reply)
        number += 1
    if reply.text:
        writes += _text(number, reply)
        number += 1
    writes += [b"".join(_tool(number + at, at, tool, stamp)) for at, tool in enumerate(reply.tools)]
    head = _event("message_start", message=message) + PING
    return join_writes(head, writes, _tail(reply, stamp), reply.garbage)


def anthropic_json(reply: Reply, stamp: Stamp = LOCAL) -> bytes:
    """Return the body of an answer that is not streamed."""
    content: list[dict[str, Any]] = []
    if reply.reasoning:
        content.append({"type": "thinking", "thinking": reply.reasoning, "signature": reply.signature})
    if reply.text:
        content.append({"type": "text", "text": reply.text})
    content += [{**_tool_use(at, tool, stamp), "input": tool.args} for at, tool in enumerate(reply.tools)]
    message = _message(stamp, content, _stop_reason(reply))
    if reply.usage is not None:
        message["usage"] = _usage(reply.usage)
    return _encode(message)


def anthropic_error(reply: Reply, stamp: Stamp = LOCAL) -> bytes:
    """Return the body of an answer with an error status."""
    return _encode({"type": "error", "error": _error(reply), "request_id": f"req_{stamp.id}"})


def anthropic_models(names: tuple[str, ...]) -> bytes:
    listed = [
        {"type": "model", "id": name, "display_name": name, "created_at": MODEL_DATE, "lifecycle": "active"}
        for name in names
    ]
    return _encode({"data": listed, "has_more": False, "first_id": names[0], "last_id": names[-1]})


def _error(reply: Reply) -> dict[str, str]:
    kind = IN_STREAM if reply.status == 200 else ERRORS.get(reply.status, "api_error")
    return {"type": reply.error_type or kind, "message": reply.error}


def _message(stamp: Stamp, content: list[dict[str, Any]], stop_reason: str | None) -> dict[str, Any]:
    return {
        "id": f"msg_{stamp.id}",
        "type": "message",
        "role": "assistant",
        "model": stamp.model,
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": None,
    }


def _thinking(number: int, reply: Reply) -> list[bytes]:
    deltas = [
        {"type": "thinking_delta", "thinking": piece} for piece in split_text(reply.reasoning, reply.chunks)
    ]
    signed = {"type": "signature_delta", "signature": reply.signature}
    end = _delta(number, signed) if reply.signature else b""
    return _block(number, {"type": "thinking", "thinking": "", "signature": ""}, deltas, end)


def _text(number: int, reply: Reply) -> list[bytes]:
    deltas = [{"type": "text_delta", "text": piece} for piece in split_text(reply.text, reply.chunks)]
    return _block(number, {"type": "text", "text": ""}, deltas)


def _tool(number: int, at: int, tool: ToolUse, stamp: Stamp) -> list[bytes]:
    """Encode a call: the input in pieces, or one empty piece without arguments."""
    written = tool.raw if tool.raw is not None else (_encode(tool.args).decode() if tool.args else "")
    parts = ["", *(part for part in split_text(written, INPUT_PIECES) if part)]
    deltas = [{"type": "input_json_delta", "partial_json": part} for part in parts]
    return _block(number, {**_tool_use(at, tool, stamp), "input": {}}, deltas)


def _tool_use(at: int, tool: ToolUse, stamp: Stamp) -> dict[str, Any]:
    return {"type": "tool_use", "id": tool.id or f"toolu_{stamp.id}_{at}", "name": tool.name}


def _block(
    number: int, opening: dict[str, Any], deltas: list[dict[str, str]], end: bytes = b""
) -> list[bytes]:
    """Encode a block as one write per delta; the start joins the first one, the stop the last one."""
    writes = [_delta(number, delta) for delta in deltas]
    writes[0] = _event("content_block_start", index=number, content_block=opening) + writes[0]
    writes[-1] += end + _event("content_block_stop", index=number)
    return writes


def _delta(number: int, delta: dict[str, str]) -> bytes:
    return _event("content_block_delta", index=number, delta=delta)


def _tail(reply: Reply, stamp: Stamp) -> bytes:
    if reply.error_in_stream or reply.ending == "error":
        return _event("error", error=_error(reply), request_id=f"req_{stamp.id}")
    reason = _stop_reason(reply)
    if reason is None:
        return b""
    rest = {} if reply.usage is None else {"usage": _usage(reply.usage)}
    delta = {"stop_reason": reason, "stop_sequence": None}
    return _event("message_delta", delta=delta, **rest) + _event("message_stop")


def _stop_reason(reply: Reply) -> str | None:
    ending = reply.ending
    return None if ending is None else STOP_REASON.get(ending, ending)


def _usage(usage: TokenUsage, *, output: int | None = None) -> dict[str, Any]:
    """Encode the usage: the input excludes cached tokens, the output includes thinking."""
    counted: dict[str, Any] = {
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output + usage.reasoning if output is None else output,
    }
    if output is None and usage.reasoning:
        counted["output_tokens_details"] = {"thinking_tokens": usage.reasoning}
    return counted
