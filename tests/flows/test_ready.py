"""`/ready` tries a write: a full disk, one that hangs and a data directory that is gone are told in words."""

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from asyncagents.app.assemble import Setup
from asyncagents.app.backend import PolledDatabase
from asyncagents.engine.runtime import readiness
from asyncagents.errors import DatabaseGone
from asyncagents.llm.scripted import ScriptedModel, say
from asyncagents.store.tx import Commit, Verb
from tests.support.http.client import HttpClient, Response
from tests.support.http.server import serve_runtime
from tests.support.process.full_disk import LONG, LastPage, Sender, open_limited
from tests.support.runtime import open_sqlite_runtime
from tests.support.wait import wait_until

T = TypeVar("T")
SETUP = Setup(model=ScriptedModel({"hi": [[say("Hello.")]]}))


class Slow:
    """A database whose writes can be held up; those that are only tried are counted."""

    def __init__(self, real: PolledDatabase) -> None:
        self._real = real
        self.free = asyncio.Event()
        self.free.set()
        self.tried = 0

    async def write(self, verb: Verb[T], *, inline: bool = False) -> T:
        self.tried += getattr(verb, "__qualname__", "").endswith(".try_write")
        await self.free.wait()
        return await self._real.write(verb, inline=inline)

    async def read(self, verb: Verb[T], *, inline: bool = False) -> T:
        return await self._real.read(verb, inline=inline)

    def listen(self, listener: Callable[[Commit], None]) -> None:
        self._real.listen(listener)

    def poll(self) -> None:
        self._real.poll()


async def until(caller: HttpClient, status: int) -> Response:
    """An answer counts for a moment: whoever asks again hears of the change."""

    async def look() -> Response | None:
        told = await caller.get("/ready")
        return told if told.status == status else None

    return await wait_until(look)


def reason(told: Response) -> Any:
    return told.json["data"]["message"]


@pytest.mark.spec("X-11")
async def test_a_full_disk_is_not_ready_until_there_is_room_again(tmp_path: Path) -> None:
    disk = LastPage()
    async with (
        open_limited(tmp_path, disk, SETUP) as runtime,
        serve_runtime(runtime, tmp_path) as caller,
    ):
        sender = Sender(runtime)
        session_id = await sender.session()
        assert (await caller.get("/ready")).status == 200
        disk.fill()
        await sender.fill_up(session_id)
        full = await until(caller, 503)
        listed = await caller.request("GET", "/session", headers=caller.authorization)
        disk.free()
        await until(caller, 200)
        assert await sender.send(session_id, f"more {LONG}", "more")
        await runtime.abort(session_id)
    assert reason(full) == f"requests cannot be stored: {readiness.FULL}"
    assert str(tmp_path) not in full.body.decode()
    assert listed.status == 200


async def test_a_store_that_hangs_is_not_ready_and_is_tried_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "TIMEOUT_SECONDS", 0.3)
    found: list[Slow] = []

    def behind(database: PolledDatabase) -> PolledDatabase:
        found.append(Slow(database))
        return found[0]

    async with (
        open_sqlite_runtime(tmp_path, SETUP, behind=behind) as runtime,
        serve_runtime(runtime, tmp_path) as caller,
    ):
        (slow,) = found
        slow.free.clear()
        hangs = await asyncio.gather(*(caller.get("/ready") for _ in range(20)))
        later = await caller.get("/ready")
        tried = slow.tried
        slow.free.set()
        await until(caller, 200)
    assert {each.status for each in (*hangs, later)} == {503}
    assert "does not answer" in reason(later)
    assert tried == 1


async def test_concurrent_readiness_requests_cost_one_write(tmp_path: Path) -> None:
    found: list[Slow] = []

    def behind(database: PolledDatabase) -> PolledDatabase:
        found.append(Slow(database))
        return found[0]

    async with (
        open_sqlite_runtime(tmp_path, SETUP, behind=behind) as runtime,
        serve_runtime(runtime, tmp_path) as caller,
    ):
        runtime.readiness._now = lambda: 5.0
        told = await asyncio.gather(*(caller.get("/ready") for _ in range(50)))
        tried = found[0].tried
    assert {each.status for each in told} == {200}
    assert tried == 1


def _delete_log(data: Path) -> None:
    (data / "asyncagents.db-wal").unlink()


def _delete_index(data: Path) -> None:
    (data / "asyncagents.db-shm").unlink()


def _replace_log(data: Path) -> None:
    log = data / "asyncagents.db-wal"
    shutil.copy(log, data / "copy")
    (data / "copy").rename(log)


def _empty(data: Path) -> None:
    os.truncate(data / "asyncagents.db", 0)


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (_delete_log, "asyncagents.db-wal was deleted"),
        (_delete_index, "asyncagents.db-shm was deleted"),
        (_replace_log, "asyncagents.db-wal was replaced"),
        (_empty, "asyncagents.db was emptied"),
    ],
)
async def test_nothing_is_acknowledged_once_a_file_of_the_database_is_gone(
    tmp_path: Path, damage: Callable[[Path], None], what: str
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    async with open_sqlite_runtime(data, SETUP) as runtime, serve_runtime(runtime, tmp_path) as caller:
        session = await runtime.create_session(directory=tmp_path)
        await runtime.prompt(session.id, "hi")
        assert (await caller.get("/ready")).status == 200
        damage(data)
        with pytest.raises(DatabaseGone, match=what):
            await runtime.send(session.id, "hi", key="k")
        body = {"parts": [{"type": "text", "text": "hi"}]}
        said = await caller.request(
            "POST", f"/session/{session.id}/message", body=body, headers=caller.authorization
        )
        gone = await until(caller, 503)
    assert reason(gone) == f"requests cannot be stored: {readiness.GONE}"
    assert said.status == 503


@pytest.mark.parametrize("how", ["deleted", "replaced"])
async def test_nothing_is_acknowledged_in_a_data_directory_that_is_gone(tmp_path: Path, how: str) -> None:
    data = tmp_path / "data"
    data.mkdir()
    async with open_sqlite_runtime(data, SETUP) as runtime, serve_runtime(runtime, tmp_path) as caller:
        session = await runtime.create_session(directory=tmp_path)
        await runtime.prompt(session.id, "hi")
        assert (await caller.get("/ready")).status == 200
        saved = tmp_path / "saved"
        shutil.copytree(data, saved)
        shutil.rmtree(data)
        if how == "replaced":
            shutil.copytree(saved, data)
        gone = await until(caller, 503)
        with pytest.raises(DatabaseGone, match=f"was {how}"):
            await runtime.send(session.id, "hi", key="k")
        body = {"parts": [{"type": "text", "text": "hi"}]}
        said = await caller.request(
            "POST", f"/session/{session.id}/message", body=body, headers=caller.authorization
        )
        assert not (data / "asyncagents.db").exists() or how == "replaced"
    assert reason(gone) == f"requests cannot be stored: {readiness.GONE}"
    assert said.status == 503
