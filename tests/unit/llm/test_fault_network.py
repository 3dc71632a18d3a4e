"""A connection that fails is told in a plain sentence; one that this machine refuses is tried once more."""

import errno
import socket

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey

from asyncagents.domain.conversation.failure import APIError
from asyncagents.llm.http.errors import RequestTarget
from asyncagents.llm.http.network_errors import network_error
from asyncagents.llm.model import StreamError

KEY = ConnectionKey("127.0.0.1", 11434, False, True, None, None, None)


def refused(address: str = "127.0.0.1") -> aiohttp.ClientConnectorError:
    """As asyncio says it."""
    error = ConnectionRefusedError(errno.ECONNREFUSED, f"Connect call failed ('{address}', 11434)")
    return aiohttp.ClientConnectorError(KEY, error)


def told(url: str, error: Exception) -> tuple[str, StreamError]:
    fault = network_error(RequestTarget(provider_id="local", model_id="m", url=url), error)
    assert isinstance(fault.failure, APIError)
    return fault.failure.data.message, fault


@pytest.mark.spec("C-05")
@pytest.mark.parametrize("host", ["127.0.0.1:11434", "localhost:11434", "[::1]:11434", "127.8.8.8"])
def test_a_server_of_this_machine_that_refuses_is_named_and_tried_once_more(host: str) -> None:
    message, fault = told(f"http://{host}/v1/chat/completions", refused())
    assert message == f"http://{host} refuses connections: is the model server running?"
    assert fault.retries == 1
    assert isinstance(fault.failure, APIError)
    assert fault.failure.data.is_retryable


@pytest.mark.spec("C-05")
def test_another_machine_that_refuses_is_tried_as_often_as_usual() -> None:
    message, fault = told("https://me:secret@api.acme.test/v1/messages", refused("10.1.2.3"))
    assert message == "https://api.acme.test refuses connections"
    assert fault.retries is None


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (aiohttp.ClientConnectorDNSError(KEY, socket.gaierror(-2, "Name or service not known")), "no host"),
        (aiohttp.ClientConnectorError(KEY, OSError(errno.EHOSTUNREACH, "No route to host")), "No route to"),
        (aiohttp.ConnectionTimeoutError("Connection timeout to host http://x"), "nothing answers there"),
        (
            aiohttp.ClientConnectorError(KEY, OSError(errno.ENETUNREACH, "Connect call failed ('::1')")),
            "ENET",
        ),
        (aiohttp.ServerDisconnectedError(), "closed without an answer"),
    ],
)
def test_messages_for_other_failures_give_the_reason_in_plain_words(error: Exception, reason: str) -> None:
    message, fault = told("http://10.1.2.3:80/v1", error)
    assert reason in message
    assert "ssl:" not in message
    assert "Connect call failed" not in message
    assert fault.retries is None
