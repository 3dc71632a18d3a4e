"""What a provider's failure means, as a table."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from asyncagents.config.secret import Secret
from asyncagents.domain.conversation.failure import (
    APIError,
    ContentFilterError,
    ContextOverflowError,
    Failure,
    ProviderAuthError,
)
from asyncagents.domain.shape import encode
from asyncagents.llm.http.errors import (
    ProviderResponse,
    RequestTarget,
    bad_response,
    connection_error,
    idle_timeout,
    invalid_request,
    provider_error,
    retry_after,
)
from asyncagents.llm.model import StreamError

KEY = "sk-very-secret-0123456789"
TARGET = RequestTarget(
    provider_id="acme",
    model_id="sage-1",
    url="https://api.acme.test/v1/chat/completions",
    has_key=True,
    secrets=(Secret(KEY),),
)


def _every_character_escaped(text: str) -> str:
    units = text.encode("utf-16-be").hex().upper()
    return '"' + "".join(f"\\u{units[n : n + 4]}" for n in range(0, len(units), 4)) + '"'


def _slash_escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("/", "\\/")


def openai(message: str, kind: str = "invalid_request_error", code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def anthropic(message: str, kind: str = "invalid_request_error") -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


def answered(status: int | None, body: Any, **headers: str) -> StreamError:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return provider_error(TARGET, ProviderResponse(status=status, body=raw, headers=named))


def verdict(failure: Failure) -> str:
    match failure:
        case ProviderAuthError():
            return "auth"
        case ContextOverflowError():
            return "overflow"
        case ContentFilterError():
            return "filter"
        case APIError(data=data):
            return "retry" if data.is_retryable else "stop"
        case _:
            raise AssertionError(f"not a provider's failure: {failure}")


def message(failure: Failure) -> str:
    assert isinstance(failure, ProviderAuthError | ContextOverflowError | ContentFilterError | APIError)
    return failure.data.message


OVERFLOWS = [
    (400, openai("Your messages resulted in 9000 tokens.", code="context_length_exceeded")),
    (400, openai("This model's maximum context length is 8192 tokens. However, you requested 9000 tokens.")),
    (400, openai("Your input exceeds the context window of this model.")),
    (400, openai("Input tokens exceed the configured limit of 272000 tokens.")),
    (400, openai("Please reduce the length of the messages or completion.")),
    (400, anthropic("prompt is too long: 213462 tokens > 200000 maximum")),
    (400, anthropic("input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000")),
    (413, anthropic("Request exceeds the maximum size", "request_too_large")),
    (413, b""),
    (400, {"object": "error", "message": "This model's maximum context length is 4096 tokens.", "code": 400}),
    (400, openai("The decoder prompt (length 5000) is longer than the maximum model length of 4096.")),
    (400, {"object": "error", "message": "max_tokens must be at least 1, got -186.", "code": 400}),
    (400, {"error": {"code": 400, "message": "the request exceeds the available context size",
                     "type": "exceed_context_size_error"}}),
    (500, {"error": "the input length exceeds the context length"}),
    (400, openai("prompt too long; exceeded max context length by 12 tokens")),
    (400, openai("The number of tokens to keep from the initial prompt is greater than the context length.")),
    (400, {"error": {"code": 400, "message": "Provider returned error", "metadata": {
        "raw": '{"error":{"message":"This endpoint\'s maximum context length is 9 tokens"}}'}}}),
    (400, [{"error": {"code": 400, "status": "INVALID_ARGUMENT", "message":
        "The input token count (12) exceeds the maximum number of tokens allowed (9)."}}]),
    (400, {"code": "x", "error": "This model's maximum prompt length is 131072 but it has 537812 tokens"}),
    (400, {"message": "Input is too long for requested model."}),
    (422, {"detail": "`inputs` tokens + `max_new_tokens` must be <= 4096"}),
    (None, anthropic("prompt is too long: 2 tokens > 1 maximum")),
]  # fmt: skip


@pytest.mark.parametrize(("status", "body"), OVERFLOWS)
def test_each_wording_of_a_prompt_that_does_not_fit_is_an_overflow(status: int | None, body: Any) -> None:
    error = answered(status, body)
    assert verdict(error.failure) == "overflow"
    assert "sage-1" in message(error.failure)


@pytest.mark.spec("C-05")
@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (401, openai("Incorrect API key provided.", code="invalid_api_key"), "auth"),
        (401, b"", "auth"),
        (403, anthropic("no access", "permission_error"), "auth"),
        (403, b"<html><title>Attention Required</title></html>", "auth"),
        (None, anthropic("expired", "authentication_error"), "auth"),
        (400, [{"error": {"code": 400, "message": "API key not valid. Pass a valid one."}}], "auth"),
        (429, openai("Rate limit reached for requests", "requests", "rate_limit_exceeded"), "retry"),
        (429, openai("Request too large: tokens per min. Please reduce the length of the prompt."), "retry"),
        (429, anthropic("slow down", "rate_limit_error"), "retry"),
        (429, b"", "retry"),
        (429, openai("You exceeded your current quota", "insufficient_quota", "insufficient_quota"), "stop"),
        (429, openai("Billing hard limit", code="billing_hard_limit_reached"), "stop"),
        (402, {"error": {"code": 402, "message": "Insufficient credits"}}, "stop"),
        (400, anthropic("Your credit balance is too low to access the Anthropic API."), "stop"),
        (408, b"", "retry"),
        (409, b"", "retry"),
        (500, openai("The server had an error", "server_error"), "retry"),
        (502, b"<html><head><title>502 Bad Gateway</title></head></html>", "retry"),
        (503, b"upstream connect error", "retry"),
        (504, b"", "retry"),
        (520, b"", "retry"),
        (529, anthropic("Overloaded", "overloaded_error"), "retry"),
        (400, openai("try again", "server_error"), "retry"),
        (None, anthropic("Overloaded", "overloaded_error"), "retry"),
        (None, {"error": {"message": "upstream went away"}}, "retry"),
        (None, {"error": {"code": 502, "message": "Provider disconnected"}}, "retry"),
        (None, openai("bad tool schema"), "stop"),
        (400, openai("Invalid schema for function 'x'"), "stop"),
        (422, {"detail": [{"loc": ["body"], "msg": "field required"}]}, "stop"),
        (404, openai("The model `sage-1` does not exist", code="model_not_found"), "stop"),
        (404, anthropic("model: sage-1", "not_found_error"), "stop"),
        (404, b"404 page not found", "stop"),
        (400, {"error": {"code": 400, "message": "sage-1 is not a valid model ID"}}, "stop"),
        (301, b"", "stop"),
        (400, openai("filtered", code="content_filter"), "filter"),
        (400, {"error": {"code": "400", "message": "x",
                         "innererror": {"code": "ResponsibleAIPolicyViolation"}}}, "filter"),
        (400, anthropic("Output blocked by content filtering policy"), "filter"),
        (403, {"error": {"code": 403, "message": "moderation: your input was flagged"}}, "filter"),
    ],
)  # fmt: skip
def test_a_refusal_is_classified_by_its_code_its_status_or_its_text(
    status: int | None, body: Any, expected: str
) -> None:
    assert verdict(answered(status, body).failure) == expected


def test_the_message_is_one_sentence_with_the_providers_own_words() -> None:
    error = answered(503, openai("The engine is\n  cooling down", "server_error"))
    assert message(error.failure) == "acme has trouble (HTTP 503): The engine is cooling down"


def test_an_unknown_model_is_named_with_the_address_that_was_asked() -> None:
    text = message(answered(404, b"404 page not found").failure)
    assert "'sage-1'" in text
    assert "https://api.acme.test/v1/chat/completions" in text
    assert "404 page not found" in text


def test_the_message_for_a_page_of_html_is_its_title() -> None:
    page = b"<!doctype html><html><head><title>502 Bad\n Gateway</title></head><body>long</body></html>"
    assert message(answered(502, page).failure).endswith(": 502 Bad Gateway")


def test_the_message_for_a_refusal_without_a_text_names_its_status() -> None:
    assert message(answered(503, b"").failure) == "acme has trouble (HTTP 503): Service Unavailable"
    assert "it did not say why" in message(answered(599, b"").failure)


@pytest.mark.parametrize(
    "body", [b"\xff\xfe\x00", b"[" * 100_000, b"null", b"[]", b"7", b'{"error": null}', b'"no"']
)
def test_a_malformed_body_becomes_a_failure_that_can_be_stored(body: bytes) -> None:
    error = answered(500, body)
    assert verdict(error.failure) == "retry"
    assert encode(error.failure)


def test_messages_for_a_missing_and_a_wrong_key_differ_and_name_the_option() -> None:
    wrong = message(answered(401, openai("no")).failure)
    bare = RequestTarget(provider_id="acme", model_id="sage-1", url="https://api.acme.test")
    missing = message(provider_error(bare, ProviderResponse(status=401, body=b"")).failure)
    assert wrong.startswith("acme refused the API key (HTTP 401); set provider.acme.options.apiKey")
    assert missing.startswith("acme wants an API key (HTTP 401); set provider.acme.options.apiKey")


@pytest.mark.parametrize("status", [400, 401, 429, 500])
def test_a_key_that_the_provider_echoes_is_not_shown(status: int) -> None:
    echo = openai(f"Incorrect API key provided: {KEY} or sk-v****6789.")
    error = answered(status, echo, x_request_id=KEY)
    shown = encode(error.failure) + repr(error).encode()
    assert KEY.encode() not in shown
    assert KEY[:8].encode() not in shown
    assert b"6789" not in encode(error.failure).partition(b"responseBody")[0]


def test_a_key_is_not_shown_in_part_where_a_message_or_a_body_is_cut() -> None:
    for room in range(480, 500):
        error = answered(500, openai("x" * room + KEY + "y" * room))
        assert KEY[:8].encode() not in encode(error.failure)
    for room in range(2020, 2048):
        error = bad_response(TARGET, "garbage", ProviderResponse(body=b"x" * room + KEY.encode()))
        assert KEY[:8].encode() not in encode(error.failure)


@pytest.mark.parametrize("escape", [json.dumps, _every_character_escaped, _slash_escaped])
def test_a_key_is_not_shown_in_any_json_escape(escape: Callable[[str], str]) -> None:
    key = 'sk-a/b+c"d\\e=é-0123456789'
    target = RequestTarget(provider_id="acme", model_id="m", url="https://a.test", secrets=(Secret(key),))
    inner = f'{{"error": {{"message": {escape(f"bad key {key}")}}}}}'
    nested = json.dumps({"error": {"message": "no", "metadata": {"raw": inner}}})
    for body in (inner, nested):
        error = provider_error(target, ProviderResponse(status=500, body=body.encode()))
        assert "0123456789" not in message(error.failure)
        assert key not in message(error.failure)
    shown = provider_error(target, ProviderResponse(status=500, body=inner.encode()))
    assert b"0123456789" not in encode(shown.failure)


def test_the_half_of_a_key_at_the_end_of_a_body_that_was_cut_is_not_shown() -> None:
    for size in range(4, len(KEY)):
        error = bad_response(TARGET, "garbage", ProviderResponse(body=b"x " + KEY[:size].encode()))
        assert KEY[:4].encode() not in encode(error.failure)


def test_a_failure_with_bytes_that_are_no_text_can_be_stored() -> None:
    """aiohttp gives a header's bytes that are no UTF-8 as halves of characters."""
    odd = {"x-request-id": "\udcff\udcfe", "retry-after": "\udcff"}
    for error in (
        provider_error(TARGET, ProviderResponse(status=429, body=b"\xff", headers=odd)),
        bad_response(TARGET, "text/\udcff instead", ProviderResponse(status=200, body=b"\xff", headers=odd)),
        connection_error(TARGET, "no \udcff"),
        invalid_request(TARGET, ValueError("no \udcff")),
    ):
        assert encode(error.failure)


@pytest.mark.spec("C-05")
@pytest.mark.parametrize(
    ("body", "status"),
    [
        (anthropic("slow down", "rate_limit_error"), 429),
        (openai("slow down", code="rate_limit_exceeded"), 429),
        (anthropic("busy", "overloaded_error"), 529),
        (anthropic("odd", "api_error"), None),
        ({"error": {"code": 503, "message": "busy"}}, 503),
    ],
)
def test_an_error_inside_a_stream_has_the_status_that_it_would_have_had(
    body: dict[str, Any], status: int | None
) -> None:
    error = answered(None, body)
    assert isinstance(error.failure, APIError)
    assert error.failure.data.status_code == status
    assert status == 503 or "HTTP" not in message(error.failure)


@pytest.mark.parametrize(
    ("location", "told"),
    [
        ("https://me:hush@new.acme.test:8443/v2?key=hush", "to new.acme.test:8443;"),
        ("/v2?key=hush", "to another path;"),
        ("https://[hush", "to another path;"),
    ],
)
def test_the_message_for_a_redirect_shows_the_host_alone(location: str, told: str) -> None:
    error = answered(307, b"", Location=location)
    assert verdict(error.failure) == "stop"
    assert told in message(error.failure)
    assert b"hush" not in encode(error.failure)


def test_only_harmless_headers_are_kept() -> None:
    error = answered(
        429,
        b"",
        Retry_After="2",
        X_Request_Id="req_7",
        X_RateLimit_Remaining_Tokens="0",
        Set_Cookie="session=abc",
        OpenAI_Organization="org-1",
    )
    assert isinstance(error.failure, APIError)
    assert error.failure.data.response_headers == {
        "retry-after": "2",
        "x-request-id": "req_7",
        "x-ratelimit-remaining-tokens": "0",
    }


def test_a_long_body_is_kept_only_in_part() -> None:
    error = answered(500, "ü".encode() * 100_000)
    assert isinstance(error.failure, APIError)
    assert error.failure.data.response_body is not None
    assert len(error.failure.data.response_body.encode()) <= 2048
    assert len(error.failure.data.message) < 1000


@pytest.mark.spec("C-05")
@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "7"}, 7),
        ({"retry-after": "-3"}, 0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "later"}, None),
        ({"retry-after": "Mon, 16 Nov 2026 00:01:30 GMT", "date": "Mon, 16 Nov 2026 00:00:00 GMT"}, 90),
        ({"retry-after": "Mon, 16 Nov 2026 00:00:00 GMT", "date": "Mon, 16 Nov 2026 00:01:00 GMT"}, 0),
        ({"retry-after": "Mon, 16 Nov 2026 00:00:00 GMT"}, None),
    ],
)
def test_the_wait_before_a_retry_is_read_from_the_headers(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert retry_after(headers) == seconds
    assert answered(429, b"", **headers).retry_after == seconds


def test_a_final_error_has_no_time_to_retry_after() -> None:
    assert answered(400, openai("no"), retry_after="7").retry_after is None


@pytest.mark.parametrize(
    ("status", "should", "expected"),
    [(429, "false", "stop"), (400, "true", "retry"), (500, "maybe", "retry")],
)
def test_the_header_x_should_retry_decides_about_a_retry(status: int, should: str, expected: str) -> None:
    assert verdict(answered(status, b"", x_should_retry=should).failure) == expected


def test_a_payment_limit_that_ends_soon_is_worth_another_try() -> None:
    error = answered(402, {"error": {"code": 402, "message": "too many at once"}}, retry_after="4")
    assert verdict(error.failure) == "retry"
    assert error.retry_after == 4


def test_trouble_with_the_network_is_worth_another_try_and_has_no_status() -> None:
    error = connection_error(TARGET, f"Connect call failed\n {KEY}")
    assert isinstance(error.failure, APIError)
    assert error.failure.data.is_retryable
    assert error.failure.data.status_code is None
    assert message(error.failure) == (
        "The connection to acme at https://api.acme.test/v1/chat/completions failed: Connect call failed ***"
    )


def test_a_silent_stream_is_worth_another_try() -> None:
    error = idle_timeout(TARGET, 300)
    assert verdict(error.failure) == "retry"
    assert "said nothing for 300 seconds" in message(error.failure)


def test_a_request_that_cannot_be_sent_is_not_tried_again() -> None:
    error = invalid_request(TARGET, ValueError("no address"))
    assert verdict(error.failure) == "stop"
    assert "provider.acme" in message(error.failure)


def test_garbage_is_worth_another_try_and_shows_its_first_200_characters() -> None:
    error = bad_response(TARGET, "a broken event", ProviderResponse(body=b"{nope" + b"x" * 1000))
    assert verdict(error.failure) == "retry"
    assert message(error.failure) == f"acme sent a broken event: '{{nope{'x' * 195}'"
