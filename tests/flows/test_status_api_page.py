"""docs/status-api.md: the server answers its requests as it shows, and its programs run."""

import asyncio
import shlex
from contextlib import aclosing
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import ClientSession

from asyncagents.llm.scripted import call, fail, say
from tests.support.delegation import RequestScript, launch_task, task_named, wait_until_quiet
from tests.support.fenced_block import read_blocks
from tests.support.http.server import StageClient, serve_delegation
from tests.support.page import code_blocks
from tests.support.tool import ECHO
from tests.support.wait import PATIENCE

PAGE = "status-api.md"
SCENES: RequestScript = {
    "go": [
        [launch_task("Read the parser", "parser"), launch_task("Read the printer", "printer")],
        [say("Off they go.")],
    ],
    "parser": [[call("echo", text="x")], [say("It has no tests for empty input.")]],
    "printer": [[fail("the provider is overloaded")]],
}


def asked() -> list[tuple[str, Any]]:
    """Return the URLs that the page requests with curl, each with the answer that the page shows."""
    blocks = [block for block in read_blocks(f"docs/{PAGE}") if not block.is_excerpt]
    return [
        (shlex.split(request.text.splitlines()[-1])[-1], msgspec.json.decode(answer.text))
        for request, answer in pairwise(blocks)
        if (request.language, answer.language) == ("sh", "json")
    ]


def shape(value: Any) -> Any:
    """What it is made of, whatever its words and numbers are."""
    match value:
        case dict():
            return {key: shape(each) for key, each in value.items()}
        case list():
            return [shape(each) for each in value]
        case _:
            return type(value)


async def _did(at: StageClient) -> dict[str, str]:
    await at.stage.prompt("go")
    await wait_until_quiet(at.runtime, at.stage.session_id)
    group = (await task_named(at.runtime, "Read the parser")).batch_id
    return {"$URL": "", "$GROUP": group, "$SESSION": at.stage.session_id}


@pytest.mark.spec("H-03", "H-05", "H-07")
async def test_responses_have_the_shape_that_the_page_shows(tmp_path: Path) -> None:
    async with serve_delegation(tmp_path, SCENES, ECHO) as at:
        words = await _did(at)
        for path, said in asked():
            for name, word in words.items():
                path = path.replace(name, word)
            answer = await at.json(path)
            if "stats" in answer and "tasks" in answer:
                answer["tasks"] = []  # as the page does
            assert shape(answer) == shape(said), path
    assert len(asked()) == 5


@pytest.mark.spec("H-06")
async def test_the_dashboard_of_the_page_shows_the_tasks_of_the_board(tmp_path: Path) -> None:
    room: dict[str, Any] = {}
    exec(code_blocks(PAGE)[0], room)
    async with (
        serve_delegation(tmp_path, SCENES, ECHO) as at,
        aclosing(room["watch"](at.listing.url)) as boards,
    ):
        assert await anext(boards) == {}
        await _did(at)
        wanted = {task["sessionID"]: task for task in (await at.json("/v1/tasks"))["tasks"]}
        async for board in boards:
            if board == wanted:
                break
    assert len(board) == 2


@pytest.mark.spec("H-10")
async def test_the_program_of_the_page_serves_its_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    told: asyncio.Queue[str] = asyncio.Queue()
    room: dict[str, Any] = {"__name__": "page", "print": lambda said, url: told.put_nowait(url)}
    exec(code_blocks(PAGE)[1], room)
    async with asyncio.TaskGroup() as group, asyncio.timeout(PATIENCE), ClientSession() as http:
        program = group.create_task(room["main"]())
        async with http.get(await told.get()) as answer:
            page = await answer.json()
        program.cancel()
    assert page == {"tasks": [], "total": 0, "limit": 50, "offset": 0}
