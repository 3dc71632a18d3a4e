"""Encode a reply as OpenAI's chat completions send it."""

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

PING = b": keep-alive\n\n"
REQUEST_ID = "x-request-id"
DONE = b"data: [DONE]\n\n"
ARGUMENT_PIECES = 3
FINGERPRINT = "fp_asyncagents"

FINISH = {
    "stop": "stop",
    "tool-calls": "tool_calls",
    "length": "length",
    "content-filter": "content_filter",
    "error": "error",
    "unknown": "unlisted",
}

# type and code of an error, by status.
ERRORS: dict[int, tuple[str, str | None]] = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("invalid_request_error", "unsupported_country_region_territory"),
    404: ("invalid_request_error", "model_not_found"),
    413: ("invalid_request_error", "request_too_large"),
    429: ("requests", "rate_limit_exceeded"),
}
SERVER_ERROR = ("server_error", None)

_encode = msgspec.json.encode


def openai_bytes(reply: Reply, stamp: Stamp = LOCAL) -> list[bytes]:
    """Return the body of a streamed answer in writes of whole events; `gap` separates two writes."""
    first: dict[str, Any] = {"role": "assistant", "content": "" if reply.text else None, "refusal": None}
    before, after = _frame(stamp)
    writes = [before + _encode(delta) + after for delta in _content_deltas(reply)]
    writes += [
        b"".join(before + _encode(delta) + after for delta in _call(number, tool, stamp))
        for number, tool in enumerate(reply.tools)
    ]
    return join_writes(before + _encode(first) + after, writes, _tail(reply, stamp), reply.garbage)


def openai_json(reply: Reply, stamp: Stamp = LOCAL) -> bytes:
    """Return the body of an answer that is not streamed."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None, "refusal": None}
    if reply.reasoning:
        message[reply.reasoning_field] = reply.reasoning
    if reply.tools:
        message["tool_calls"] = [
            {"id": _call_id(number, tool, stamp), "type": "function", "function": _function(tool)}
            for number, tool in enumerate(reply.tools)
        ]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(reply)}
    whole = {**_about(stamp, "chat.completion"), "choices": [choice]}
    if reply.usage is not None:
        whole["usage"] = _usage(reply.usage)
    return _encode(whole)


def openai_error(reply: Reply, stamp: Stamp = LOCAL) -> bytes:
    """Return the body of an answer with an error status; the same object is the error event of a stream."""
    del stamp  # this wire has the request id only in a header
    kind, code = ERRORS.get(reply.status, SERVER_ERROR)
    error = {
        "message": reply.error,
        "type": reply.error_type or kind,
        "param": None,
        "code": reply.error_code or code,
    }
    return _encode({"error": error})


def openai_models(names: tuple[str, ...]) -> bytes:
    listed = [
        {"id": name, "object": "model", "created": LOCAL.created, "owned_by": "local"} for name in names
    ]
    return _encode({"object": "list", "data": listed})


def _content_deltas(reply: Reply) -> list[dict[str, Any]]:
    thought = split_text(reply.reasoning, reply.chunks) if reply.reasoning else []
    text = split_text(reply.text, reply.chunks) if reply.text else []
    return [*({reply.reasoning_field: piece} for piece in thought), *({"content": piece} for piece in text)]


def _call(number: int, tool: ToolUse, stamp: Stamp) -> list[dict[str, Any]]:
    """Return one delta with the name, then the arguments in pieces."""
    named = {"name": tool.name, "arguments": ""}
    opening = {"index": number, "id": _call_id(number, tool, stamp), "type": "function", "function": named}
    parts = [part for part in split_text(_function(tool)["arguments"], ARGUMENT_PIECES) if part]
    written = [{"index": number, "function": {"arguments": part}} for part in parts]
    return [{"tool_calls": [delta]} for delta in (opening, *written)]


def _tail(reply: Reply, stamp: Stamp) -> bytes:
    if reply.error_in_stream:
        return b"data: " + openai_error(reply) + b"\n\n"
    finish = _finish(reply)
    if finish is None:
        return b""
    before, after = _frame(stamp, finish)
    last = before + b"{}" + after
    if stamp.usage and reply.usage is not None:
        counted = {**_about(stamp, "chat.completion.chunk"), "choices": [], "usage": _usage(reply.usage)}
        last += b"data: " + _encode(counted) + b"\n\n"
    return last + DONE


def _finish(reply: Reply) -> str | None:
    ending = reply.ending
    return None if ending is None else FINISH.get(ending, ending)


def _frame(stamp: Stamp, finish: str | None = None) -> tuple[bytes, bytes]:
    """Return the bytes before and after the delta of every chunk."""
    about = _encode(_about(stamp, "chat.completion.chunk"))[:-1]
    usage = b',"usage":null' if stamp.usage else b""
    before = b"data: " + about + b',"choices":[{"index":0,"delta":'
    return before, b',"logprobs":null,"finish_reason":' + _encode(finish) + b"}]" + usage + b"}\n\n"


def _about(stamp: Stamp, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{stamp.id}",
        "object": kind,
        "created": stamp.created,
        "model": stamp.model,
        "service_tier": "default",
        "system_fingerprint": FINGERPRINT,
    }


def _function(tool: ToolUse) -> dict[str, str]:
    return {"name": tool.name, "arguments": _encode(tool.args).decode() if tool.raw is None else tool.raw}


def _call_id(number: int, tool: ToolUse, stamp: Stamp) -> str:
    return tool.id or f"call_{stamp.id}_{number}"


def _usage(usage: TokenUsage) -> dict[str, Any]:
    """Encode the usage: OpenAI includes cached tokens in the prompt and reasoning in the completion."""
    prompt = usage.input + usage.cache_read + usage.cache_write
    completion = usage.output + usage.reasoning
    prompt_details = {"cached_tokens": usage.cache_read, "audio_tokens": 0}
    if usage.cache_write:
        prompt_details["cache_write_tokens"] = usage.cache_write
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": prompt_details,
        "completion_tokens_details": {
            "reasoning_tokens": usage.reasoning,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }
