"""People bring their sessions of OpenCode along: recorded from three of its releases."""

import asyncio
import json
from pathlib import Path

import pytest

from asyncagents.archive.import_ import import_from
from asyncagents.domain.conversation.message import AssistantMessage, UserMessage
from asyncagents.domain.conversation.part import ToolFailed, ToolPart
from asyncagents.domain.conversation.status import Idle, WaitingAsync
from asyncagents.domain.id import SessionId
from asyncagents.domain.transfer.records import CALL_CUT_OFF
from asyncagents.llm.model import ModelTurn, ToolTurn, UserTurn
from asyncagents.llm.scripted import say
from asyncagents.testing.inside import inside
from tests.support.transfer import (
    CHILD_ID,
    OLD_CHILD,
    OLD_ROOT,
    RECORDED,
    RECORDED_CHILD,
    ROOT_ID,
    change_json,
    export_files,
    import_into_store,
    open_other_store,
    unpack_recording,
    write_json,
    write_waiting_session,
)
from tests.support.wait import PATIENCE

SCRIPT = {"and?": [[say("And so on.")]]}
FIRST = SessionId("ses_e1bae2343ffeuHHl1CUYm0nIPR")


@pytest.mark.spec("P-13")
async def test_an_opencode_export_is_imported_whole_and_goes_on(tmp_path: Path) -> None:
    done = await import_into_store(tmp_path, RECORDED)
    below = await import_into_store(tmp_path, RECORDED_CHILD)
    again = await import_into_store(tmp_path, RECORDED)
    async with open_other_store(tmp_path, SCRIPT) as (runtime, model):
        document = json.loads(await runtime.transfer.document(ROOT_ID))
        (child,) = await runtime.children(ROOT_ID)
        session = await runtime.session(ROOT_ID)
        (listed,) = await runtime.roots(session.directory)
        answer = await asyncio.wait_for(runtime.prompt(ROOT_ID, "and?"), PATIENCE)
        await runtime.delete_session(ROOT_ID)

    assert [each.outcome for each in (*done.taken, *below.taken, *again.taken)] == [
        "imported",
        "imported",
        "already there",
    ]
    recorded = json.loads(RECORDED.read_text())
    for message in document["messages"]:
        message["info"].pop("asyncagents")
    assert document["messages"] == recorded["messages"]
    assert {**document["info"], "projectID": recorded["info"]["projectID"], "asyncagents": 0} == {
        **recorded["info"],
        "asyncagents": 0,
    }
    assert child.id == CHILD_ID
    assert listed.id == ROOT_ID
    assert answer.text == "And so on."
    first, asked, said, last = model.requests[0].messages
    assert isinstance(first, UserTurn)
    assert "Fake summary of the conversation." in first.text
    assert isinstance(asked, UserTurn)
    assert asked.text.startswith("Say more")
    assert isinstance(said, ModelTurn)
    assert last == UserTurn("and?")


@pytest.mark.spec("P-13")
async def test_a_subagents_session_without_its_parent_stands_alone(tmp_path: Path) -> None:
    done = await import_into_store(tmp_path, RECORDED_CHILD)
    async with open_other_store(tmp_path, SCRIPT) as (runtime, _):
        session = await runtime.session(CHILD_ID)
    assert session.parent_id is None
    (remark,) = done.taken[0].remarks
    assert ROOT_ID in remark


@pytest.mark.spec("P-13")
async def test_the_files_of_an_older_opencode_are_imported(tmp_path: Path) -> None:
    source = unpack_recording(tmp_path / "opencode", "data-1.1.53.json")
    done = await import_into_store(tmp_path / "data", source)
    async with open_other_store(tmp_path / "data", SCRIPT) as (runtime, model):
        first, second = await runtime.todos(OLD_ROOT)
        (child,) = await runtime.children(OLD_ROOT)
        answer = await asyncio.wait_for(runtime.prompt(OLD_ROOT, "and?"), PATIENCE)
        other = await asyncio.wait_for(runtime.prompt(OLD_CHILD, "and?"), PATIENCE)
    assert [each.session.id for each in done.taken] == [OLD_ROOT, OLD_CHILD]
    assert not done.troubles
    assert first.content == "look"
    assert second.status == "pending"
    assert child.id == OLD_CHILD
    assert answer.text == "And so on."
    assert other.text == "And so on."
    assert isinstance(model.requests[0].messages[0], UserTurn)


@pytest.mark.spec("P-13")
async def test_the_files_of_the_first_opencode_are_imported_into_a_directory(tmp_path: Path) -> None:
    source = unpack_recording(tmp_path / "opencode", "data-0.5.29.json")
    homeless = await import_into_store(tmp_path / "data", source)
    done = await import_into_store(tmp_path / "data", source, directory=tmp_path)
    async with open_other_store(tmp_path / "data", SCRIPT) as (runtime, model):
        entries = await runtime.messages(FIRST)
        answer = await asyncio.wait_for(
            runtime.prompt(FIRST, "and?", agent="build", model="scripted/scripted"), PATIENCE
        )
    (trouble,) = homeless.troubles
    assert "has no absolute directory" in trouble.why
    assert [each.session.id for each in done.taken] == [FIRST]
    assert all(isinstance(entry.info, UserMessage) and entry.text for entry in entries)
    assert len(entries) == 4
    assert answer.text == "And so on."
    assert len(model.requests[0].messages) == 5


@pytest.mark.spec("P-13")
async def test_a_running_call_of_opencode_is_imported_as_cut_off(tmp_path: Path) -> None:
    source = unpack_recording(tmp_path / "opencode", "data-1.1.53.json")
    parts = [path for path in (source / "storage" / "part").rglob("*.json") if b'"bash"' in path.read_bytes()]
    (file,) = parts
    part = json.loads(file.read_text())
    state = {"status": "running", "input": part["state"]["input"], "time": {"start": 1}}
    change_json(file, state=state)
    message = source / "storage" / "message" / OLD_ROOT / f"{part['messageID']}.json"
    info = json.loads(message.read_text())
    del info["time"]["completed"], info["finish"]
    write_json(message, info)
    await import_into_store(tmp_path / "data", source)
    async with open_other_store(tmp_path / "data", SCRIPT) as (runtime, _):
        entry = await inside(runtime).store.message(info["id"])
        assert isinstance(await runtime.status(OLD_ROOT), Idle)
    (cut,) = [each for each in entry.parts if isinstance(each, ToolPart) and each.tool == "bash"]
    assert isinstance(cut.state, ToolFailed)
    assert cut.state.error == CALL_CUT_OFF
    assert isinstance(entry.info, AssistantMessage)
    assert entry.info.error is not None
    assert entry.info.time.completed is not None


@pytest.mark.spec("P-13", "P-08")
@pytest.mark.parametrize("status", ["waiting", "processing"])
async def test_a_pending_call_of_the_source_waits_here_and_resumes_its_session(
    tmp_path: Path, status: str
) -> None:
    pending_id = write_waiting_session(tmp_path / "storage", status=status)
    done = await import_into_store(tmp_path / "data", tmp_path / "storage")
    script = {"and?": [[], [say("Deployed.")]]}
    async with open_other_store(tmp_path / "data", script) as (runtime, model):
        waits = await runtime.status(SessionId("ses_w"))
        pending_call = await runtime.async_tools.get(pending_id)
        await export_files(runtime, tmp_path / "files")
        await runtime.async_tools.submit_result(pending_id, "v2")
        await asyncio.wait_for(runtime.wait(SessionId("ses_w")), PATIENCE)
        last = (await runtime.messages(SessionId("ses_w")))[-1]
    assert not done.troubles
    assert isinstance(waits, WaitingAsync)
    assert waits.pending_id == pending_id
    assert pending_call.status == "waiting"
    assert pending_call.external_ref == "job-7"
    assert pending_call.timeout is None
    assert last.text == "Deployed."
    assert len(model.requests) == 1
    assert [told.output for told in model.requests[0].messages if isinstance(told, ToolTurn)] == ["v2"]


@pytest.mark.spec("P-13")
async def test_a_pending_call_whose_export_has_a_result_is_settled(tmp_path: Path) -> None:
    result = {"title": "", "output": "v2", "metadata": {}}
    pending_id = write_waiting_session(tmp_path / "storage", status="completed", result=result)
    await import_into_store(tmp_path / "data", tmp_path / "storage")
    async with open_other_store(tmp_path / "data", SCRIPT) as (runtime, model):
        pending_call = await runtime.async_tools.get(pending_id)
        assert isinstance(await runtime.status(SessionId("ses_w")), Idle)
        await asyncio.wait_for(runtime.prompt(SessionId("ses_w"), "and?"), PATIENCE)
    assert pending_call.status == "completed"
    assert (pending_call.result and pending_call.result.output) == "v2"
    assert "v2" in [told.output for told in model.requests[0].messages if isinstance(told, ToolTurn)]


@pytest.mark.spec("P-13")
async def test_a_waiting_call_without_a_record_is_imported_as_failed(tmp_path: Path) -> None:
    write_waiting_session(tmp_path / "storage")
    (tmp_path / "storage" / "pending_tool" / "pend_1.json").unlink()
    await import_into_store(tmp_path / "data", tmp_path / "storage")
    async with open_other_store(tmp_path / "data", SCRIPT) as (runtime, _):
        (_, step) = await runtime.messages(SessionId("ses_w"))
        assert isinstance(await runtime.status(SessionId("ses_w")), Idle)
    (part,) = step.parts
    assert isinstance(part, ToolPart)
    assert isinstance(part.state, ToolFailed)


async def test_reverted_messages_are_shown_and_not_read_by_the_model(tmp_path: Path) -> None:
    value = json.loads(RECORDED.read_text())
    value["info"]["revert"] = {"messageID": value["messages"][2]["info"]["id"]}
    write_json(tmp_path / "one.json", value)
    await import_into_store(tmp_path / "data", tmp_path / "one.json")
    async with open_other_store(tmp_path / "data", SCRIPT) as (runtime, model):
        entries = await runtime.messages(ROOT_ID)
        await asyncio.wait_for(runtime.prompt(ROOT_ID, "and?"), PATIENCE)
    assert len(entries) == len(value["messages"])
    assert len(model.requests[0].messages) == 3


async def test_the_refusal_of_opencodes_database_names_the_export_command(tmp_path: Path) -> None:
    (tmp_path / "opencode.db").write_bytes(b"")
    async with open_other_store(tmp_path / "data", serve=False) as (runtime, _):
        with pytest.raises(Exception, match="opencode export SESSION"):
            await import_from(runtime, tmp_path)
