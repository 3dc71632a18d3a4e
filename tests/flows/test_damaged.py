"""A session with a row that cannot be read: 500 with a reason on its routes, all others go on."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from asyncagents.client import open_client
from asyncagents.domain.id import SessionId
from asyncagents.errors import Damaged
from asyncagents.llm.scripted import say
from tests.support.http.client import Response
from tests.support.http.cutting_proxy import open_cutting_proxy
from tests.support.http.server import StageClient, serve_delegation

SCRIPT = {"hi": [[say("Hello.")]]}
SAID = {"parts": [{"type": "text", "text": "hi"}]}
SPOIL = {
    "session": "UPDATE session SET info = '{no' WHERE id = ?",
    "message": "UPDATE message SET info = '{no' WHERE session_id = ?",
    "part": "UPDATE part SET body = '{no' WHERE session_id = ?",
}
ROUTES: tuple[tuple[str, str, Any], ...] = (
    ("GET", "/session/{id}", None),
    ("GET", "/session/{id}/message", None),
    ("GET", "/session/{id}/message?limit=1", None),
    ("GET", "/session/{id}/todo", None),
    ("GET", "/session/{id}/children", None),
    ("PATCH", "/session/{id}", {"title": "x"}),
    ("POST", "/session/{id}/abort", {}),
    ("POST", "/session/{id}/fork", {}),
    ("POST", "/session/{id}/message", SAID),
    ("POST", "/session/{id}/prompt_async", SAID),
    ("GET", "/v1/sessions/{id}", None),
    ("GET", "/v1/sessions/{id}/tree", None),
    ("GET", "/v1/sessions/{id}/statuses", None),
    ("GET", "/v1/sessions/{id}/calls", None),
    ("GET", "/v1/sessions/{id}/tasks", None),
    ("POST", "/v1/sessions/{id}/prompts", {"prompt": "hi"}),
    ("POST", "/v1/sessions/{id}/abort", {}),
)
LISTS = (
    "/session",
    "/session/status",
    "/v1/sessions",
    "/v1/tasks",
    "/v1/asks",
    "/v1/stats",
    "/experimental/session",
)


def spoil(data: Path, table: str, session_id: SessionId) -> None:
    with closing(sqlite3.connect(data / "asyncagents.db")) as other, other:
        assert other.execute(SPOIL[table], (session_id,)).rowcount > 0


async def ask(at: StageClient, method: str, path: str, body: Any = None) -> Response:
    return await at.request(method, path, body, headers=at.authorization)


@pytest.mark.spec("X-11")
async def test_every_route_of_a_damaged_session_returns_500_and_lists_go_on(tmp_path: Path) -> None:
    async with serve_delegation(tmp_path, SCRIPT) as at:
        await at.stage.prompt("hi")
        bad, good = at.stage.session_id, await at.runtime.create_session(directory=tmp_path)
        spoil(tmp_path, "session", bad)
        told = [await ask(at, method, path.format(id=bad), body) for method, path, body in ROUTES]
        listed = [await ask(at, "GET", path) for path in LISTS]
        why = await ask(at, "GET", f"/v1/sessions/{bad}/why")
        other = await ask(at, "POST", f"/session/{good.id}/message", SAID)
        ready = await ask(at, "GET", "/ready")
    for each, (method, path, _) in zip(told, ROUTES, strict=True):
        assert each.status == 500, (method, path, each)
        assert each.json["name"] == "UnknownError"
        assert "unreadable session" in each.json["data"]["message"]
        assert "other sessions are not affected" in each.json["data"]["message"]
    assert {each.status for each in listed} == {200}
    assert [each["id"] for each in listed[0].json] == [good.id]
    assert why.json["code"] == "unreadable"
    assert other.status == 200
    assert ready.status == 200


@pytest.mark.spec("X-11")
@pytest.mark.parametrize("table", ["message", "part"])
async def test_an_unreadable_message_or_part_is_a_500_with_the_reason(tmp_path: Path, table: str) -> None:
    async with serve_delegation(tmp_path, SCRIPT) as at:
        await at.stage.prompt("hi")
        spoil(tmp_path, table, at.stage.session_id)
        messages = await ask(at, "GET", f"/session/{at.stage.session_id}/message")
        session = await ask(at, "GET", f"/session/{at.stage.session_id}")
        await at.runtime.delete_session(at.stage.session_id)
    assert messages.status == 500
    assert session.status == 200
    assert f"unreadable {table}" in messages.json["data"]["message"]


@pytest.mark.spec("X-11")
async def test_a_client_raises_damaged_without_a_second_request(tmp_path: Path) -> None:
    asked: list[bytes] = []

    def cut(question: bytes, said: bytes) -> bool:
        asked.append(question.partition(b" HTTP")[0])
        return False

    async with serve_delegation(tmp_path, SCRIPT) as at, open_cutting_proxy(at.listing.url) as cutter:
        bad = at.stage.session_id
        spoil(tmp_path, "session", bad)
        cutter.cut = cut
        async with open_client(cutter.url, token=at.listing.token) as client:
            with pytest.raises(Damaged, match="unreadable session"):
                await client.session(bad)
            with pytest.raises(Damaged, match="unreadable session"):
                await client.send(bad, "hi")
    assert len(asked) == 2
