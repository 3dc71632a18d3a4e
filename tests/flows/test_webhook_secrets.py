"""Which secrets count for a webhook, and where none of them is ever seen."""

import asyncio
from pathlib import Path

import pytest

from asyncagents.app.assemble import Setup
from asyncagents.app.workplaces import fixed_tools
from asyncagents.config.config import AsyncToolsConfig
from asyncagents.config.secret import Secret
from asyncagents.domain.call.webhook_signature import sign_plain
from asyncagents.errors import NotFound, Unauthorized
from asyncagents.llm.model import ToolTurn
from asyncagents.llm.scripted import ScriptedModel
from asyncagents.server.http.messages import Request
from asyncagents.testing.clock import FakeClock
from asyncagents.testing.inside import inside
from tests.support.runtime import open_sqlite_runtime, open_stage
from tests.support.tool import Gate
from tests.support.webhook.delivery import (
    SCRIPT,
    UNKNOWN,
    WaitingService,
    assert_resumed_once,
    open_sender,
    result_body,
)


@pytest.mark.spec("P-06")
async def test_no_webhook_is_accepted_before_a_secret_exists(tmp_path: Path) -> None:
    setup = Setup(model=ScriptedModel(SCRIPT), open_workplaces=fixed_tools([]))
    async with open_sqlite_runtime(tmp_path, setup, clock=FakeClock()) as runtime:
        assert await runtime.async_tools.secrets(UNKNOWN) == ()
        with pytest.raises(Unauthorized):
            await runtime.async_tools.receive(
                {"X-Webhook-Signature": sign_plain("x", b"{}")}, result_body(UNKNOWN)
            )


def written(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


@pytest.mark.spec("P-01", "P-06")
async def test_the_secret_of_a_call_is_in_no_file_no_event_and_no_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    async with open_sender(tmp_path) as post:
        await post.send(post.build_signed(key=b"wrong"))
        await post.send(post.build_signed())
        await assert_resumed_once(post, "v2 is live")
        heard = repr(post.stage.listener.received) + repr(await post.stage.messages())
    kept = written(tmp_path)

    secret = post.secret.removeprefix("whsec_")
    assert post.id.encode() in kept
    assert secret.encode() not in kept
    assert secret not in heard + caplog.text


@pytest.mark.spec("P-06")
async def test_a_secret_chosen_by_the_service_is_accepted_and_not_revealed(tmp_path: Path) -> None:
    service = WaitingService(secret=Secret("chosen by the service"))
    async with open_sender(tmp_path, service) as post:
        chosen = await post.send(post.build_plain(secret="chosen by the service"))
        made = await post.send(post.build_signed())
        listed = await post.send(Request(method="GET", path=f"/async-tool/pending/{post.id}"))

    assert chosen.status == 200
    assert made.status == 200
    assert b"chosen" not in chosen.body + listed.body


@pytest.mark.spec("P-06")
async def test_secrets_that_services_share_are_rotated_by_configuration(tmp_path: Path) -> None:
    config = AsyncToolsConfig(secrets=(Secret("new one"), Secret("old one"), Secret("")))
    async with open_sender(tmp_path, async_tools=config) as post:
        gone, empty = await post.send(post.build_plain(secret="oldest one")), post.body
        blank = await post.send(post.build_webhook((("X-Webhook-Signature", sign_plain("", empty)),)))
        old = await post.send(post.build_plain(secret="old one"))
        new = await post.send(post.build_plain(result_body(post.other_id), secret="new one"))
        lost = await post.send(post.build_plain(result_body(UNKNOWN), secret="new one"))

    assert [answer.status for answer in (gone, blank, old, new, lost)] == [401, 401, 200, 200, 404]


@pytest.mark.spec("P-06")
async def test_secrets_given_out_before_a_key_rotation_are_still_accepted(
    tmp_path: Path,
) -> None:
    async with open_sender(tmp_path) as post:
        await post.tools.rotate_key()
        answer = await post.send(post.build_signed())

    assert answer.status == 200


@pytest.mark.spec("P-06")
async def test_a_shared_secret_does_not_settle_a_call_of_a_local_tool(tmp_path: Path) -> None:
    gate, config = Gate("deploy"), AsyncToolsConfig(secrets=(Secret("shared"),))
    async with open_stage(tmp_path, SCRIPT, tools=[gate.tool], async_tools=config) as at:
        prompt = asyncio.ensure_future(at.prompt("ship"))
        await gate.until_started()
        (running,) = await inside(at.runtime).store.calls(at.session_id)
        body = result_body(running.id)
        with pytest.raises(NotFound):
            await at.runtime.async_tools.receive({"X-Webhook-Signature": sign_plain("shared", body)}, body)
        gate.go.set()
        await prompt
        told = [told.output for told in at.request_messages() if isinstance(told, ToolTurn)]

    assert told == ["through"]
