"""`asyncagents webhooks`: a person sees what could not be told, and has it tried again."""

from pathlib import Path

import pytest

from asyncagents import ScriptedModel, open_runtime
from asyncagents.llm.scripted import call, say
from tests.support.process.command_line import Desk, open_desk
from tests.support.tool import build_pending_tool
from tests.support.webhook.receiver import LOCAL_WEBHOOKS, open_receiver, wait_until_state

SCRIPT = {"ship": [[call("deploy")], [say("Shipped.")]]}


async def given_up(desk: Desk, url: str) -> str:
    """A webhook that nobody was allowed to post."""
    tools = [build_pending_tool("deploy", webhook_url=url)]
    async with open_runtime(desk.data, model=ScriptedModel(SCRIPT), tools=tools) as runtime:
        session = await runtime.create_session(directory=desk.project)
        await runtime.prompt(session.id, "ship")
        (waiting,) = await runtime.async_tools.waiting_calls(session.id)
        await runtime.async_tools.submit_result(waiting.id, "v2")
        (dead,) = await wait_until_state(runtime, "dead")
    return dead.id


@pytest.mark.spec("P-12")
async def test_a_dead_webhook_is_listed_retried_and_then_delivered(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as (desk, _), open_receiver() as receiver:
        dead = await given_up(desk, receiver.url)
        listed = await desk.run("webhooks")
        as_json = await desk.run("webhooks", "--state", "dead", "--json")
        none = await desk.run("webhooks", "--state", "owed")
        wrong = await desk.run("webhooks", "--retry", dead, "--retry", "dlv_none")
        retried = await desk.run("webhooks", "--retry", dead)
        again = await desk.run("webhooks", "--retry", dead)
        async with open_runtime(desk.data, model=ScriptedModel({}), async_tools=LOCAL_WEBHOOKS) as runtime:
            await wait_until_state(runtime, "delivered")
        told = await desk.run("webhooks", "--json")

    assert listed.code == 0
    assert listed.out.split()[:2] == [dead, "dead"]
    assert "webhooks are off" in listed.out
    (row,) = as_json.json
    assert row["id"] == dead
    assert row["url"] == receiver.url
    assert row["attempts"] == 1
    assert not [key for key in row if "secret" in key.lower()]
    assert none.code == 0
    assert none.out == ""
    assert none.err == "no webhooks are owed\n"
    assert wrong.code == 2
    assert ("no delivery with id 'dlv_none'" in wrong.err) is True
    assert retried.code == 0
    assert retried.out.split()[:4] == [dead, "owed", "due", "now"]
    assert again.code == 2
    assert ("is not dead" in again.err) is True
    assert [each["state"] for each in told.json] == ["delivered"]
    assert len(receiver.received) == 1


async def test_listing_webhooks_without_a_store_creates_none(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as (desk, _):
        listed, as_json = await desk.run("webhooks"), await desk.run("webhooks", "--json")
        retried = await desk.run("webhooks", "--retry", "dlv_1")
        made = desk.data.exists()

    assert listed.code == 0
    assert listed.err == "no webhooks\n"
    assert as_json.json == []
    assert made is False
    assert retried.code == 2
    assert ("dlv_1" in retried.err) is True
