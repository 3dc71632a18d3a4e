"""What a provider says back never shows the key, the headers or the address that it was asked with."""

import pytest

from asyncagents.llm.http.client import HttpClient
from asyncagents.llm.http.request import Endpoint
from asyncagents.testing.provider import Reply, open_provider
from tests.support.llm.wire import (
    KEY,
    Wire,
    answer_always,
    ask_model,
    cause_of,
    failure_of,
    message_of,
    open_raw,
)


@pytest.mark.parametrize("user", ["", "someone:PASSWORD-77@"])
async def test_broken_http_does_not_show_the_address(wire: Wire, http: HttpClient, user: str) -> None:
    async with open_raw(answer_always(b"HTTP/1.1 abc nonsense\r\nfoo\r\n\r\n")) as url:
        base = f"{url.replace('//', f'//{user}')}/v1?key=QUERY-SECRET-99"
        model = wire.adapter(http, Endpoint(provider_id="local", base_url=base))
        failure = failure_of(await ask_model(model)).failure
    assert "The connection to local" in message_of(failure)
    assert "SECRET" not in repr(failure)
    assert "PASSWORD" not in repr(failure)


async def test_a_key_in_a_header_is_not_shown_without_its_scheme(wire: Wire, http: HttpClient) -> None:
    headers = {"Authorization": "Bearer sk-HEADER-SECRET-42"}
    for status in (400, 401, 500):
        reply = Reply(status=status, error="Incorrect API key provided: sk-HEADER-SECRET-42.")
        async with open_provider(otherwise=reply) as provider:
            model = wire.model(http, provider.url, headers=headers, api_key=None)
            failure = failure_of(await ask_model(model)).failure
        assert "SECRET" not in repr(failure)


async def test_a_key_cut_by_the_limit_of_the_kept_body_is_not_shown(wire: Wire, http: HttpClient) -> None:
    for room in (*range(490, 513, 3), 600):
        body = b"x" * room + KEY.encode() + b"y" * 100
        async with open_provider(otherwise=Reply(body=body)) as provider:
            cause = cause_of(await ask_model(wire.model(http, provider.url)))
        assert KEY[:4] not in repr(cause)
        assert len(cause.response_body or "") <= 512
