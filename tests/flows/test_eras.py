"""Years from now: a terminal makes ids without an era, and conversations are in order all the same."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from asyncagents.app.assemble import Setup
from asyncagents.app.workplaces import fixed_tools
from asyncagents.archive.export import export_to
from asyncagents.archive.import_ import import_from
from asyncagents.config.clock import SystemClock
from asyncagents.domain.id import MessageId
from asyncagents.llm.model import UserTurn
from asyncagents.llm.scripted import ScriptedModel
from asyncagents.testing.inside import inside
from tests.support.era import (
    IN_2029,
    IN_2031,
    IN_2040,
    WRAP,
    AheadClock,
    opencode_id,
    prompt_ahead,
    serve_ahead,
)
from tests.support.http.server import StageClient
from tests.support.runtime import open_sqlite_runtime
from tests.support.transfer import RECORDED, ROOT_ID, open_other_store
from tests.support.wait import PATIENCE

MINUTE = 60_000


async def talk(at: StageClient, clock: AheadClock, *texts: str) -> list[str]:
    """Ids of what is said, as it is said."""
    said: list[str] = []
    for text in texts:
        message_id, answer = await prompt_ahead(at, clock, text)
        assert answer["info"]["parentID"] == message_id
        said += message_id, answer["info"]["id"]
    return said


async def order(at: StageClient, session_id: str | None = None) -> list[str]:
    found = await at.get(f"/session/{session_id or at.stage.session_id}/message")
    return [each["info"]["id"] for each in found.json]


async def paged(at: StageClient) -> list[str]:
    """By cursors, a few at a time."""
    found: list[str] = []
    url = f"{at.listing.url}/session/{at.stage.session_id}/message?limit=3"
    token = {"authorization": f"Bearer {at.listing.token}"}
    cursor = ""
    while True:
        async with at.http.get(f"{url}{cursor}", headers=token) as response:
            found = [*(each["info"]["id"] for each in await response.json()), *found]
            if "x-next-cursor" not in response.headers:
                return found
            cursor = f"&before={response.headers['x-next-cursor']}"


def texts(message: Any) -> list[str]:
    return [part["text"] for part in message["parts"] if part["type"] == "text"]


@pytest.mark.spec("Z-08")
@pytest.mark.parametrize("now", [IN_2029, IN_2031, IN_2040])
async def test_prompts_undo_and_forks_work_with_ids_of_later_eras(tmp_path: Path, now: int) -> None:
    clock = AheadClock(now)
    async with serve_ahead(tmp_path, clock) as at:
        where = f"/session/{at.stage.session_id}"
        said = await talk(at, clock, "one", "two", "three")
        assert await order(at) == await paged(at) == said
        one = await at.get(f"{where}/message/{said[2]}")
        assert one.json["info"]["id"] == said[2]
        assert texts(one.json) == ["two", "please"]
        answer = await at.get(f"/v1/messages/{said[2]}/answer")
        assert answer.json["answer"]["info"]["id"] == said[3]
        fork = (await at.post(f"{where}/fork", {"messageID": said[4]})).json
        forked = [texts(each) for each in (await at.get(f"/session/{fork['id']}/message")).json]
        assert forked == [["one", "please"], ["ok"], ["two", "please"], ["ok"]]
        undone = await at.post(f"{where}/revert", {"messageID": said[3]})
        assert undone.json["revert"]["messageID"] == said[2]
        more = await talk(at, clock, "four")
        assert await order(at) == [*said[:2], *more]
        told = [each.text for each in at.stage.request_messages() if isinstance(each, UserTurn)]
        assert told == ["one\nplease", "four\nplease"]
        listed = [each["id"] for each in (await at.get("/session")).json]
        assert listed == [at.stage.session_id, fork["id"]], "the last used first"
        roots = [each.id for each in await at.stage.runtime.roots(tmp_path)]
        assert roots == [fork["id"], at.stage.session_id], "the newest first"


@pytest.mark.spec("Z-08")
async def test_a_conversation_stays_in_order_when_the_era_changes(tmp_path: Path) -> None:
    clock = AheadClock(WRAP - 10 * MINUTE)
    async with serve_ahead(tmp_path, clock) as at:
        first = await talk(at, clock, "one", "two")
        clock.set(WRAP + 1)
        later = await at.stage.runtime.create_session(directory=tmp_path)
        second = await talk(at, clock, "three", "four")
        ours = await at.post(f"/session/{at.stage.session_id}/message", {"parts": [text("five")]})
        said = [*first, *second, ours.json["info"]["parentID"], ours.json["info"]["id"]]
        assert await order(at) == await paged(at) == said
        assert [each[4] for each in (first[1], second[1], said[4], said[-1])] == ["f", "g", "0", "g"]
        told = [each.text for each in at.stage.request_messages() if isinstance(each, UserTurn)]
        assert told == ["one\nplease", "two\nplease", "three\nplease", "four\nplease", "five"]
        roots = [each.id for each in await at.stage.runtime.roots(tmp_path)]
        assert roots == [later.id, at.stage.session_id]
        assert later.id.startswith("ses_-")
        undone = await at.post(f"/session/{at.stage.session_id}/revert", {"messageID": said[4]})
        assert undone.status == 200
        assert await order(at) == said
        more = await talk(at, clock, "six")
        assert await order(at) == [*said[:4], *more]


def text(said: str, **more: str) -> dict[str, str]:
    return {"type": "text", "text": said, **more}


@pytest.mark.spec("Z-08")
async def test_parts_that_a_terminal_names_while_its_ids_start_over_keep_their_order(tmp_path: Path) -> None:
    clock = AheadClock(WRAP - 2_000)
    before = opencode_id(clock, "prt")
    async with serve_ahead(tmp_path, clock) as at:
        clock.set(WRAP + 1)
        after = opencode_id(clock, "prt")
        assert after < before
        where = f"/session/{at.stage.session_id}/message"
        said = await at.post(where, {"parts": [text("one", id=before), text("two", id=after)]})
        assert said.status == 200
        assert texts((await at.get(where)).json[0]) == ["one", "two"]
        later = opencode_id(clock, "prt", 9)
        wrong = await at.post(where, {"parts": [text("one", id=later), text("two", id=after)]})
        assert wrong.status == 400


@pytest.mark.spec("Z-08", "P-13")
async def test_a_conversation_of_two_eras_is_exported_and_imported_in_its_order(tmp_path: Path) -> None:
    clock = AheadClock(WRAP - MINUTE)
    async with serve_ahead(tmp_path / "here", clock) as at:
        session_id = at.stage.session_id
        said = await talk(at, clock, "one")
        clock.set(WRAP + MINUTE)
        said += await talk(at, clock, "two", "three")
        done = await export_to(at.stage.runtime, tmp_path / "files", (session_id,))
        assert not done.troubles
    model = ScriptedModel({})
    setup = Setup(model=model, open_workplaces=fixed_tools([]))
    async with open_sqlite_runtime(tmp_path / "there", setup, clock=clock) as runtime:
        imported = await import_from(runtime, tmp_path / "files")
        assert [each.outcome for each in imported.taken] == ["imported"]
        assert [each.info.id for each in await runtime.messages(session_id)] == said
        named = MessageId(opencode_id(clock))
        answer = await asyncio.wait_for(runtime.prompt(session_id, "four", message_id=named), PATIENCE)
        assert [each.info.id for each in await runtime.messages(session_id)] == [*said, named, answer.info.id]
    told = [each.text for each in model.requests[-1].messages if isinstance(each, UserTurn)]
    assert told == ["one\nplease", "two\nplease", "three\nplease", "four"]


AUGUST = 26 << 36
"""2026-08-14: OpenCode's ids have started over before."""


def shifted(document: dict[str, Any], before: int) -> list[str]:
    """As if OpenCode's ids had started over after so many messages of it; the ids in their order."""
    messages = document["messages"]
    said: list[str] = []
    for number, message in enumerate(messages):
        at = AUGUST + (number - before) * MINUTE
        message_id = f"msg_{at * 4096 & (1 << 48) - 1:012x}{'D' * 14}"
        renamed = json.dumps(messages).replace(message["info"]["id"], message_id)
        messages[:] = json.loads(renamed)
        messages[number]["info"]["time"] = {"created": at, "completed": at + 1}
        said.append(message_id)
    return said


@pytest.mark.spec("Z-08", "P-13")
@pytest.mark.parametrize("before", [2, 1_000])
async def test_a_conversation_of_opencode_goes_on_in_its_order_though_its_ids_started_over(
    tmp_path: Path, before: int
) -> None:
    document = json.loads(RECORDED.read_text())
    said = shifted(document, before)
    (tmp_path / "export.json").write_text(json.dumps(document))
    async with open_other_store(tmp_path / "data") as (runtime, _):
        await import_from(runtime, tmp_path / "export.json", directory=tmp_path)
        assert [each.info.id for each in await runtime.messages(ROOT_ID)] == said
        history = await inside(runtime).store.model_history(ROOT_ID, whole=True)
        read = [each.info.id for each in history.entries]
        assert read == [each for each in said if each in read]
        named = MessageId(opencode_id(AheadClock(SystemClock().now())))
        answer = await asyncio.wait_for(runtime.prompt(ROOT_ID, "and?", message_id=named), PATIENCE)
        assert [each.info.id for each in await runtime.messages(ROOT_ID)] == [*said, named, answer.info.id]
