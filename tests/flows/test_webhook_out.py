"""Others are told when a call is settled: over real HTTP, at least once, by one process at a time."""

import asyncio
import logging
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from asyncagents.app.assemble import Setup
from asyncagents.app.workplaces import fixed_tools
from asyncagents.config.config import AsyncToolsConfig, WebhooksConfig
from asyncagents.config.secret import Secret
from asyncagents.domain.call.call import Completed
from asyncagents.domain.call.webhook import SESSION_DELETED
from asyncagents.domain.event import SessionIdle
from asyncagents.domain.id import CallId
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.engine.tool import Pending, Tool, ToolContext
from asyncagents.engine.webhook.delivery import DeliveryResponse, SignedRequest, WebhookResponse
from asyncagents.errors import Conflict, InvalidInput, NotFound
from asyncagents.llm.scripted import ScriptedModel, call, say
from asyncagents.testing.clock import FakeClock
from asyncagents.testing.inside import inside
from asyncagents.tools.web.webhook_sender import open_webhook_sender
from tests.support.runtime import open_runtime, open_sqlite_runtime, open_stage
from tests.support.tool import NoArguments, build_pending_tool
from tests.support.webhook.receiver import (
    LOCAL_WEBHOOKS,
    WebhookReceiver,
    open_receiver,
    wait_until_deliveries,
    wait_until_state,
)

SCRIPT = {"ship": [[call("deploy")], [say("Shipped.")]]}
SECRET = "whsec_b3VyIHNlY3JldCwgYWdyZWVkIG9u"


def deploy(receiver: WebhookReceiver, **more: Any) -> Tool[NoArguments]:
    return build_pending_tool("deploy", webhook_url=receiver.url, **more)


async def waiting(runtime: Runtime) -> CallId:
    (one,) = await runtime.async_tools.waiting_calls()
    return one.id


@pytest.mark.spec("P-12")
async def test_a_settled_call_sends_a_signed_webhook_with_its_result(tmp_path: Path) -> None:
    async with open_receiver() as receiver:
        tool = deploy(receiver, webhook_secret=Secret(SECRET))
        async with open_stage(tmp_path, SCRIPT, tools=[tool], async_tools=LOCAL_WEBHOOKS) as at:
            await at.prompt("ship")
            call_id = await waiting(at.runtime)
            await at.runtime.async_tools.submit_result(
                call_id, "v2 is live", title="Deployed", metadata={"v": 2}
            )
            told = await receiver.until()
            (known_delivery,) = await wait_until_state(at.runtime, "delivered")
            await at.listener.until(SessionIdle)

    result = {"title": "Deployed", "output": "v2 is live", "metadata": {"v": 2}}
    assert told.json == {"pendingID": call_id, "result": result}
    assert told.path == "/hook?token=hush"
    assert told.headers["content-type"] == "application/json"
    assert told.is_signed_with(SECRET)
    assert not told.is_signed_with(SECRET + "AAAA")
    assert known_delivery.id == told.id
    assert known_delivery.pending_id == call_id
    assert known_delivery.attempts == 1
    assert known_delivery.error is None
    assert len(receiver.received) == 1


@pytest.mark.spec("P-12")
async def test_a_failure_a_cancel_and_an_abort_are_sent_as_errors(tmp_path: Path) -> None:
    script = {"ship": [[call("deploy", n=n) for n in range(3)], [say("So be it.")]]}
    async with (
        open_receiver() as receiver,
        open_stage(tmp_path, script, tools=[deploy(receiver)], async_tools=LOCAL_WEBHOOKS) as at,
    ):
        await at.prompt("ship")
        first, second, third = await at.runtime.async_tools.waiting_calls()
        await at.runtime.async_tools.submit_error(first.id, "no route")
        await at.runtime.async_tools.cancel(second.id)
        await receiver.until(2)
        await at.abort()
        await receiver.until(3)
        await wait_until_state(at.runtime, "delivered", many=3)

    told = {each.json["pendingID"]: each.json["error"] for each in receiver.received}
    assert told[first.id] == "no route"
    assert told[second.id] == "cancelled"
    assert "abort" in told[third.id].lower()


@pytest.mark.spec("P-12")
async def test_a_webhook_without_a_secret_is_signed_with_that_of_its_call(tmp_path: Path) -> None:
    """Also if the key of the store has changed since."""
    secrets: list[str] = []

    async with open_receiver() as receiver:

        async def run(args: NoArguments, context: ToolContext) -> Pending:
            secrets.append((await context_secret(at.runtime, context)).reveal())
            return Pending(webhook_url=receiver.url)

        tool = Tool("deploy", NoArguments, run)
        async with open_stage(tmp_path, SCRIPT, tools=[tool], async_tools=LOCAL_WEBHOOKS) as at:
            await at.prompt("ship")
            await at.runtime.async_tools.rotate_key()
            await at.runtime.async_tools.submit_result(await waiting(at.runtime), "v2")
            told = await receiver.until()
            await wait_until_state(at.runtime, "delivered")

    assert told.is_signed_with(secrets[0])
    assert told.headers["webhook-signature"].count("v1,") == 2


async def context_secret(runtime: Runtime, context: ToolContext) -> Secret:
    """As an async tool is told it."""
    return await runtime.async_tools._webhook.keys.secret(context.call_id)


@pytest.mark.spec("P-12")
async def test_a_result_that_came_before_the_tool_returned_is_delivered(tmp_path: Path) -> None:
    started, go = asyncio.Event(), asyncio.Event()
    async with open_receiver() as receiver:

        async def run(args: NoArguments, context: ToolContext) -> Pending:
            started.set()
            await go.wait()
            return Pending(webhook_url=receiver.url, webhook_secret=Secret(SECRET))

        tool = Tool("deploy", NoArguments, run)
        async with open_stage(tmp_path, SCRIPT, tools=[tool], async_tools=LOCAL_WEBHOOKS) as at:
            prompt = asyncio.ensure_future(at.prompt("ship"))
            await started.wait()
            (running,) = await inside(at.runtime).store.calls(at.session_id)
            await inside(at.runtime).store.settle(running.id, Completed("early"))
            go.set()
            await prompt
            told = await receiver.until()
            await wait_until_state(at.runtime, "delivered")

    assert told.json["result"]["output"] == "early"
    assert told.is_signed_with(SECRET)


@pytest.mark.spec("P-12")
async def test_a_failed_delivery_is_tried_again_later_under_the_same_id(tmp_path: Path) -> None:
    """The receiver is down when the first process runs, and answers when a later one does."""
    clock = FakeClock()
    async with open_receiver() as receiver, open_webhook_sender(("127.0.0.1",)) as post:
        receiver.answers = [500, 404]
        tool = deploy(receiver, webhook_secret=Secret(SECRET))
        setup = Setup(model=ScriptedModel(SCRIPT), open_workplaces=fixed_tools([tool]), post=post)
        async with open_sqlite_runtime(tmp_path, setup, clock=clock) as runtime:
            session = await runtime.create_session(directory=tmp_path)
            await runtime.prompt(session.id, "ship")
            await runtime.async_tools.submit_result(await waiting(runtime), "v2")
            (failed,) = await wait_until_deliveries(runtime, lambda each: each.error)
        clock.advance(6_000)
        async with open_sqlite_runtime(tmp_path, setup, clock=clock) as runtime:
            (again,) = await wait_until_deliveries(
                runtime, lambda each: each.attempts == 2 and "404" in each.error
            )
        clock.advance(400_000)
        async with open_sqlite_runtime(tmp_path, setup, clock=clock) as runtime:
            (ended,) = await wait_until_state(runtime, "delivered")

    assert failed.error == "the receiver answered 500"
    assert failed.time.next is not None
    assert 5_000 <= failed.time.next - failed.time.created < 5_500
    assert again.state == "owed"
    assert ended.attempts == 3
    assert ended.error is None
    first, second, third = receiver.received
    assert {first.id, second.id, third.id} == {ended.id}
    assert first.body == second.body == third.body
    assert len({each.headers["webhook-timestamp"] for each in receiver.received}) == 3
    assert all(each.is_signed_with(SECRET) for each in receiver.received)


@pytest.mark.spec("P-12")
async def test_a_delivery_answered_with_410_is_dead_until_it_is_redelivered(tmp_path: Path) -> None:
    async with open_receiver() as receiver:
        receiver.answers = [410]
        async with open_stage(tmp_path, SCRIPT, tools=[deploy(receiver)], async_tools=LOCAL_WEBHOOKS) as at:
            await at.prompt("ship")
            await at.runtime.async_tools.submit_result(await waiting(at.runtime), "v2")
            (dead,) = await wait_until_state(at.runtime, "dead")
            assert [each.id for each in await at.runtime.deliveries.list("dead")] == [dead.id]
            again = await at.runtime.deliveries.redeliver(dead.id)
            (ended,) = await wait_until_state(at.runtime, "delivered")
            with pytest.raises(Conflict, match="was delivered"):
                await at.runtime.deliveries.redeliver(dead.id)

    assert again.state == "owed"
    assert dead.attempts == 1
    assert ended.attempts == 1
    assert "410" in (dead.error or "")
    assert [each.id for each in receiver.received] == [dead.id, dead.id]


@pytest.mark.spec("P-12")
@pytest.mark.parametrize(
    ("config", "why"),
    [
        (AsyncToolsConfig(), "webhooks are off"),
        (AsyncToolsConfig(webhooks=WebhooksConfig(enabled=True)), "127.0.0.1 is not a public address"),
    ],
)
async def test_a_delivery_that_is_not_configured_is_dead_and_can_be_redelivered(
    tmp_path: Path, config: AsyncToolsConfig, why: str
) -> None:
    async with open_receiver() as receiver:
        async with open_stage(tmp_path, SCRIPT, tools=[deploy(receiver)], async_tools=config) as at:
            await at.prompt("ship")
            await at.runtime.async_tools.submit_result(await waiting(at.runtime), "v2")
            (dead,) = await wait_until_state(at.runtime, "dead")
        assert receiver.received == []
        async with open_runtime(tmp_path, model=ScriptedModel({}), async_tools=LOCAL_WEBHOOKS) as runtime:
            assert [each.state for each in await runtime.deliveries.list()] == ["dead"]
            await runtime.deliveries.redeliver(dead.id)
            await wait_until_state(runtime, "delivered")

    assert why in (dead.error or "")
    assert len(receiver.received) == 1


@pytest.mark.spec("P-12")
async def test_each_webhook_is_sent_by_one_of_two_runtimes(tmp_path: Path) -> None:
    script = {f"ship {n}": [[call("deploy")], [say("Shipped.")]] for n in range(12)}
    async with open_receiver() as receiver:
        tools = [deploy(receiver)]
        async with (
            open_runtime(
                tmp_path, model=ScriptedModel(script), tools=tools, async_tools=LOCAL_WEBHOOKS
            ) as one,
            open_runtime(
                tmp_path, model=ScriptedModel(script), tools=tools, async_tools=LOCAL_WEBHOOKS
            ) as two,
        ):
            for n in range(12):
                session = await one.create_session(directory=tmp_path)
                await one.prompt(session.id, f"ship {n}")
            calls = await two.async_tools.waiting_calls()
            await asyncio.gather(
                *(
                    runtime.async_tools.submit_result(each.id, "v2")
                    for each in calls
                    for runtime in (one, two)
                )
            )
            await wait_until_state(two, "delivered", many=12)

    assert Counter(each.json["pendingID"] for each in receiver.received) == {each.id: 1 for each in calls}


async def test_a_webhook_owed_by_another_process_is_sent_by_the_serving_one(tmp_path: Path) -> None:
    """Whoever gave the result does not post, and need not stay."""
    async with open_receiver() as receiver:
        tools = [deploy(receiver)]
        async with open_stage(tmp_path, SCRIPT, tools=tools, async_tools=LOCAL_WEBHOOKS) as at:
            await at.prompt("ship")
            async with open_runtime(tmp_path, model=ScriptedModel({}), serve=False) as other:
                await other.async_tools.submit_result(await waiting(other), "v2")
            await receiver.until()
            await wait_until_state(at.runtime, "delivered")


async def test_a_runtime_that_serves_one_tree_sends_webhooks_of_that_tree_only(tmp_path: Path) -> None:
    script = {f"ship {n}": [[call("deploy")], [say("Shipped.")]] for n in range(2)}
    async with open_receiver() as receiver:
        tools = [deploy(receiver)]
        async with open_runtime(tmp_path, model=ScriptedModel(script), tools=tools) as runtime:
            sessions = [await runtime.create_session(directory=tmp_path) for _ in range(2)]
            for n, session in enumerate(sessions):
                await runtime.prompt(session.id, f"ship {n}")
        more: dict[str, Any] = {"tools": tools, "async_tools": LOCAL_WEBHOOKS, "serve": False}
        async with open_runtime(tmp_path, model=ScriptedModel(script), **more) as runtime:
            for each in await runtime.async_tools.waiting_calls():
                await runtime.async_tools.submit_result(each.id, "v2")
            runtime.serve_tree(sessions[1].id)
            (told,) = await wait_until_state(runtime, "delivered")
            (left,) = await runtime.deliveries.list("owed")

    assert told.session_id == sessions[1].id
    assert left.session_id == sessions[0].id
    assert left.attempts == 0
    assert len(receiver.received) == 1


@pytest.mark.spec("P-12")
async def test_deleting_a_session_keeps_its_owed_deliveries(tmp_path: Path) -> None:
    async with open_receiver() as receiver:
        script = {"ship": [[call("deploy"), call("deploy")], [say("Shipped.")]]}
        async with open_stage(tmp_path, script, tools=[deploy(receiver)], serve=True) as at:
            await at.prompt("ship")
            first, second = await at.runtime.async_tools.waiting_calls()
        async with open_runtime(tmp_path, model=ScriptedModel({}), serve=False) as runtime:
            await runtime.async_tools.submit_result(first.id, "v2")
            await runtime.delete_session(at.session_id)
        async with open_runtime(tmp_path, model=ScriptedModel({}), async_tools=LOCAL_WEBHOOKS) as runtime:
            await wait_until_state(runtime, "delivered", many=2)

    told = {each.json["pendingID"]: each.json for each in receiver.received}
    assert told[first.id]["result"]["output"] == "v2"
    assert told[second.id]["error"] == SESSION_DELETED


@pytest.mark.spec("P-12")
async def test_a_post_that_is_broken_off_by_the_end_of_its_process_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("asyncagents.engine.webhook.delivery_loop.GRACE_SECONDS", 0)
    async with open_receiver() as receiver:
        receiver.silent = True
        async with open_stage(tmp_path, SCRIPT, tools=[deploy(receiver)], async_tools=LOCAL_WEBHOOKS) as at:
            await at.prompt("ship")
            await at.runtime.async_tools.submit_result(await waiting(at.runtime), "v2")
            first = await receiver.until()
        receiver.silent = False
        async with open_runtime(tmp_path, model=ScriptedModel({}), async_tools=LOCAL_WEBHOOKS) as runtime:
            (known_delivery,) = await wait_until_state(runtime, "delivered")

    assert known_delivery.attempts == 1
    assert [each.id for each in receiver.received] == [first.id, first.id]


async def test_a_close_waits_for_a_webhook_that_is_being_sent(tmp_path: Path) -> None:
    async with open_receiver() as receiver:
        async with open_stage(tmp_path, SCRIPT, tools=[deploy(receiver)], async_tools=LOCAL_WEBHOOKS) as at:
            await at.prompt("ship")
            await at.runtime.async_tools.submit_result(await waiting(at.runtime), "v2")
            await receiver.until()
        async with open_runtime(tmp_path, model=ScriptedModel({}), serve=False) as runtime:
            (known_delivery,) = await runtime.deliveries.list()

    assert known_delivery.state == "delivered"
    assert known_delivery.attempts == 1


async def test_a_receiver_that_never_answers_is_left_after_the_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("asyncagents.engine.webhook.delivery_loop.DEADLINE_SECONDS", 0.05)
    async with open_receiver() as receiver:
        receiver.silent = True
        async with open_stage(tmp_path, SCRIPT, tools=[deploy(receiver)], async_tools=LOCAL_WEBHOOKS) as at:
            await at.prompt("ship")
            await at.runtime.async_tools.submit_result(await waiting(at.runtime), "v2")
            (failed,) = await wait_until_deliveries(at.runtime, lambda each: each.error)

    assert failed.state == "owed"
    assert ("did not answer" in (failed.error or "")) is True


async def test_a_silent_receiver_does_not_delay_other_deliveries(tmp_path: Path) -> None:
    """Ten webhooks to it are owed; two are under way, and others pass by."""
    script = {"ship": [[call("deploy", n=n) for n in range(10)] + [call("quick")], [say("Shipped.")]]}
    tools = [
        build_pending_tool("deploy", webhook_url="https://silent.test/"),
        build_pending_tool("quick", webhook_url="https://quick.test/"),
    ]
    posts = _Counted()
    setup = Setup(model=ScriptedModel(script), open_workplaces=fixed_tools(tools), post=posts)
    async with open_sqlite_runtime(tmp_path, setup) as runtime:
        session = await runtime.create_session(directory=tmp_path)
        await runtime.prompt(session.id, "ship")
        for each in await runtime.async_tools.waiting_calls():
            await runtime.async_tools.submit_result(each.id, "v2")
        (quick,) = await wait_until_state(runtime, "delivered")
        posts.go.set()
        await wait_until_state(runtime, "delivered", many=11)

    assert quick.url == "https://quick.test/"
    assert posts.most == 2


class _Counted:
    """A post that holds up whatever goes to one host, and counts."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self._now = 0
        self.most = 0

    async def __call__(self, request: SignedRequest) -> DeliveryResponse:
        if "silent" not in request.url:
            return WebhookResponse(200)
        self._now += 1
        self.most = max(self.most, self._now)
        await self.go.wait()
        self._now -= 1
        return WebhookResponse(200)


async def test_an_exception_during_a_delivery_is_recorded_as_its_failure(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(request: SignedRequest) -> DeliveryResponse:
        raise RuntimeError(f"cannot post to {request.url}")

    tool = build_pending_tool("deploy", webhook_url="https://x.test/?token=hush")
    setup = Setup(model=ScriptedModel(SCRIPT), open_workplaces=fixed_tools([tool]), post=broken)
    async with open_sqlite_runtime(tmp_path, setup) as runtime:
        session = await runtime.create_session(directory=tmp_path)
        await runtime.prompt(session.id, "ship")
        await runtime.async_tools.submit_result(await waiting(runtime), "v2")
        (failed,) = await wait_until_deliveries(runtime, lambda each: each.error)

    assert failed.state == "owed"
    assert failed.error == "sending failed: RuntimeError"
    assert "hush" not in caplog.text


@pytest.mark.parametrize("answers", [[], [500], [410]])
async def test_neither_secrets_nor_tokens_are_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, answers: list[int]
) -> None:
    caplog.set_level(logging.DEBUG)
    async with open_receiver() as receiver:
        receiver.answers = answers
        tool = deploy(receiver, webhook_secret=Secret(SECRET))
        async with open_stage(tmp_path, SCRIPT, tools=[tool], async_tools=LOCAL_WEBHOOKS) as at:
            await at.prompt("ship")
            await at.runtime.async_tools.submit_result(await waiting(at.runtime), "v2")
            (known_delivery,) = await wait_until_deliveries(
                at.runtime, lambda each: each.attempts and (each.error or each.time.ended)
            )

    assert f"webhook={known_delivery.id}" in caplog.text
    assert "http://127.0.0.1:" in caplog.text
    assert (SECRET in caplog.text) is False
    assert ("hush" in caplog.text) is False


async def test_invalid_queries_for_deliveries_are_refused(tmp_path: Path) -> None:
    async with open_runtime(tmp_path, model=ScriptedModel({}), serve=False) as runtime:
        assert await runtime.deliveries.list() == ()
        with pytest.raises(InvalidInput, match="owed, delivered, dead"):
            await runtime.deliveries.list("lost")  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="limit"):
            await runtime.deliveries.list(limit=0)
        with pytest.raises(NotFound):
            await runtime.deliveries.get("dlv_1")


async def test_a_large_result_is_sent_whole(tmp_path: Path) -> None:
    async with (
        open_receiver() as receiver,
        open_stage(tmp_path, SCRIPT, tools=[deploy(receiver)], async_tools=LOCAL_WEBHOOKS) as at,
    ):
        await at.prompt("ship")
        await at.runtime.async_tools.submit_result(await waiting(at.runtime), "é" * 400_000)
        told = await receiver.until()
        await wait_until_state(at.runtime, "delivered")

    assert told.json["result"]["output"] == "é" * 400_000
