"""docs/webhooks-out.md: its receiver accepts the webhook of its tool, and its numbers are right."""

import re
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from asyncagents.app.assemble import Setup
from asyncagents.app.workplaces import fixed_tools
from asyncagents.config.config import WebhooksConfig
from asyncagents.engine.webhook.delivery import (
    RETRY_PAUSES_MS,
    DeliveryResponse,
    SignedRequest,
    WebhookResponse,
)
from asyncagents.engine.webhook.delivery_loop import DEADLINE_SECONDS, MAX_CONCURRENT, MAX_PER_HOST
from asyncagents.llm.scripted import ScriptedModel, call, say
from tests.support.runtime import open_sqlite_runtime
from tests.support.webhook.receiver import wait_until_state

PAGE = (Path(__file__).resolve().parents[2] / "docs/webhooks-out.md").read_text(encoding="utf-8")


@pytest.mark.spec("P-12", "X-07")
async def test_a_webhook_of_the_page_tool_is_genuine_to_the_page_receiver(tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        exec(block, names)
    posted: list[SignedRequest] = []

    async def post(request: SignedRequest) -> DeliveryResponse:
        posted.append(request)
        return WebhookResponse(200)

    model = ScriptedModel({"go": [[call("review", change="#7")], [say("Fine.")]]})
    setup = Setup(
        model=model, open_workplaces=fixed_tools([names["review"]], lambda ask, context: "allow"), post=post
    )
    async with open_sqlite_runtime(tmp_path, setup) as runtime:
        session = await runtime.create_session(directory=tmp_path)
        await runtime.prompt(session.id, "go")
        (waiting,) = await runtime.async_tools.waiting_calls()
        await runtime.async_tools.submit_result(waiting.id, "approved")
        await wait_until_state(runtime, "delivered")

    (request,) = posted
    secret = re.findall(r'Secret\("(.*?)"\)', PAGE)[0]
    assert request.url in PAGE
    assert names["is_genuine"](secret, request.headers, request.body)
    assert not names["is_genuine"](secret, request.headers, request.body + b" ")
    assert not names["is_genuine"](secret[:-4], request.headers, request.body)
    stale = {**request.headers, "webhook-timestamp": str(int(time.time()) - 900)}
    assert not names["is_genuine"](secret, stale, request.body)


def test_the_figures_and_keys_of_the_page_are_those_of_the_program() -> None:
    seconds, *rest = (each // 1000 for each in RETRY_PAUSES_MS)
    minutes, hours = [each // 60 for each in rest[:2]], [each // 3600 for each in rest[2:]]
    told = f"about {seconds} s, {minutes[0]} min, {minutes[1]} min, {', '.join(map(str, hours[:-1]))}"
    assert f"{told} and {hours[-1]} h" in PAGE
    assert f"in {DEADLINE_SECONDS:.0f} s" in PAGE
    limits = f"at most {MAX_CONCURRENT} webhooks at once, and {MAX_PER_HOST} to one host"
    assert limits in " ".join(PAGE.split())
    (block,) = re.findall(r"^```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    webhooks = msgspec.json.decode(block)["async_tools"]["webhooks"]
    assert msgspec.convert(webhooks, WebhooksConfig).enabled
