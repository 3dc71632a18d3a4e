"""A recorded store is exported and imported elsewhere: what was said and done is there."""

import asyncio
from pathlib import Path

import pytest

from asyncagents.archive.export import export_to
from asyncagents.archive.import_ import import_from
from asyncagents.domain.conversation.status import Idle, WaitingAsync
from asyncagents.domain.id import CallId
from tests.recorded.compare import lost_messages, lost_results
from tests.recorded.copy import Copy, EmptyStore, Shifted, running
from tests.recorded.going_on import PATIENCE, SOON, told
from tests.recorded.inventory import take_inventory

OUTSIDE = ("ship", "build", "begin", "sign_off", "wait")
"""Tools whose calls wait for the outside alone; whatever else is under way is cut off by an export."""


@pytest.mark.spec("P-13", "X-11")
async def test_export_and_import_keep_messages_results_and_pending_calls(copy: Copy, tmp_path: Path) -> None:
    await _transfer(copy, tmp_path)
    there = EmptyStore(copy.recording, tmp_path / "there")
    async with there.open(Shifted(copy.recording.now)) as opened:
        now = await take_inventory(opened, await there.rows())

    for session_id, was in copy.recording.inventory["sessions"].items():
        after = now["sessions"][session_id]
        assert lost_messages(was, after) == []
        assert lost_results(was, after, {}) == []
        assert was["todos"] == after["todos"]
        assert was["info"].get("permission") == after["info"].get("permission")
        for call_id, call in was["calls"].items():
            if call["state"] == "open" and call["tool"] in OUTSIDE:
                assert after["calls"][call_id]["state"] == "open"
                assert after["calls"][call_id].get("due") == call.get("due")
        for task_id, task in after["tasks"].items():
            assert was["tasks"][task_id].get("ended") in (None, task.get("ended"))


@pytest.mark.spec("P-13", "P-04", "X-11")
async def test_an_imported_pending_call_takes_its_result(copy: Copy, tmp_path: Path) -> None:
    await _transfer(copy, tmp_path)
    there = EmptyStore(copy.recording, tmp_path / "there")
    (call_id,) = copy.recording.inventory["sessions"][copy.recording.session("building")]["calls"]
    async with running(there, after_ms=SOON) as at:
        await at.runtime.complete(CallId(call_id), "built elsewhere")
        session_id = copy.recording.session("building")
        status = await asyncio.wait_for(at.runtime.wait(session_id), PATIENCE)
        last = (await at.runtime.messages(session_id))[-1].text
        others = await at.runtime.statuses()

    assert isinstance(status, Idle)
    assert last == "It was built."
    assert "built elsewhere" in told(at.model.requests)
    assert others
    assert all(isinstance(each, WaitingAsync) for each in others.values())


async def _transfer(copy: Copy, tmp_path: Path) -> None:
    """From a copy that no process works on into an empty store."""
    sessions = len(copy.recording.inventory["sessions"])
    await copy.migrate()
    async with running(copy, after_ms=SOON, serve=False) as at:
        exported = await export_to(at.runtime, tmp_path / "files")
    async with running(EmptyStore(copy.recording, tmp_path / "there"), after_ms=SOON, serve=False) as at:
        imported = await import_from(at.runtime, tmp_path / "files", trusted=True)

    assert exported.sessions == sessions
    assert exported.troubles == ()
    assert len(imported.taken) == sessions
    assert imported.troubles == ()
