"""Frames in their order, requests and their answers, cancels and the end of a connection."""

import asyncio
import logging
from operator import itemgetter
from typing import Any

import pytest
from msgspec import Raw, Struct

from asyncagents.errors import InvalidInput
from asyncagents.remote.json_rpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    REQUEST_CANCELLED,
    ConnectionLoss,
    JsonRpcConnection,
    LineReader,
    RpcError,
    decode_params,
)
from tests.support.acp.wire import (
    OtherSide,
    PlainHandler,
    answer,
    call,
    notification,
    open_wire,
    outcome,
)
from tests.support.wait import wait_until

CANCEL = "$/cancel_request"


@pytest.fixture
def handler() -> PlainHandler:
    return PlainHandler()


async def test_requests_start_in_their_order_and_a_slow_one_holds_back_none(handler: PlainHandler) -> None:
    async with open_wire(handler) as (_, other):
        other.send(call(1, "hold", "a"), call("two", "echo", [1, None]), call(3, "hold", "c"))
        assert await other.next_frame() == answer("two", [1, None])
        handler.released.set()
        frames = [await other.next_frame(), await other.next_frame()]
    assert sorted(frames, key=itemgetter("id")) == [answer(1, "a"), answer(3, "c")]
    assert handler.events == ['request hold "a"', "request echo [1, null]", 'request hold "c"']


async def test_notifications_are_handled_one_after_another_in_their_order(handler: PlainHandler) -> None:
    async with open_wire(handler) as (_, other):
        other.send(notification("slow", 1), notification("quick", 2), call(1, "echo"))
        await handler.seen.wait()
        assert handler.events == ["notification slow 1"]
        handler.released.set()
        await other.next_frame()
    assert handler.events == [
        *("notification slow 1", "end of slow", "notification quick 2", "end of quick"),
        "request echo null",
    ]


async def test_a_response_is_seen_after_the_notifications_before_it(handler: PlainHandler) -> None:
    async with open_wire(handler) as (connection, other), asyncio.TaskGroup() as group:
        asked = group.create_task(outcome(connection.request("ask", {"a": 1})))
        assert await other.next_frame() == call(1, "ask", {"a": 1})
        other.send(notification("slow"), answer(1, "yes"))
        await handler.seen.wait()
        assert not asked.done()
        handler.released.set()
        assert await asked == '"yes"'
    assert handler.events[-1] == "end of slow"


async def test_responses_go_to_their_requests_in_any_order(handler: PlainHandler) -> None:
    async with open_wire(handler) as (connection, other), asyncio.TaskGroup() as group:
        asked = [group.create_task(outcome(connection.request("ask", number))) for number in range(3)]
        ids = [(await other.next_frame())["id"] for _ in asked]
        other.send(*(answer(each, each) for each in reversed(ids)))
    assert [await each for each in asked] == [str(each) for each in ids]


async def test_an_error_of_the_other_side_is_raised_with_its_code(handler: PlainHandler) -> None:
    async with open_wire(handler) as (connection, other), asyncio.TaskGroup() as group:
        asked = group.create_task(outcome(connection.request("ask", {})))
        await other.next_frame()
        other.send({"jsonrpc": "2.0", "id": 1, "error": {"code": -5, "message": "no", "data": [1]}})
        error = await asked
    assert isinstance(error, RpcError)
    assert (error.code, str(error), error.data) == (-5, "no", [1])


@pytest.mark.parametrize("error", ["no", {"code": "E", "message": "no"}, {}, [], 0, False])
async def test_a_malformed_error_ends_its_request(handler: PlainHandler, error: object) -> None:
    async with open_wire(handler) as (connection, other), asyncio.TaskGroup() as group:
        asked = group.create_task(outcome(connection.request("ask", {})))
        await other.next_frame()
        other.send({"jsonrpc": "2.0", "id": 1, "error": error})
        found = await asked
    assert isinstance(found, RpcError)
    assert "malformed" in str(found)
    assert found.code == INTERNAL_ERROR


@pytest.mark.parametrize(
    ("body", "result"),
    [({"result": 7, "error": None}, "7"), ({}, "null"), ({"method": None, "result": 7}, "7")],
    ids=["beside an error that is null", "left out", "beside a method that is null"],
)
async def test_a_result_is_read_as_other_programs_write_it(
    handler: PlainHandler, body: dict[str, object], result: str
) -> None:
    async with open_wire(handler) as (connection, other), asyncio.TaskGroup() as group:
        asked = group.create_task(outcome(connection.request("ask", {})))
        await other.next_frame()
        other.send({"id": 1, **body})
        assert await asked == result


async def test_a_second_response_is_ignored(handler: PlainHandler) -> None:
    async with open_wire(handler) as (connection, other), asyncio.TaskGroup() as group:
        asked = group.create_task(outcome(connection.request("ask", {})))
        await other.next_frame()
        other.send(answer(1, "first"), answer(1, "second"), answer(99, "unknown"), call(5, "echo"))
        assert await asked == '"first"'
        assert await other.next_frame() == answer(5)


async def test_an_error_without_a_request_is_logged(
    handler: PlainHandler, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_wire(handler) as (_, other):
        other.send({"id": None, "error": {"code": -32700, "message": "what?"}}, call(5, "echo"))
        assert await other.next_frame() == answer(5)
    assert "what?" in caplog.text


async def test_an_unknown_method_is_an_error(handler: PlainHandler) -> None:
    async with open_wire(handler) as (_, other):
        other.send(call(1, "qwen/notify/x"), notification("qwen/notify/y"), call(2, "\ufffd" * 1000))
        assert await other.next_error() == (1, METHOD_NOT_FOUND)
        assert await other.next_error() == (2, METHOD_NOT_FOUND)


async def test_errors_of_a_handler_are_answers(
    handler: PlainHandler, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_wire(handler) as (_, other):
        other.send(notification("fail"), call(1, "fail", "secret"), call(2, "surrogate"), call(3, "lost"))
        frame = await other.next_frame()
        assert frame["error"]["code"] == INTERNAL_ERROR
        assert "secret" not in frame["error"]["message"]
        assert await other.next_error() == (2, INTERNAL_ERROR)
        assert await other.next_error() == (3, REQUEST_CANCELLED)
    assert [each.levelno for each in caplog.records] == [logging.ERROR] * 3


class Raising(PlainHandler):
    """Fails with an error of its own."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    async def handle_request(self, method: str, params: Raw) -> object:
        raise self._error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidInput("no such file: /tmp/\udcff"), INVALID_PARAMS),
        (RpcError(-7, "\ud800", {"a": "\ud800"}), -7),
        (RpcError(-7, "odd", object()), -7),
    ],
)
async def test_an_error_is_sent_whatever_its_text_has(error: Exception, code: int) -> None:
    async with open_wire(Raising(error)) as (_, other):
        other.send(call(1, "x"))
        assert await other.next_error() == (1, code)


async def test_the_other_side_cancels_a_request(handler: PlainHandler) -> None:
    async with open_wire(handler) as (_, other):
        other.send(call("a", "hold", 1), call("b", "hold", 2), call("c", "stubborn"))
        await wait_until(lambda: len(handler.events) == 3)
        wanted: list[Any] = ["a", "a", "c", "unknown", None, []]
        cancels = [notification(CANCEL, {"requestId": each}) for each in wanted]
        other.send(*cancels, notification(CANCEL), notification(CANCEL, "x"))
        assert await other.next_error() == ("a", REQUEST_CANCELLED)
        assert await other.next_frame() == answer("c", "stopped")
        handler.released.set()
        assert await other.next_frame() == answer("b", 2)
        assert other.frames_left() == []
    assert handler.events.count("cancelled 1") == 1


async def test_a_request_that_is_cancelled_in_the_same_piece_is_answered(handler: PlainHandler) -> None:
    async with open_wire(handler) as (_, other):
        other.send(call(1, "hold", 1), notification(CANCEL, {"requestId": 1}))
        assert await other.next_error() == (1, REQUEST_CANCELLED)
        other.send(call(1, "echo"))
        assert await other.next_frame() == answer(1), "the id is free again"
    assert handler.events[:2] == ["request hold 1", "cancelled 1"]


async def test_a_request_has_one_answer_though_it_is_cancelled_while_it_is_written(
    handler: PlainHandler,
) -> None:
    async with open_wire(handler) as (_, other):
        other.reads.clear()
        other.send(call(1, "echo", "x"), notification(CANCEL, {"requestId": 1}), notification("after"))
        await wait_until(lambda: "end of after" in handler.events)
        other.reads.set()
        assert await other.next_frame() == answer(1, "x")
        other.send(call(1, "echo", "y"))
        assert await other.next_frame() == answer(1, "y"), "the id is free again"


async def test_a_cancelled_caller_cancels_its_own_request_at_the_other_side(handler: PlainHandler) -> None:
    async with open_wire(handler) as (connection, other), asyncio.TaskGroup() as group:
        first = group.create_task(outcome(connection.request("ask", 1)))
        await other.next_frame()
        second = group.create_task(outcome(connection.request("ask", 2)))
        await other.next_frame()
        first.cancel()
        assert await other.next_frame() == notification(CANCEL, {"requestId": 1})
        other.send(answer(1, "late"), answer(2, "in time"))
        assert await second == '"in time"'
    assert first.cancelled()


async def test_requests_of_both_sides_end_with_the_connection(handler: PlainHandler) -> None:
    async with open_wire(handler) as (connection, other), asyncio.TaskGroup() as group:
        asked = group.create_task(outcome(connection.request("ask", {})))
        other.send(call(1, "hold", "x"))
        await handler.seen.wait()
        await other.next_frame()
        other.close()
        assert isinstance(await asked, ConnectionLoss)
        with pytest.raises(ConnectionLoss):
            await connection.request("ask", {})
        await connection.notify("say", {})
        assert other.frames_left() == []
    assert handler.events == ['request hold "x"', 'cancelled "x"']


async def test_a_write_that_fails_ends_the_connection(handler: PlainHandler) -> None:
    async with open_wire(handler) as (connection, other):
        other.send(call(1, "hold", "x"))
        await handler.seen.wait()
        other.broken = True
        with pytest.raises(ConnectionLoss):
            await connection.request("ask", {})
        await connection.notify("say", {})
        await wait_until(lambda: 'cancelled "x"' in handler.events)


async def test_an_answer_that_is_not_read_does_not_outlive_the_connection(handler: PlainHandler) -> None:
    async with open_wire(handler) as (_, other):
        other.reads.clear()
        other.send(call(1, "echo"), call(2, "echo"))
        await other.next_frame()


async def fail_beside_requests(handler: PlainHandler, other: OtherSide) -> None:
    async with asyncio.TaskGroup() as group:
        connection = JsonRpcConnection(LineReader(other.read), other.write, handler, group=group)
        group.create_task(connection.run())
        group.create_task(connection.request("ask", {}))
        other.send(call(1, "hold", "x"))
        await handler.seen.wait()
        raise RuntimeError("something else failed")


async def test_a_failing_group_ends_the_requests_of_both_sides(handler: PlainHandler) -> None:
    other = OtherSide()
    with pytest.raises(ExceptionGroup, match="unhandled"):
        await fail_beside_requests(handler, other)
    assert [each.get("method") for each in other.frames_left()] == ["ask"]
    assert handler.events == ['request hold "x"', 'cancelled "x"']


class Place(Struct):
    line: int


@pytest.mark.parametrize("params", [b'{"line":"x"}', b"null", b"{", b"[" * 100_000, b'{"line":1e999}'])
def test_wrong_parameters_are_an_error_that_names_them(params: bytes) -> None:
    with pytest.raises(RpcError, match="the parameters are wrong") as caught:
        decode_params(Raw(params), Place)
    assert caught.value.code == INVALID_PARAMS
