"""What the first request of the agent `build` weighs, as it goes to a provider."""

import asyncio
import json
from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from asyncagents.config.config import DelegationConfig
from asyncagents.testing.provider import Reply, open_provider
from tests.support.git import create_repository
from tests.support.provider import PROVIDER_KEY, provider_config
from tests.support.runtime import open_runtime
from tests.support.wait import PATIENCE

MOST_CHARACTERS = 24_000
MOST_TOKENS = 400
"""Of both tools of the family `async_task` together."""
CHARACTERS_A_TOKEN = 4

wires = pytest.mark.parametrize("wire", ["chat", "messages"])


async def first_request(
    tmp_path: Path, wire: str, tools: Literal["asyncagents", "both"] | None = None
) -> dict[str, Any]:
    """The body that a provider gets for the first prompt, with these delegation tools or the default ones."""
    create_repository(tmp_path / "project", {})
    async with (
        open_provider(otherwise=Reply(text="Hello."), key=PROVIDER_KEY) as provider,
        asyncio.timeout(PATIENCE),
    ):
        settings = provider_config(provider, tmp_path / "data")
        if tools is not None:
            settings = replace(settings, delegation=DelegationConfig(tools=tools))
        async with open_runtime(
            tmp_path / "data", model=f"{wire}/small", config=settings, coding=True
        ) as runtime:
            session = await runtime.create_session(directory=tmp_path / "project")
            await runtime.prompt(session.id, "hi")
        bodies = [request.body for request in provider.requests if request.body.get("tools")]
    return bodies[0]


def written(body: Any) -> str:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


def names(body: dict[str, Any]) -> list[str]:
    return [(each.get("function") or each)["name"] for each in body["tools"]]


@wires
async def test_the_first_request_of_build_is_small(tmp_path: Path, wire: str) -> None:
    body = await first_request(tmp_path, wire)

    assert len(written(body)) <= MOST_CHARACTERS
    assert {"task", "asyncagents_task", "async_task", "async_task_result"} <= set(names(body))


@wires
async def test_no_tool_of_ours_has_a_reference_in_its_schema(tmp_path: Path, wire: str) -> None:
    tools = written((await first_request(tmp_path, wire, "both"))["tools"])

    assert "todowrite" in tools
    assert "question" in tools
    assert '"$ref"' not in tools
    assert '"$defs"' not in tools


@wires
async def test_the_family_async_task_costs_few_tokens(tmp_path: Path, wire: str) -> None:
    few = await first_request(tmp_path / "few", wire, "asyncagents")
    both = await first_request(tmp_path / "both", wire, "both")

    assert set(names(both)) - set(names(few)) == {"async_task", "async_task_result"}
    more = len(written(both["tools"])) - len(written(few["tools"]))
    assert more / CHARACTERS_A_TOKEN < MOST_TOKENS
