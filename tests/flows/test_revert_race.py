"""Undo and redo at the same moment as something else."""

from pathlib import Path

import pytest

from asyncagents.config.clock import SystemClock, SystemRng
from asyncagents.domain.conversation.part import ToolPart
from asyncagents.domain.conversation.session import Revert
from asyncagents.domain.id import Ids
from asyncagents.errors import Conflict, SessionBusy
from asyncagents.llm.scripted import Script, call, say
from asyncagents.testing.inside import inside
from tests.support.delegation import launch_task
from tests.support.project import GO, REVERT_FILES, open_revert_project, prompt_ids, read_tree
from tests.support.tool import Gate
from tests.support.wait import wait_until


@pytest.mark.spec("X-01")
async def test_an_undo_restores_files_that_a_running_task_changed(tmp_path: Path) -> None:
    gate = Gate("gate")
    script: Script = {
        "go": [[launch_task("Work", "child work")], [say("Launched.")]],
        "child work": [[call("work", text=GO), call("gate")], [say("Done.")]],
    }
    async with open_revert_project(tmp_path, script, tools=[gate.tool]) as at:
        await at.prompt("go")
        await gate.until_started()
        await wait_until(lambda: not (tmp_path / "project" / "c.txt").exists())
        (asked, *_) = await prompt_ids(at)
        await at.runtime.reverts.revert(at.session_id, asked)
        assert read_tree(tmp_path / "project") == REVERT_FILES


@pytest.mark.spec("X-01")
async def test_an_undo_that_was_planned_before_another_turn_is_refused(tmp_path: Path) -> None:
    """Its messages would go, and what it did to files would stay."""
    async with open_revert_project(tmp_path) as at:
        await at.prompt("go")
        (asked,) = await prompt_ids(at)
        seen = await inside(at.runtime).store.reverts.plan_undo(at.session_id, asked)
        await at.prompt("more")
        with pytest.raises(SessionBusy):
            await inside(at.runtime).store.reverts.mark_undone(
                at.session_id, Revert(message_id=asked), wakes=seen.wakes
            )
        again = await inside(at.runtime).store.reverts.plan_undo(at.session_id, asked)
        await inside(at.runtime).store.reverts.mark_undone(
            at.session_id, Revert(message_id=asked), wakes=again.wakes
        )


@pytest.mark.spec("X-01")
async def test_a_command_after_an_undo_that_was_cut_off_makes_it_final(tmp_path: Path) -> None:
    """Else it stays hidden behind the mark, and a redo takes back what it did."""
    async with open_revert_project(tmp_path) as at:
        await at.prompt("go")
        (asked,) = await prompt_ids(at)
        rows = inside(at.runtime).store.reverts
        place = await at.runtime.reverts._require_snapshots(await at.runtime.session(at.session_id))
        await rows.mark_undone(at.session_id, Revert(message_id=asked, snapshot=await place.take()))
        await at.runtime.shell(at.session_id, "echo mine > a.txt")
        session = await at.runtime.session(at.session_id)
        assert session.revert is None
        assert len(await at.messages()) == 2
        assert read_tree(tmp_path / "project") == {**REVERT_FILES, "a.txt": "mine\n"}


@pytest.mark.spec("X-01")
async def test_a_fork_ends_where_an_undo_within_a_message_begins(tmp_path: Path) -> None:
    script: Script = {
        "go": [[say("Kept."), call("work", text=GO)], [say("Secret.")]],
        "hello": [[say("Hi.")]],
    }
    async with open_revert_project(tmp_path, script) as at:
        await at.prompt("go")
        step = (await at.messages())[1]
        (made,) = [part for part in step.parts if isinstance(part, ToolPart)]
        await at.runtime.reverts.revert(at.session_id, step.info.id, made.id)
        copy = await at.runtime.conversations.fork(at.session_id)
        await at.runtime.prompt(copy.id, "hello")
        texts = str(at.request_messages())
    assert "Kept." in texts
    assert "Secret." not in texts


@pytest.mark.spec("X-01")
@pytest.mark.parametrize("undone", [True, False])
async def test_the_id_of_a_deleted_message_is_not_reused(tmp_path: Path, undone: bool) -> None:
    async with open_revert_project(tmp_path) as at:
        asked = Ids(SystemClock(), SystemRng()).message()
        await at.runtime.prompt(at.session_id, "go", message_id=asked)
        if undone:
            await at.runtime.reverts.revert(at.session_id, asked)
        else:
            for entry in await at.messages():
                await at.runtime.conversations.remove_message(at.session_id, entry.info.id)
        with pytest.raises(Conflict, match="deleted message"):
            await at.runtime.prompt(at.session_id, "hello", message_id=asked, key="other words")
        assert bool((await at.runtime.session(at.session_id)).revert) == undone
        await at.prompt("hello")
        assert [entry.text for entry in await at.messages()] == ["hello", "Hi."]
