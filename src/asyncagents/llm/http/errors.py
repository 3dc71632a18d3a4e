"""Map a provider's status, headers and body to a failure and whether to retry."""

from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from math import isfinite
from typing import Literal, TypeAlias, assert_never
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.config.secret import Secret
from asyncagents.domain.conversation.failure import (
    APICause,
    APIError,
    Failure,
    content_filter_error,
    context_overflow_error,
    provider_auth_error,
)
from asyncagents.domain.text import replace_surrogates
from asyncagents.llm.http.answer_size import AnswerTooLarge
from asyncagents.llm.http.error_body import ErrorDetails, plain_text, read_error
from asyncagents.llm.http.redact import redact_body, redact_text
from asyncagents.llm.model import StreamError

ErrorKind: TypeAlias = Literal[
    "auth", "overflow", "filter", "quota", "no-model", "rate", "trouble", "refused"
]

BODY_KEPT = 2048
EXCERPT = 200

_OVERFLOW = frozenset(
    {
        "context_length_exceeded", "context_window_exceeded", "exceed_context_size_error", "input_too_long",
        "model_context_window_exceeded", "prompt_too_long", "request_too_large", "string_above_max_length",
        "tokens_limit_reached",
    }
)  # fmt: skip
# Phrases of servers that have no error code for it, in lower case.
_OVERFLOW_WORDS = (
    "prompt is too long",  # Anthropic, Fireworks
    "exceed context limit",  # Anthropic, with its max_tokens
    "maximum context length",  # OpenAI, vLLM, OpenRouter, DeepSeek, Mistral
    "exceeds the context window",  # OpenAI
    "exceed the configured limit",  # OpenAI
    "reduce the length of the",  # OpenAI, Groq, vLLM
    "exceeds the available context size",  # llama.cpp
    "prompt too long",  # Ollama
    "exceeds the context length",  # Ollama
    "exceeds maximum context length",  # Ollama
    "greater than the context length",  # LM Studio
    "longer than the maximum model length",  # vLLM
    "too long to fit into the model",  # vLLM
    "max_tokens must be at least 1, got -",  # vLLM
    "longer than the model's context length",  # SGLang
    "`inputs` tokens + `max_new_tokens` must be",  # text-generation-inference, Together
    "exceeds the maximum number of tokens",  # Google
    "input is too long",  # Bedrock
    "maximum prompt length",  # xAI
    "prompt token count of",  # GitHub Copilot
    "exceeded model token limit",  # Moonshot
    "context window exceeds limit",  # MiniMax
    "range of input length should be",  # Alibaba
    "context length exceeded",
    "context window exceeded",
)
_QUOTA = frozenset(
    {
        "billing_error", "billing_hard_limit_reached", "billing_not_active", "enforced_spend_limit_reached",
        "insufficient_balance", "insufficient_credits", "insufficient_quota",
    }
)  # fmt: skip
_QUOTA_WORDS = ("credit balance is too low", "insufficient balance", "insufficient credits")
_RATE = frozenset(
    {
        "rate_limit_error", "rate_limit_exceeded", "resource_exhausted", "throttlingexception",
        "too_many_requests",
    }
)  # fmt: skip
_FILTER = frozenset(
    {
        "content_filter", "content_policy_violation", "data_inspection_failed", "moderation_blocked",
        "responsibleaipolicyviolation",
    }
)  # fmt: skip
_FILTER_WORDS = (
    "content filtering policy",  # Anthropic
    "content management policy",  # Azure
    "content policy",
    "input was flagged",  # OpenRouter
    "safety system",  # OpenAI
)
_AUTH = frozenset(
    {
        "authentication_error", "invalid_api_key", "invalid_authentication_error", "permission_denied",
        "permission_error", "unauthenticated", "unauthorized",
    }
)  # fmt: skip
_AUTH_WORDS = ("api key not valid", "incorrect api key", "invalid api key", "invalid x-api-key")
_NO_MODEL = frozenset({"deploymentnotfound", "model_not_found", "not_found_error", "notfounderror"})
_NO_MODEL_WORDS = ("is not a valid model id",)
_TROUBLE = frozenset(
    {
        "api_error", "bad_gateway", "engine_overloaded_error", "internal_error", "internal_server_error",
        "internalservererror", "overloaded", "overloaded_error", "server_error", "server_overloaded",
        "service_unavailable", "timeout", "timeout_error", "unavailable",
    }
)  # fmt: skip
_OVERLOADED = frozenset({"engine_overloaded_error", "overloaded", "overloaded_error", "server_overloaded"})
_TROUBLE_STATUS = frozenset({408, 409, 425})
_RETRYABLE: frozenset[ErrorKind] = frozenset({"rate", "trouble"})

_KEPT_HEADERS = frozenset(
    {
        "cf-ray", "request-id", "retry-after", "retry-after-ms", "x-generation-id", "x-request-id",
        "x-should-retry",
    }
)  # fmt: skip
_KEPT_PREFIXES = ("anthropic-ratelimit-", "x-ratelimit-")


_SENTENCES: dict[ErrorKind, str] = {
    "auth": "{provider} {key}{code}; set provider.{provider}.options.apiKey to a valid one: {message}",
    "overflow": "The conversation does not fit into the context of {model}: {message}",
    "filter": "The content filter of {provider} stopped this request: {message}",
    "quota": "The account at {provider} has no quota or credit left{code}: {message}",
    "no-model": "{provider} does not know the model {model!r} at {url}{code}: {message}",
    "rate": "{provider} limits the rate of requests{code}: {message}",
    "trouble": "{provider} has trouble{code}: {message}",
    "refused": "{provider} refused the request{code}: {message}",
}


LOCAL_RETRIES = 1
"""Retries after a loopback server refused the connection."""


class RequestTarget(Struct, frozen=True, kw_only=True):
    """The provider, model and URL of a request, for error messages; `secrets` are redacted from them."""

    provider_id: str
    model_id: str
    url: str
    has_key: bool = False
    secrets: tuple[Secret, ...] = ()

    def redact(self, text: str) -> str:
        return redact_text(text, self.secrets)

    def redact_body(self, body: bytes) -> bytes:
        """Redact a body. Call this before truncating: a cut secret is only recognised at the very end."""
        return redact_body(body, self.secrets)


class ProviderResponse(Struct, frozen=True, kw_only=True):
    """A response that is not a stream; `status` is None for an error event inside a stream."""

    body: bytes
    status: int | None = None
    headers: Mapping[str, str] = {}


def provider_error(target: RequestTarget, answer: ProviderResponse) -> StreamError:
    """Return the error for a response with an error status, or for an error event inside a stream."""
    clean = target.redact_body(answer.body)
    headers = {name.lower(): value for name, value in answer.headers.items()}
    details = _complete_details(target, read_error(clean), answer.status, headers.get("location"))
    kind = classify_error(details)
    message = replace_surrogates(_error_message(target, kind, details))
    body = _body_excerpt(clean)
    match kind:
        case "auth":
            return StreamError(provider_auth_error(target.provider_id, message))
        case "overflow":
            return StreamError(context_overflow_error(message, body))
        case "filter":
            return StreamError(content_filter_error(message))
        case "quota" | "no-model" | "rate" | "trouble" | "refused":
            status = details.status or _implied_status(kind, details.codes)
            return _api_error(
                target, message, headers, retry=_is_retryable(kind, headers), status=status, body=body
            )
        case _:
            assert_never(kind)


def _complete_details(
    target: RequestTarget, details: ErrorDetails, status: int | None, location: str | None
) -> ErrorDetails:
    """Complete the details, and redact the message again: nested escapes are readable only after decoding."""
    status = status if status is not None else details.status
    message = target.redact(details.message) or _status_phrase(status)
    if location is not None and status is not None and 300 <= status < 400:
        message += f" to {_host(location) or 'another path'}; set the baseURL to where it really is"
    return ErrorDetails(message=message, codes=details.codes, status=status)


def _host(location: str) -> str:
    try:
        return urlsplit(location).netloc.rpartition("@")[2][:EXCERPT]
    except ValueError:
        return ""


def _implied_status(kind: ErrorKind, codes: frozenset[str]) -> int | None:
    """Return the status for an error inside a stream; the cool-down of a model depends on it."""
    if kind == "rate":
        return 429
    return 529 if codes & _OVERLOADED else None


def classify_error(details: ErrorDetails) -> ErrorKind:
    """Classify an error by code, status and message; the first rule that matches wins."""
    words = details.message.lower()
    codes, status = details.codes, details.status
    rules: tuple[tuple[ErrorKind, bool], ...] = (
        ("quota", status == 402 or bool(codes & _QUOTA) or _contains_any(_QUOTA_WORDS, words)),
        ("overflow", status == 413 or bool(codes & _OVERFLOW)),
        # Before the phrases: the message of a tokens-per-minute limit also mentions too many tokens.
        ("rate", status == 429 or bool(codes & _RATE)),
        ("filter", bool(codes & _FILTER) or _contains_any(_FILTER_WORDS, words)),
        ("auth", status in {401, 403} or bool(codes & _AUTH) or _contains_any(_AUTH_WORDS, words)),
        ("overflow", _contains_any(_OVERFLOW_WORDS, words)),
        ("no-model", status == 404 or bool(codes & _NO_MODEL) or _contains_any(_NO_MODEL_WORDS, words)),
        ("trouble", bool(codes & _TROUBLE) or (status is not None and _is_transient(status))),
        # An error inside a stream: the request was accepted, so it was well formed.
        ("trouble", status is None and "invalid_request_error" not in codes),
    )
    return next((kind for kind, fits in rules if fits), "refused")


def connection_error(target: RequestTarget, reason: str) -> StreamError:
    """Return the error for a network failure: reset, unknown host, TLS, truncated body."""
    why = target.redact(" ".join(reason.split()))[:EXCERPT]
    return _api_error(
        target, f"The connection to {target.provider_id} at {target.url} failed: {why}", {}, retry=True
    )


def refused_connection(target: RequestTarget, where: str, *, local: bool) -> StreamError:
    """Return the error for a refused connection; a `local` server is retried `LOCAL_RETRIES` times only."""
    message = f"{where} refuses connections" + (": is the model server running?" if local else "")
    stream_error = _api_error(target, message, {}, retry=True)
    return replace(stream_error, retries=LOCAL_RETRIES) if local else stream_error


def first_event_timeout(target: RequestTarget, seconds: float) -> StreamError:
    """Return the error for a stream that sent no content within its first timeout."""
    message = (
        f"The silent stream of {target.provider_id} was ended: the model did not begin to answer within "
        f"{seconds:g} seconds; if it thinks longer, set provider.{target.provider_id}.options.timeout"
    )
    return _api_error(target, message, {}, retry=True)


def idle_timeout(target: RequestTarget, seconds: float) -> StreamError:
    message = f"The silent stream of {target.provider_id} was ended: it said nothing for {seconds:g} seconds"
    return _api_error(target, message, {}, retry=True)


def bad_response(
    target: RequestTarget, what: str, answer: ProviderResponse, max_bytes: int = BODY_KEPT
) -> StreamError:
    """Return the error for a response that is not valid on this wire."""
    clean = target.redact_body(answer.body)[:max_bytes]
    excerpt = plain_text(clean)[:EXCERPT]
    headers = {name.lower(): value for name, value in answer.headers.items()}
    message = f"{target.provider_id} sent {what}: {excerpt!r}"
    return _api_error(target, message, headers, retry=True, status=answer.status, body=_body_excerpt(clean))


def event_error(target: RequestTarget, data: bytes, *, broken: bool) -> StreamError:
    """Return the error for an event of a stream that is broken, or that reports an error."""
    answer = ProviderResponse(body=data)
    return bad_response(target, "a broken event", answer) if broken else provider_error(target, answer)


def answer_too_large(target: RequestTarget, error: AnswerTooLarge) -> StreamError:
    """Return the error for an answer above a size limit; not retryable, since the next may be as large."""
    message = f"{target.provider_id} sent more than {error} in one answer, and was cut off"
    return _api_error(target, message, {}, retry=False)


def invalid_request(target: RequestTarget, error: Exception) -> StreamError:
    """Return the error for a request that cannot be built or sent; not retryable."""
    reason = target.redact(str(error))[:EXCERPT]
    message = (
        f"No request can be sent to {target.provider_id}: {reason}; "
        f"check provider.{target.provider_id} in the configuration, its baseURL, headers and options"
    )
    return _api_error(target, message, {}, retry=False)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait, from lower-case headers. A date is relative to the `date` header."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    given = headers.get("retry-after")
    seconds = _number(given)
    if seconds is not None or given is None:
        return seconds
    try:
        wait = parsedate_to_datetime(given) - parsedate_to_datetime(headers.get("date", ""))
    except (TypeError, ValueError):
        return None
    return max(0.0, wait.total_seconds())


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return max(0.0, number) if isfinite(number) else None


def _is_retryable(kind: ErrorKind, headers: Mapping[str, str]) -> bool:
    match headers.get("x-should-retry"):
        case "true":
            return True
        case "false":
            return False
        case _:  # a quota error with a retry-after is a rate limit, not an exhausted account
            return kind in _RETRYABLE or (kind == "quota" and "retry-after" in headers)


def _error_message(target: RequestTarget, kind: ErrorKind, details: ErrorDetails) -> str:
    return _SENTENCES[kind].format(
        provider=target.provider_id,
        model=target.model_id,
        url=target.url,
        code="" if details.status is None else f" (HTTP {details.status})",
        key="refused the API key" if target.has_key else "wants an API key",
        message=details.message,
    )


def _api_error(
    target: RequestTarget,
    message: str,
    headers: Mapping[str, str],
    *,
    retry: bool,
    status: int | None = None,
    body: str | None = None,
) -> StreamError:
    response_headers = {
        replace_surrogates(name): replace_surrogates(target.redact(value))
        for name, value in headers.items()
        if _is_kept_header(name)
    }
    failure: Failure = APIError(
        data=APICause(
            message=replace_surrogates(message),
            is_retryable=retry,
            status_code=status,
            response_headers=response_headers or None,
            response_body=body,
            metadata={"url": target.url},
        )
    )
    return StreamError(failure, retry_after(headers) if retry else None)


def _is_kept_header(name: str) -> bool:
    return name in _KEPT_HEADERS or name.startswith(_KEPT_PREFIXES)


def _body_excerpt(body: bytes) -> str | None:
    text = body[:BODY_KEPT].decode("utf-8", "replace")
    return text.encode()[:BODY_KEPT].decode("utf-8", "ignore") or None


def _is_transient(status: int) -> bool:
    return status in _TROUBLE_STATUS or status >= 500


def _contains_any(phrases: tuple[str, ...], words: str) -> bool:
    return any(phrase in words for phrase in phrases)


def _status_phrase(status: int | None) -> str:
    try:
        return HTTPStatus(status or 0).phrase
    except ValueError:
        return "it did not say why"
