"""Undo and redo: messages, files, calls and tasks, with a real repository and real files."""

import os
from pathlib import Path

import pytest

from asyncagents.domain.conversation.part import PatchPart, StepFinishPart, StepStartPart
from asyncagents.llm.model import UserTurn
from tests.support.project import REVERT_FILES, open_revert_project, prompt_ids, read_tree
from tests.support.runtime import roles


@pytest.mark.spec("X-01")
async def test_a_prompt_is_undone_with_its_files_and_redone(tmp_path: Path) -> None:
    root = tmp_path / "project"
    async with open_revert_project(tmp_path) as at:
        await at.prompt("go")
        did = read_tree(root)
        assert did == {"a.txt": "two\n", "b.txt": "new\n"}
        (asked,) = await prompt_ids(at)
        session = await at.runtime.reverts.revert(at.session_id, asked)
        assert read_tree(root) == REVERT_FILES
        assert session.revert is not None
        assert session.revert.message_id == asked
        assert "+one" in (session.revert.diff or "")
        assert len(await at.messages()) == 3
        session = await at.runtime.reverts.unrevert(at.session_id)
        assert session.revert is None
        assert read_tree(root) == did


@pytest.mark.spec("X-01")
async def test_a_step_that_changes_files_lists_them_and_another_takes_no_snapshot(
    tmp_path: Path,
) -> None:
    async with open_revert_project(tmp_path) as at:
        await at.prompt("hello")
        assert not (tmp_path / "data" / "snapshot").exists()
        await at.prompt("go")
        parts = [part for entry in await at.messages() for part in entry.parts]
        starts = [part.snapshot for part in parts if isinstance(part, StepStartPart)]
        ends = [part.snapshot for part in parts if isinstance(part, StepFinishPart)]
        (patch,) = [part for part in parts if isinstance(part, PatchPart)]
        session = await at.runtime.session(at.session_id)
        asked = (await at.messages())[2].info
        whole = await at.runtime.reverts.diff(at.session_id)
        one = await at.runtime.reverts.diff(at.session_id, asked.id)
        none = await at.runtime.reverts.diff(at.session_id, (await at.messages())[0].info.id)
    assert [bool(each) for each in starts] == [bool(each) for each in ends] == [False, True, False]
    assert patch.hash == starts[1] != ends[1]
    assert [os.path.basename(each) for each in patch.files] == ["a.txt", "b.txt", "c.txt"]
    assert session.summary is not None
    assert session.summary.additions == 2
    assert session.summary.deletions == 2
    assert [(each.file, each.status) for each in whole] == [
        ("a.txt", "modified"), ("b.txt", "added"), ("c.txt", "deleted")
    ]  # fmt: skip
    assert one == whole
    assert none == ()


@pytest.mark.spec("X-01")
async def test_the_next_prompt_removes_undone_messages_also_from_the_model_input(tmp_path: Path) -> None:
    async with open_revert_project(tmp_path) as at:
        await at.prompt("hello")
        await at.prompt("go")
        await at.prompt("more")
        _, second, _ = await prompt_ids(at)
        await at.runtime.reverts.revert(at.session_id, second)
        await at.prompt("hello")
        entries = await at.messages()
        session = await at.runtime.session(at.session_id)
        said = [told.text for told in at.request_messages() if isinstance(told, UserTurn)]
    assert session.revert is None
    assert roles(entries) == ["user", "assistant", "user", "assistant"]
    assert not [text for text in said if "go" in text or "more" in text]
    assert read_tree(tmp_path / "project") == REVERT_FILES


@pytest.mark.spec("X-01")
async def test_undoing_at_another_point_begins_from_the_first_snapshot(tmp_path: Path) -> None:
    root = tmp_path / "project"
    async with open_revert_project(tmp_path) as at:
        await at.prompt("go")
        after_go = read_tree(root)
        await at.prompt("more")
        after_more = read_tree(root)
        first, second = await prompt_ids(at)
        one = await at.runtime.reverts.revert(at.session_id, first)
        assert read_tree(root) == REVERT_FILES
        two = await at.runtime.reverts.revert(at.session_id, second)
        assert read_tree(root) == after_go
        assert one.revert
        assert two.revert
        assert one.revert.snapshot == two.revert.snapshot
        await at.runtime.reverts.unrevert(at.session_id)
        assert read_tree(root) == after_more
