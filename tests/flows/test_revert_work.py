"""Undo and redo where work goes on: open calls, tasks, aborts, crashes, and what is refused."""

from pathlib import Path

import pytest

from asyncagents.domain.conversation.part import PatchPart, ToolPart
from asyncagents.domain.conversation.session import Revert
from asyncagents.domain.conversation.status import Idle, WaitingAsync
from asyncagents.domain.event import MessageRemoved, PartRemoved, SessionDiff
from asyncagents.domain.id import MessageId, PartId
from asyncagents.engine.workplace.snapshots import NoSnapshots
from asyncagents.errors import AlreadySettled, NotFound, SessionBusy
from asyncagents.llm.model import ToolTurn, UserTurn
from asyncagents.llm.scripted import Script, call, say
from asyncagents.testing.inside import inside
from tests.support.delegation import launch_task
from tests.support.project import GO, MORE, REVERT_FILES, open_revert_project, prompt_ids, read_tree
from tests.support.runtime import Stage, roles
from tests.support.tool import Gate, build_pending_tool
from tests.support.wait import wait_until

LATER = build_pending_tool("deploy", note="queued")


async def undo(at: Stage, message_id: MessageId, part_id: PartId | None = None) -> Revert:
    session = await at.runtime.reverts.revert(at.session_id, message_id, part_id)
    assert session.revert is not None
    return session.revert


@pytest.mark.spec("X-01")
async def test_an_open_call_that_is_undone_is_settled_and_a_late_result_is_a_conflict(tmp_path: Path) -> None:
    script: Script = {"ship": [[call("deploy")], [say("Shipped.")]], "hello": [[say("Hi.")]]}
    async with open_revert_project(tmp_path, script, tools=[LATER]) as at:
        await at.prompt("ship")
        waiting = await at.open_call()
        (asked,) = await prompt_ids(at)
        await undo(at, asked)
        assert await at.status() == Idle()
        with pytest.raises(AlreadySettled):
            await at.runtime.complete(waiting.id, "too late")
        await at.prompt("hello")
        assert roles(await at.messages()) == ["user", "assistant"]
        with pytest.raises(AlreadySettled):
            await at.runtime.complete(waiting.id, "much too late")
        assert not [told for told in at.request_messages() if isinstance(told, ToolTurn)]


@pytest.mark.spec("X-01")
async def test_a_result_for_a_call_before_the_undo_makes_the_undo_final(
    tmp_path: Path,
) -> None:
    script: Script = {
        "ship": [[call("deploy")], [say("Shipped.")]],
        "news?": [[say("Not yet.")], [say("Now.")]],
    }
    async with open_revert_project(tmp_path, script, tools=[LATER]) as at:
        await at.prompt("ship")
        waiting = await at.open_call()
        await at.prompt("news?")
        _, second = await prompt_ids(at)
        await undo(at, second)
        assert isinstance(await at.status(), WaitingAsync)
        await at.runtime.complete(waiting.id, "deployed")
        await at.runtime.wait(at.session_id)
        session = await at.runtime.session(at.session_id)
        said = [told.text for told in at.request_messages() if isinstance(told, UserTurn)]
    assert session.revert is None
    assert "news?" not in said
    assert any("deployed" in text for text in said)


@pytest.mark.spec("X-01")
async def test_a_task_that_was_launched_is_ended_and_its_files_are_put_back(tmp_path: Path) -> None:
    gate = Gate("gate")
    script: Script = {
        "go": [[launch_task("Work", "child work")], [say("Launched.")]],
        "child work": [[call("work", text=GO)], [call("gate")], [say("Done.")]],
        "hello": [[say("Hi.")]],
    }
    async with open_revert_project(tmp_path, script, tools=[gate.tool]) as at:
        await at.prompt("go")
        await gate.until_started()
        assert read_tree(tmp_path / "project") != REVERT_FILES
        (asked, *_) = await prompt_ids(at)
        await undo(at, asked)
        assert gate.ended.is_set()
        assert read_tree(tmp_path / "project") == REVERT_FILES
        (task,) = await at.runtime.tasks.list(at.session_id)
        assert task.status == "cancelled"
        await at.prompt("hello")
        said = [told.text for told in at.request_messages() if isinstance(told, UserTurn)]
    assert said == ["hello"]


@pytest.mark.spec("X-01")
async def test_a_session_at_work_or_with_an_ask_is_busy(tmp_path: Path) -> None:
    gate = Gate("gate")
    script: Script = {
        "go": [[call("gate")], [say("Through.")]],
        "ask": [[call("write", filePath="x", content="y")], [say("Written.")]],
    }
    async with open_revert_project(tmp_path, script, tools=[gate.tool], permission={"edit": "ask"}) as at:
        sent = await at.runtime.send(at.session_id, "go")
        await gate.until_started()
        with pytest.raises(SessionBusy):
            await undo(at, sent)
        with pytest.raises(SessionBusy):
            await at.runtime.reverts.unrevert(at.session_id)
        gate.go.set()
        await at.runtime.wait(at.session_id)
        await at.runtime.send(at.session_id, "ask")
        await wait_until(lambda: at.runtime.asks(at.session_id))
        with pytest.raises(SessionBusy):
            await undo(at, sent)
        await at.abort()


@pytest.mark.spec("X-01")
async def test_an_undo_restores_files_that_an_aborted_step_changed(tmp_path: Path) -> None:
    gate = Gate("gate")
    script: Script = {"go": [[call("work", text=GO), call("gate")], [say("No.")]]}
    async with open_revert_project(tmp_path, script, tools=[gate.tool]) as at:
        sent = await at.runtime.send(at.session_id, "go")
        await gate.until_started()
        await wait_until(lambda: not (tmp_path / "project" / "c.txt").exists())
        await at.abort()
        (patch,) = [part for e in await at.messages() for part in e.parts if isinstance(part, PatchPart)]
        await undo(at, sent)
    assert patch.files
    assert read_tree(tmp_path / "project") == REVERT_FILES


@pytest.mark.spec("X-01")
async def test_an_undo_from_a_part_on_keeps_the_parts_before_it(tmp_path: Path) -> None:
    script: Script = {
        "go": [[call("work", text=GO)], [say("Between."), call("work", text=MORE)], [say("End.")]],
        "hello": [[say("Hi.")]],
    }
    async with open_revert_project(tmp_path, script) as at:
        await at.prompt("go")
        _, first, second, _ = await at.messages()
        (made,) = [part.id for part in second.parts if isinstance(part, ToolPart)]
        (only,) = [part.id for part in first.parts if isinstance(part, ToolPart)]
        revert = await undo(at, second.info.id, made)
        assert revert.message_id == second.info.id
        assert revert.part_id == made
        assert read_tree(tmp_path / "project") == {"a.txt": "two\n", "b.txt": "new\n"}
        await at.prompt("hello")
        kept = await at.messages()
        assert [type(part).__name__ for part in kept[2].parts] == ["StepStartPart", "TextPart"]
        await at.listener.until(PartRemoved, lambda event: event.part_id == made)
        revert = await undo(at, first.info.id, only)  # nothing stands before it: the whole prompt goes
        assert revert.message_id == kept[0].info.id
        assert revert.part_id is None
        assert read_tree(tmp_path / "project") == REVERT_FILES


@pytest.mark.spec("X-01")
async def test_an_undo_that_was_cut_off_is_completed_before_the_model_reads_on(tmp_path: Path) -> None:
    async with open_revert_project(tmp_path) as at:
        await at.prompt("go")
        (asked,) = await prompt_ids(at)
        root = tmp_path / "project"
        workplace = await at.runtime.workplace(root)
        assert not isinstance(workplace.snapshots, NoSnapshots)
        now = await workplace.snapshots.take()
        wanted = Revert(message_id=asked, snapshot=now)
        await inside(at.runtime).store.reverts.mark_undone(at.session_id, wanted)  # and here the process died
        assert read_tree(root) != REVERT_FILES
        await at.prompt("hello")
        session = await at.runtime.session(at.session_id)
        assert read_tree(root) == REVERT_FILES
        assert session.revert is None
        assert roles(await at.messages()) == ["user", "assistant"]


@pytest.mark.spec("X-01")
async def test_an_undo_without_snapshots_changes_messages_only_and_notes_the_reason(tmp_path: Path) -> None:
    async with open_revert_project(tmp_path, snapshot=False) as at:
        await at.prompt("go")
        (asked,) = await prompt_ids(at)
        revert = await undo(at, asked)
        assert revert.snapshot is None
        assert revert.diff is None
        assert "snapshot: false" in (revert.note or "")
        assert read_tree(tmp_path / "project") != REVERT_FILES
        assert (await at.runtime.reverts.unrevert(at.session_id)).revert is None
        await undo(at, asked)
        await at.prompt("hello")
        assert len(await at.messages()) == 2


@pytest.mark.spec("X-01")
async def test_removed_messages_are_published_and_are_in_the_feed(tmp_path: Path) -> None:
    async with open_revert_project(tmp_path) as at:
        await at.prompt("go")
        (asked,) = await prompt_ids(at)
        entries = await at.messages()
        await at.listener.until(SessionDiff)
        await undo(at, asked)
        undone = await at.listener.until(SessionDiff)
        cursor = await at.runtime.cursor()
        await at.prompt("hello")
        removed = [(await at.listener.until(MessageRemoved)).message_id for _ in entries]
        feed = await at.runtime.feed(cursor)
    assert removed == [entry.info.id for entry in entries]
    assert [event.message_id for event in feed.events if isinstance(event, MessageRemoved)] == removed
    assert undone.diff == ()


@pytest.mark.spec("X-01")
async def test_a_prompt_with_the_key_of_an_undone_prompt_is_not_admitted_again(tmp_path: Path) -> None:
    async with open_revert_project(tmp_path) as at:
        sent = await at.runtime.send(at.session_id, "hello", key="k")
        await at.runtime.wait(at.session_id)
        await undo(at, sent)
        await at.prompt("more")
        assert await at.runtime.send(at.session_id, "hello", key="k") == sent
        await at.runtime.wait(at.session_id)
        assert roles(await at.messages()) == ["user", "assistant", "assistant"]


@pytest.mark.spec("X-01")
async def test_an_undone_summary_no_longer_replaces_messages(tmp_path: Path) -> None:
    script: Script = {"one": [[say("First.")]], "two": [[say("Second.")]]}
    async with open_revert_project(tmp_path, script) as at:
        await at.prompt("one")
        await at.runtime.compact(at.session_id)
        wish = (await prompt_ids(at))[1]
        await undo(at, wish)
        await at.prompt("two")
        said = [told.text for told in at.request_messages() if isinstance(told, UserTurn)]
    assert said[0] == "one"
    assert said[-1] == "two"
    assert len(said) == 2


@pytest.mark.spec("X-01")
async def test_an_undo_of_an_unknown_message_or_part_is_not_found(tmp_path: Path) -> None:
    async with open_revert_project(tmp_path) as at:
        await at.prompt("hello")
        (asked,) = await prompt_ids(at)
        other = await at.runtime.create_session(directory=tmp_path / "project")
        with pytest.raises(NotFound):
            await undo(at, MessageId("msg_none"))
        with pytest.raises(NotFound):
            await undo(at, asked, PartId("prt_none"))
        with pytest.raises(NotFound):
            await at.runtime.reverts.revert(other.id, asked)
        assert (await at.runtime.session(at.session_id)).revert is None


@pytest.mark.spec("X-01")
async def test_each_turn_publishes_the_diff_of_the_whole_session(tmp_path: Path) -> None:
    """OpenCode's terminal puts it in the place of `GET /session/{id}/diff`, which is of the whole session."""
    async with open_revert_project(tmp_path) as at:
        await at.prompt("go")
        await at.listener.until(SessionDiff)
        await at.prompt("more")
        told = await at.listener.until(SessionDiff)
        asked = await at.runtime.reverts.diff(at.session_id)
        last = await at.runtime.reverts.diff(at.session_id, (await prompt_ids(at))[1])
    assert told.diff == asked
    assert [each.file for each in told.diff] == ["a.txt", "b.txt", "c.txt", "d/e.txt"]
    assert [each.file for each in last] == ["a.txt", "d/e.txt"]


@pytest.mark.spec("X-01")
async def test_an_undo_and_a_redo_publish_the_remaining_diff(tmp_path: Path) -> None:
    async with open_revert_project(tmp_path) as at:
        await at.prompt("go")
        await at.listener.until(SessionDiff)
        await at.prompt("more")
        whole = (await at.listener.until(SessionDiff)).diff
        await undo(at, (await prompt_ids(at))[1])
        left = (await at.listener.until(SessionDiff)).diff
        asked = await at.runtime.reverts.diff(at.session_id)
        await at.runtime.reverts.unrevert(at.session_id)
        again = (await at.listener.until(SessionDiff)).diff
    assert left == asked
    assert [each.file for each in left] == ["a.txt", "b.txt", "c.txt"]
    assert again == whole
    assert len(whole) == 4
