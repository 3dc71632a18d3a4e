"""Every way in which a provider fails, over real HTTP, is an event and never an exception."""

import asyncio

import pytest

from asyncagents.config.secret import Secret
from asyncagents.domain.conversation.failure import (
    APIError,
    ContentFilterError,
    ContextOverflowError,
    ProviderAuthError,
)
from asyncagents.domain.shape import encode
from asyncagents.llm.http.client import HttpClient
from asyncagents.llm.model import StreamError, StreamStart
from asyncagents.testing.provider import Reply, open_provider
from tests.support.llm.wire import (
    KEY,
    Wire,
    answer_always,
    ask_model,
    cause_of,
    failure_of,
    finish_of,
    hanging_script,
    message_of,
    open_raw,
    read_request,
    text_of,
)


@pytest.mark.spec("C-05")
@pytest.mark.parametrize(
    ("status", "retryable"),
    [(400, False), (402, False), (404, False), (408, True), (409, True), (422, False), (429, True),
     (500, True), (502, True), (503, True), (504, True), (529, True)],
)  # fmt: skip
async def test_an_error_status_decides_whether_the_error_is_retryable(
    wire: Wire, http: HttpClient, status: int, *, retryable: bool
) -> None:
    kind = None if retryable else "invalid_request_error"
    reply = Reply(status=status, error="the dog ate it", error_type=kind)
    async with open_provider(otherwise=reply) as provider:
        events = await ask_model(wire.model(http, provider.url))
    assert len(events) == 1
    cause = cause_of(events)
    assert cause.status_code == status
    assert cause.is_retryable == retryable
    assert "local" in cause.message
    assert cause.message.endswith("the dog ate it")
    assert "the dog ate it" in (cause.response_body or "")


@pytest.mark.spec("C-05")
@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "Mon, 16 Nov 2026 00:01:00 GMT", "date": "Mon, 16 Nov 2026 00:00:00 GMT"}, 60),
    ],
)
async def test_retry_after_headers_are_passed_on(
    wire: Wire, http: HttpClient, headers: dict[str, str], seconds: float
) -> None:
    async with open_provider(otherwise=Reply(status=429, headers=headers)) as provider:
        events = await ask_model(wire.model(http, provider.url))
    assert failure_of(events).retry_after == seconds


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_is_an_auth_error_that_does_not_show_the_key(
    wire: Wire, http: HttpClient, status: int
) -> None:
    async with open_provider(otherwise=Reply(status=status, error=f"bad key {KEY}")) as provider:
        failure = failure_of(await ask_model(wire.model(http, provider.url))).failure
    assert isinstance(failure, ProviderAuthError)
    assert failure.data.provider_id == "local"
    assert "provider.local.options.apiKey" in failure.data.message
    assert KEY not in repr(failure)


async def test_a_missing_key_is_an_error_that_names_its_setting(wire: Wire, http: HttpClient) -> None:
    async with open_provider(key=KEY) as provider:
        failure = failure_of(await ask_model(wire.model(http, provider.url, api_key=None))).failure
    assert isinstance(failure, ProviderAuthError)
    assert "wants an API key" in failure.data.message
    assert "provider.local.options.apiKey" in failure.data.message


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Reply(status=400, error_code="context_length_exceeded", error_type="context_length_exceeded"),
         ContextOverflowError),
        (Reply(status=400, error="prompt is too long: 2 tokens > 1 maximum"), ContextOverflowError),
        (Reply(status=413), ContextOverflowError),
        (Reply(status=400, error_code="content_filter", error_type="content_filter"), ContentFilterError),
    ],
)  # fmt: skip
async def test_context_overflow_and_content_filter_have_their_own_errors(
    wire: Wire, http: HttpClient, reply: Reply, expected: type[object]
) -> None:
    async with open_provider(otherwise=reply) as provider:
        failure = failure_of(await ask_model(wire.model(http, provider.url))).failure
    assert isinstance(failure, expected)
    assert message_of(failure)


@pytest.mark.spec("C-05")
async def test_an_exhausted_quota_is_not_retryable(wire: Wire, http: HttpClient) -> None:
    reply = Reply(
        status=429, error_code="insufficient_quota", error_type="insufficient_quota", error="no money"
    )
    async with open_provider(otherwise=reply) as provider:
        cause = cause_of(await ask_model(wire.model(http, provider.url)))
    assert not cause.is_retryable
    assert "no quota or credit left" in cause.message


async def test_an_unknown_model_is_named(wire: Wire, http: HttpClient) -> None:
    async with open_provider(otherwise=Reply(status=404)) as provider:
        cause = cause_of(await ask_model(wire.model(http, provider.url)))
    assert "does not know the model 'sage-1'" in cause.message
    assert wire.path in cause.message


@pytest.mark.spec("C-05")
async def test_an_error_inside_the_stream_ends_it(wire: Wire, http: HttpClient) -> None:
    async with open_provider(
        otherwise=Reply(text="half", error="it broke", error_in_stream=True)
    ) as provider:
        events = await ask_model(wire.model(http, provider.url))
    cause = cause_of(events)
    assert text_of(events) == "half"
    assert cause.is_retryable
    assert cause.message.endswith("it broke")


@pytest.mark.parametrize(
    "garbage", [b"data: {nope\n\n", b"data: <html>\n\n", b"data: [1]\n\n", b"data: \xff\xfe\n\n"]
)
async def test_garbage_inside_the_stream_ends_it(wire: Wire, http: HttpClient, garbage: bytes) -> None:
    async with open_provider(otherwise=Reply(text="one two", chunks=2, garbage=garbage)) as provider:
        cause = cause_of(await ask_model(wire.model(http, provider.url)))
    assert cause.is_retryable
    assert "local sent a broken event" in cause.message


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("text/html", b"<html><head><title>Sign in</title></head></html>"),
        ("application/json", b'{"choices": []}'),
        ("application/x-ndjson", b'{"done": false}\n'),
        ("text/event-stream", b"<html><head><title>Sign in</title></head></html>"),
        ("text/event-stream", b"Internal error"),
    ],
)
async def test_a_body_of_another_format_is_a_retryable_error_that_quotes_it(
    wire: Wire, http: HttpClient, kind: str, body: bytes
) -> None:
    async with open_provider(otherwise=Reply(body=body, headers={"content-type": kind})) as provider:
        cause = cause_of(await ask_model(wire.model(http, provider.url)))
    assert cause.is_retryable
    assert cause.response_body == body.decode()
    assert "sent" in cause.message


async def test_an_error_body_with_status_200_is_an_error(wire: Wire, http: HttpClient) -> None:
    body = b'{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 2 > 1"}}'
    reply = Reply(body=body, headers={"content-type": "application/json"})
    async with open_provider(otherwise=reply) as provider:
        failure = failure_of(await ask_model(wire.model(http, provider.url))).failure
    assert isinstance(failure, ContextOverflowError)


async def test_an_event_without_end_is_cut_off(wire: Wire, http: HttpClient) -> None:
    async with open_provider(otherwise=Reply(body=b"data: " + b"x" * (17 << 20))) as provider:
        cause = cause_of(await ask_model(wire.model(http, provider.url)))
    assert "too much at once" in cause.message


@pytest.mark.spec("C-05")
async def test_a_refused_connection_allows_one_retry(wire: Wire, http: HttpClient) -> None:
    async with open_raw(answer_always(b"")) as url:
        pass
    events = await ask_model(wire.model(http, url))
    cause = cause_of(events)
    assert cause.status_code is None
    assert cause.is_retryable is True
    assert cause.message == f"{url} refuses connections: is the model server running?"
    assert [event.retries for event in events if isinstance(event, StreamError)] == [1]


@pytest.mark.parametrize("scheme", ["https://nowhere.invalid", "https://localhost:1"])
async def test_an_unreachable_host_is_retryable(wire: Wire, http: HttpClient, scheme: str) -> None:
    cause = cause_of(await ask_model(wire.model(http, scheme)))
    assert cause.status_code is None
    assert cause.is_retryable is True
    assert ("refuses connections" if "localhost" in scheme else "no host of this name") in cause.message


async def test_a_server_without_tls_is_a_retryable_error(wire: Wire, http: HttpClient) -> None:
    async with open_provider() as provider:
        cause = cause_of(await ask_model(wire.model(http, provider.url.replace("http:", "https:"))))
    assert cause.status_code is None
    assert cause.is_retryable is True


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-str",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 50\r\n\r\n: half",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\n\r\nno gzip",
    ],
    ids=["closed", "half a head", "no HTTP", "bad chunk", "short body", "bad gzip"],
)
async def test_broken_http_is_a_retryable_error(wire: Wire, http: HttpClient, answer: bytes) -> None:
    async with open_raw(answer_always(answer)) as url:
        cause = cause_of(await ask_model(wire.model(http, url)))
    assert cause.status_code is None
    assert cause.is_retryable is True
    assert "The connection to local" in cause.message


async def test_an_error_with_a_truncated_body_keeps_its_status(wire: Wire, http: HttpClient) -> None:
    async with open_raw(answer_always(b"HTTP/1.1 503 Busy\r\nContent-Length: 50\r\n\r\nhalf")) as url:
        cause = cause_of(await ask_model(wire.model(http, url)))
    assert cause.status_code == 503
    assert cause.is_retryable is True


async def test_a_redirect_is_not_followed(wire: Wire, http: HttpClient) -> None:
    async with open_provider() as elsewhere:
        head = f"HTTP/1.1 307 Temporary Redirect\r\nLocation: {elsewhere.url}\r\nContent-Length: 0\r\n\r\n"
        async with open_raw(answer_always(head.encode())) as url:
            cause = cause_of(await ask_model(wire.model(http, url)))
        assert elsewhere.asked == 0
    assert cause.status_code == 307
    assert cause.is_retryable is False


async def test_a_redirect_error_names_the_target_host_and_hides_its_query(
    wire: Wire, http: HttpClient
) -> None:
    head = b"HTTP/1.1 308 Moved\r\nLocation: https://new.test/v2?key=hush\r\nContent-Length: 0\r\n\r\n"
    async with open_raw(answer_always(head)) as url:
        cause = cause_of(await ask_model(wire.model(http, url)))
    assert "to new.test;" in cause.message
    assert "hush" not in repr(cause)


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 429 Slow\r\nX-Request-Id: \xff\xfe\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/\xff\r\nContent-Length: 2\r\n\r\nhi",
    ],
)
async def test_a_failure_with_undecodable_headers_can_be_encoded(
    wire: Wire, http: HttpClient, head: bytes
) -> None:
    async with open_raw(answer_always(head)) as url:
        failure = failure_of(await ask_model(wire.model(http, url))).failure
    assert encode(failure)


async def test_endless_events_after_the_finish_do_not_block_the_answer(
    wire: Wire, http: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("asyncagents.llm.http.client.FINAL_EVENTS_SECONDS", 0.1)
    said = wire.stream_of(Reply(text="again"))
    mark = b"data: [DONE]" if wire.name == "openai" else b"event: message_stop"
    stream = b"".join(said).partition(mark)[0]

    async def for_ever(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        while True:
            writer.write(stream)
            await writer.drain()

    async with open_raw(for_ever) as url:
        async with asyncio.timeout(20):
            events = await ask_model(wire.model(http, url, idle_seconds=30))
    assert finish_of(events) is not None
    assert not any(isinstance(event, StreamError) for event in events)


async def test_a_stream_without_a_content_type_is_read(wire: Wire, http: HttpClient) -> None:
    stream = b"".join(wire.stream_of(Reply(text="fine")))
    async with open_raw(answer_always(b"HTTP/1.1 200 OK\r\n\r\n" + stream)) as url:
        events = await ask_model(wire.model(http, url))
    assert text_of(events) == "fine"
    assert finish_of(events) is not None


@pytest.mark.parametrize(
    ("base_url", "headers", "key"),
    [
        ("not a url", {}, KEY),
        ("ftp://127.0.0.1", {}, KEY),
        ("http://[nonsense", {}, KEY),
        ("http://me:secret@", {}, KEY),
        ("http://127.0.0.1:1", {"x-team": "a\r\nb"}, KEY),
        ("http://127.0.0.1:1", {}, "sk-\n-two-lines"),
    ],
)
async def test_a_request_that_cannot_be_sent_names_the_setting_to_check(
    wire: Wire, http: HttpClient, base_url: str, *, headers: dict[str, str], key: str
) -> None:
    cause = cause_of(await ask_model(wire.model(http, base_url, headers=headers, api_key=Secret(key))))
    assert not cause.is_retryable
    assert "check provider.local in the configuration" in cause.message
    assert "secret" not in cause.message
    assert key not in cause.message


async def test_a_body_that_cannot_be_encoded_as_json_is_not_retryable(wire: Wire, http: HttpClient) -> None:
    model = wire.model(http, "http://127.0.0.1:1", body={"made_up": object()})
    assert not cause_of(await ask_model(model)).is_retryable


@pytest.mark.spec("C-05")
async def test_a_stream_cut_at_any_byte_is_complete_or_a_retryable_error(
    wire: Wire, http: HttpClient
) -> None:
    stream = b"".join(wire.stream_of(Reply(text="one two", chunks=2)))
    script = {str(cut): [Reply(body=stream, cut_at=cut)] for cut in range(-1, len(stream))}
    failed = 0
    async with open_provider(script) as provider:
        model = wire.model(http, provider.url)
        for prompt in script:
            events = await ask_model(model, prompt)
            if finish_of(events) is None:
                failed += 1
                assert cause_of(events).is_retryable
            else:
                assert text_of(events) == "one two"
                assert not any(isinstance(event, StreamError) for event in events)
    assert failed > len(stream) // 2


@pytest.mark.spec("C-05")
@pytest.mark.parametrize("ping", [0, 0.01])
async def test_a_silent_stream_is_ended_although_it_pings(
    wire: Wire, http: HttpClient, ping: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("asyncagents.llm.http.idle_timeout.PING_SECONDS", 0.5)
    async with open_provider(otherwise=hanging_script(wire, ping)) as provider:
        events = await ask_model(wire.model(http, provider.url, idle_seconds=0.2))
        await provider.wait_for(lambda: provider.disconnects == 1)
    cause = cause_of(events)
    assert text_of(events) == "one "
    assert cause.status_code is None
    assert cause.is_retryable is True
    assert "silent stream" in cause.message


@pytest.mark.spec("C-05")
@pytest.mark.parametrize("hang_at", [-1, 0])
async def test_a_provider_that_never_answers_is_given_up(wire: Wire, http: HttpClient, hang_at: int) -> None:
    async with open_provider(otherwise=Reply(hang_at=hang_at, ping=0)) as provider:
        events = await ask_model(wire.model(http, provider.url, first_seconds=0.1))
        await provider.wait_for(lambda: provider.disconnects == 1)
    cause = cause_of(events)
    assert "did not begin to answer within 0.1 seconds" in cause.message
    assert "set provider.local.options.timeout" in cause.message
    assert cause.is_retryable
    assert (StreamStart() in events) == (hang_at == 0)


@pytest.mark.spec("C-05")
async def test_the_first_event_may_take_longer_than_the_idle_limit(wire: Wire, http: HttpClient) -> None:
    """The answer takes longer to begin than it may be silent later."""
    async with open_provider(otherwise=Reply(text="At last.", delay=0.6)) as provider:
        events = await ask_model(wire.model(http, provider.url, first_seconds=60, idle_seconds=0.2))
    assert text_of(events) == "At last."


@pytest.mark.spec("C-05")
async def test_pings_keep_a_stream_open_longer_than_its_idle_limit(wire: Wire, http: HttpClient) -> None:
    """Comments and pings come for longer than the stream may be silent; then the rest of the answer does."""
    stream = b"".join(wire.stream_of(Reply(text="one two", chunks=2)))
    half = stream.index(b"\n\n", stream.index(b"one ")) + 2
    ping = b'event: ping\ndata: {"type": "ping"}\n\n' if wire.name == "anthropic" else b": ping\n\n"

    async def thinking(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + stream[:half])
        for _ in range(30):
            writer.write(ping)
            await asyncio.sleep(0.05)  # what takes long is what is tried
        writer.write(stream[half:])
        await writer.drain()
        writer.close()

    async with open_raw(thinking) as url:
        events = await ask_model(wire.model(http, url, idle_seconds=1.0))
    assert text_of(events) == "one two"


async def test_an_answer_is_complete_without_the_end_mark_of_its_stream(wire: Wire, http: HttpClient) -> None:
    stream = b"".join(wire.stream_of(Reply(text="done")))
    mark = b"data: [DONE]" if wire.name == "openai" else b"event: message_stop"
    async with open_provider(otherwise=Reply(body=stream, hang_at=stream.index(mark), ping=0)) as provider:
        events = await ask_model(wire.model(http, provider.url, idle_seconds=0.1))
    found = finish_of(events)
    assert found is not None
    assert found.finish == "stop"
    assert not any(isinstance(event, StreamError) for event in events)


async def test_a_failure_harms_no_later_request(wire: Wire, http: HttpClient) -> None:
    script = {
        "status": [Reply(status=500)],
        "cut": [Reply(cut_at=60)],
        "garbage": [Reply(garbage=b"data: {nope\n\n")],
        "html": [Reply(body=b"<html>", headers={"content-type": "text/html"})],
    }
    async with open_provider(script) as provider:
        model = wire.model(http, provider.url)
        for prompt in script:
            assert isinstance(failure_of(await ask_model(model, prompt)).failure, APIError)
            assert text_of(await ask_model(model)) == "ok"
