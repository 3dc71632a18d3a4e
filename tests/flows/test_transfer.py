"""Sessions leave a store as files and come into another one, and nothing of them is lost."""

import asyncio
import json
import stat
from pathlib import Path

import pytest

from asyncagents.archive.export import export_to
from asyncagents.archive.import_ import import_from
from asyncagents.config.secret import Secret
from asyncagents.domain.conversation.part import ToolFailed, ToolPart, UnknownPart
from asyncagents.domain.conversation.session import Rule
from asyncagents.domain.conversation.status import Idle, WaitingAsync
from asyncagents.domain.conversation.todo import Todo
from asyncagents.domain.fact import WriteTodos
from asyncagents.domain.transfer.records import CALL_CUT_OFF
from asyncagents.errors import Conflict, InvalidInput, NotFound
from asyncagents.llm.model import ModelTurn, ToolTurn, UserTurn
from asyncagents.llm.scripted import call, say
from asyncagents.store.row import put_part
from asyncagents.store.tx import Tx
from asyncagents.store.verb import todo
from asyncagents.testing.inside import inside
from tests.support.delegation import RequestScript, launch_task, open_delegation_stage, wait_until_quiet
from tests.support.runtime import open_stage
from tests.support.tool import ECHO, Gate, build_pending_tool
from tests.support.transfer import export_files, import_into_store, open_other_store, read_files
from tests.support.wait import PATIENCE

DEPLOY = build_pending_tool("deploy", note="queued as #7", external_ref="job-7")
SCRIPT = {
    "ship": [[call("deploy"), call("echo", text="hi")], [say("Shipped.")]],
    "news?": [[say("Not yet.")], [say("Now it is.")]],
    "more": [[say("More.")]],
}


@pytest.mark.spec("P-13")
async def test_a_round_trip_loses_nothing(tmp_path: Path) -> None:
    """A summary, a result that came late, children, todos, and a part that nobody knows."""
    scenes: RequestScript = {
        **SCRIPT,
        "a": [[call("echo", text="x")], [say("A is 1.")]],
        "go": [[launch_task("A", "a")]],
    }
    async with open_delegation_stage(tmp_path / "here", scenes, DEPLOY, ECHO) as at:
        await at.prompt("ship")
        await at.prompt("news?")
        waiting = await at.open_call()
        await at.runtime.async_tools.submit_result(waiting.id, "v2 is live", title="Deployed")
        await wait_until_quiet(at.runtime, at.session_id)
        await at.prompt("go")
        await wait_until_quiet(at.runtime, at.session_id)
        await at.runtime.compact(at.session_id)
        answer = await at.prompt("more")
        await _add(inside(at.runtime).store, at.session_id, answer.info.id)
        before = await export_files(at.runtime, tmp_path / "first", at.session_id)
        (child,) = await at.runtime.children(at.session_id)

    done = await import_into_store(tmp_path / "there", tmp_path / "first")
    async with open_other_store(tmp_path / "there", {"and?": [[say("Yes.")]]}) as (runtime, model):
        after = await export_files(runtime, tmp_path / "second")
        (task,) = await runtime.tasks.list()
        (todo_there,) = await runtime.todos(at.session_id)
        answer = await asyncio.wait_for(runtime.prompt(at.session_id, "and?"), PATIENCE)

    assert [each.outcome for each in done.taken] == ["imported", "imported"]
    assert not done.troubles
    assert before == after
    assert any(b'"hologram"' in body for body in after.values())
    assert task.session_id == child.id
    assert task.result == "A is 1."
    assert todo_there.content == "mend it"
    assert answer.text == "Yes."
    head, *_, said, asked = model.requests[0].messages
    assert isinstance(head, UserTurn)
    assert "This summary stands for what came before" in head.text
    assert isinstance(said, ModelTurn)
    assert asked == UserTurn("and?")


async def _add(store: object, session_id: str, message_id: str) -> None:
    """What only other programs write, and what a tool would."""
    raw = {"id": "prt_zz", "sessionID": session_id, "messageID": message_id, "type": "hologram", "beam": [1]}
    part = UnknownPart(
        json.dumps(raw, separators=(",", ":")).encode(),
        type="hologram",
        id=raw["id"],  # type: ignore[arg-type]
        session_id=session_id,  # type: ignore[arg-type]
        message_id=message_id,  # type: ignore[arg-type]
    )

    async def verb(tx: Tx) -> None:
        await put_part(tx, part)
        todos = (Todo(content="mend it", status="pending", priority="high", id="todo_1"),)
        await todo.write_todos(tx, WriteTodos(part.session_id, todos))  # type: ignore[arg-type]

    await store._write(verb)  # type: ignore[attr-defined]


@pytest.mark.spec("P-13", "P-04")
async def test_a_call_that_waits_is_resumed_where_its_session_was_imported(tmp_path: Path) -> None:
    async with open_stage(tmp_path / "here", SCRIPT, tools=[DEPLOY, ECHO]) as at:
        await at.prompt("ship")
        waiting = await at.open_call()
        before = await export_files(at.runtime, tmp_path / "files")

    await import_into_store(tmp_path / "there", tmp_path / "files")
    async with open_other_store(tmp_path / "there", SCRIPT, DEPLOY, ECHO) as (runtime, model):
        assert await export_files(runtime, tmp_path / "again") == before
        status = await runtime.status(at.session_id)
        (record,) = await runtime.async_tools.waiting_calls()
        assert not model.requests
        done = await runtime.async_tools.submit_result(waiting.id, "v2 is live")
        again = await runtime.async_tools.submit_result(waiting.id, "v2 is live")
        await asyncio.wait_for(runtime.wait(at.session_id), PATIENCE)
        last = (await runtime.messages(at.session_id))[-1]

    assert waiting.open is not None
    assert isinstance(status, WaitingAsync)
    assert status.pending_id == waiting.id
    assert status.timeout == waiting.open.due
    assert record.id == waiting.id
    assert record.external_ref == "job-7"
    assert record.timeout == waiting.open.due
    assert done == again
    assert done.status == "completed"
    assert last.text == "Shipped."
    assert len(model.requests) == 1
    results = [told.output for told in model.requests[0].messages if isinstance(told, ToolTurn)]
    assert results == ["v2 is live", "hi"]


@pytest.mark.spec("P-13")
async def test_a_result_for_a_call_shown_as_pending_arrives_after_the_import(tmp_path: Path) -> None:
    async with open_stage(tmp_path / "here", SCRIPT, tools=[DEPLOY, ECHO]) as at:
        await at.prompt("ship")
        await at.prompt("news?")
        waiting = await at.open_call()
        await export_files(at.runtime, tmp_path / "files")
        told = at.request_messages()

    await import_into_store(tmp_path / "there", tmp_path / "files")
    async with open_other_store(tmp_path / "there", SCRIPT, DEPLOY, ECHO) as (runtime, model):
        await runtime.async_tools.submit_result(waiting.id, "v2 is live")
        await asyncio.wait_for(runtime.wait(at.session_id), PATIENCE)

    assert waiting.shown_pending
    (request,) = model.requests
    assert list(request.messages[: len(told)]) == told
    assert isinstance(request.messages[-1], UserTurn)
    assert "v2 is live" in request.messages[-1].text


@pytest.mark.spec("P-13", "P-07")
async def test_a_call_whose_time_is_over_expires_after_the_import(tmp_path: Path) -> None:
    deploy = build_pending_tool("deploy", seconds=3600)
    async with open_stage(tmp_path / "here", SCRIPT, tools=[deploy, ECHO]) as at:
        await at.prompt("ship")
        waiting = await at.open_call()
        files = await export_files(at.runtime, tmp_path / "files")
        await at.abort()
    assert waiting.open is not None
    for name, content in files.items():
        for due in (waiting.open.warn, waiting.open.due):  # as if it had begun long before
            content = content.replace(str(due).encode(), str(waiting.open.since).encode())
        (tmp_path / "files" / name).write_bytes(content)

    await import_into_store(tmp_path / "there", tmp_path / "files")
    async with open_other_store(tmp_path / "there", SCRIPT, deploy, ECHO) as (runtime, model):
        async with asyncio.timeout(PATIENCE):
            while not isinstance(await runtime.status(at.session_id), Idle):
                await inside(runtime).store.expire()
                await runtime.wait(at.session_id)
        pending_call = await runtime.async_tools.get(waiting.id)
    assert pending_call.status == "expired"
    assert pending_call.error == "Tool execution timed out"
    assert len(model.requests) == 1


@pytest.mark.spec("P-13")
async def test_a_call_that_ran_during_the_export_is_imported_as_cut_off(tmp_path: Path) -> None:
    gate = Gate("gate")
    script = {"go": [[call("gate")], [say("Through.")]], "and?": [[say("Again.")]]}
    async with open_stage(tmp_path / "here", script, tools=[gate.tool]) as at:
        await at.runtime.send(at.session_id, "go")
        await gate.until_started()
        await export_files(at.runtime, tmp_path / "files")
        gate.go.set()
        await asyncio.wait_for(at.runtime.wait(at.session_id), PATIENCE)

    await import_into_store(tmp_path / "there", tmp_path / "files")
    async with open_other_store(tmp_path / "there", script, gate.tool) as (runtime, model):
        parts = [part for entry in await runtime.messages(at.session_id) for part in entry.parts]
        (state,) = [part.state for part in parts if isinstance(part, ToolPart)]
        assert isinstance(await runtime.status(at.session_id), Idle)
        assert not model.requests
        answer = await asyncio.wait_for(runtime.prompt(at.session_id, "and?"), PATIENCE)
    assert isinstance(state, ToolFailed)
    assert state.error == CALL_CUT_OFF
    assert gate.runs == 1
    assert answer.text == "Again."
    assert CALL_CUT_OFF in [told.output for told in model.requests[0].messages if isinstance(told, ToolTurn)]


@pytest.mark.spec("P-13")
async def test_importing_again_changes_nothing(tmp_path: Path) -> None:
    async with open_stage(tmp_path / "here", SCRIPT, tools=[DEPLOY, ECHO]) as at:
        await at.prompt("more")
        before = await export_files(at.runtime, tmp_path / "files")
        same = await import_from(at.runtime, tmp_path / "files")
        await at.prompt("news?")
        gone_on = await import_from(at.runtime, tmp_path / "files")
        assert await export_files(at.runtime, tmp_path / "later") != before
        async with open_other_store(tmp_path / "there", serve=False) as (runtime, _):
            first, second = await asyncio.gather(
                import_from(runtime, tmp_path / "files"), import_from(runtime, tmp_path / "files")
            )
            late = await import_from(runtime, tmp_path / "later")
            after = await export_files(runtime, tmp_path / "there files")

    assert [each.outcome for each in (*same.taken, *gone_on.taken)] == ["already there"] * 2
    outcomes = sorted(each.outcome for each in (*first.taken, *second.taken))
    assert outcomes == ["already there", "imported"]
    assert after == before
    (trouble,) = late.troubles
    assert "exists already, without message" in trouble.why


@pytest.mark.spec("P-13")
async def test_another_session_under_the_same_id_is_a_conflict_and_changes_nothing(tmp_path: Path) -> None:
    async with open_stage(tmp_path / "here", SCRIPT) as at:
        await at.prompt("more")
        before = await export_files(at.runtime, tmp_path / "files")
        (part,) = [
            path for path in (tmp_path / "files" / "part").rglob("*.json") if b'"more"' in path.read_bytes()
        ]
        part.write_bytes(part.read_bytes().replace(b'"more"', b'"less"'))
        done = await import_from(at.runtime, tmp_path / "files")
        after = await export_files(at.runtime, tmp_path / "again")
    (trouble,) = done.troubles
    assert "with other content in" in trouble.why
    assert done.taken == ()
    assert after == before


@pytest.mark.spec("P-13")
async def test_an_import_with_ids_of_another_session_is_refused_as_a_whole(tmp_path: Path) -> None:
    async with open_stage(tmp_path / "here", SCRIPT, tools=[DEPLOY, ECHO]) as at:
        await at.prompt("ship")
        document = await at.runtime.transfer.document(at.session_id)
        other = document.replace(at.session_id.encode(), b"ses_other")
        (tmp_path / "other.json").write_bytes(other)
        done = await import_from(at.runtime, tmp_path / "other.json")
        with pytest.raises(NotFound):
            await at.runtime.session("ses_other")  # type: ignore[arg-type]
        again = await at.runtime.transfer.document(at.session_id)
    (trouble,) = done.troubles
    assert "in another session" in trouble.why
    assert document == again


@pytest.mark.spec("P-13")
async def test_one_session_is_one_document_with_all_that_belongs_to_it(tmp_path: Path) -> None:
    async with open_stage(tmp_path / "here", SCRIPT, tools=[DEPLOY, ECHO]) as at:
        await at.prompt("ship")
        waiting = await at.open_call()
        document = await at.runtime.transfer.document(at.session_id)
    (tmp_path / "one.json").write_bytes(document)
    done = await import_into_store(tmp_path / "there", tmp_path / "one.json")
    async with open_other_store(tmp_path / "there", SCRIPT, DEPLOY, ECHO) as (runtime, _):
        assert await runtime.transfer.document(at.session_id) == document
        await runtime.async_tools.submit_result(waiting.id, "done")
        await asyncio.wait_for(runtime.wait(at.session_id), PATIENCE)
    assert not done.troubles
    value = json.loads(document)
    assert [each["id"] for each in value["pendingTools"]] == [waiting.id]
    assert set(value) == {"info", "messages", "todos", "pendingTools"}


@pytest.mark.spec("P-13")
async def test_an_export_is_private_has_an_index_and_contains_no_secret(tmp_path: Path) -> None:
    secretive = build_pending_tool(
        "deploy", secret=Secret("whsec_aXNzdWVkIGJ5IHRoZW0="), webhook_url="https://ci.example/done"
    )
    async with open_stage(tmp_path / "here", SCRIPT, tools=[secretive, ECHO]) as at:
        await at.prompt("ship")
        waiting = await at.open_call()
        secrets = await at.runtime.async_tools.secrets(waiting.id)
        found = await export_files(at.runtime, tmp_path / "files")

    index = json.loads(found["pending_tool/index.json"])
    assert waiting.open is not None
    assert index == {
        "bySession": {at.session_id: [waiting.id]},
        "byStatus": {"waiting": [waiting.id]},
        "byExpiration": [{"pendingID": waiting.id, "expiresAt": waiting.open.due}],
    }
    record = json.loads(found[f"pending_tool/{waiting.id}.json"])
    assert record["status"] == "waiting"
    assert record["webhookURL"] == "https://ci.example/done"
    everything = b"".join(found.values())
    assert secrets
    assert not any(secret.reveal().encode() in everything for secret in secrets)
    for path in (tmp_path / "files", *(tmp_path / "files").rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    assert not [name for name in found if name.endswith(".tmp")]


@pytest.mark.spec("P-13")
async def test_an_export_needs_a_directory_of_its_own(tmp_path: Path) -> None:
    async with open_stage(tmp_path / "here", SCRIPT) as at:
        await export_files(at.runtime, tmp_path / "files")
        before = read_files(tmp_path / "files")
        with pytest.raises(InvalidInput, match="holds another export"):
            await export_to(at.runtime, tmp_path / "files")
        with pytest.raises(InvalidInput, match="is not empty"):
            await export_to(at.runtime, tmp_path / "here")
        with pytest.raises(NotFound, match="no session"):
            await export_to(at.runtime, tmp_path / "new", ["ses_none"])  # type: ignore[list-item]
    assert read_files(tmp_path / "files") == before


@pytest.mark.spec("P-13")
async def test_grants_and_webhook_urls_of_an_import_apply_only_if_trusted(tmp_path: Path) -> None:
    loud = build_pending_tool("deploy", webhook_url="https://ci.example/done")
    rules = [
        Rule(permission="bash", pattern="*", action="allow"),
        Rule(permission="edit", pattern="*", action="deny"),
    ]
    async with open_stage(tmp_path / "here", SCRIPT, tools=[loud, ECHO]) as at:
        session = await at.runtime.create_session(directory=tmp_path, permission=rules)
        await asyncio.wait_for(at.runtime.prompt(session.id, "ship"), PATIENCE)
        before = await export_files(at.runtime, tmp_path / "files", session.id)

    done = await import_into_store(tmp_path / "strange", tmp_path / "files")
    own = await import_into_store(tmp_path / "own", tmp_path / "files", trusted=True)
    async with open_other_store(tmp_path / "strange", serve=False) as (runtime, _):
        (call_there,) = await runtime.open_calls(session.id)
        rules_there = (await runtime.session(session.id)).permission
    async with open_other_store(tmp_path / "own", serve=False) as (runtime, _):
        assert await export_files(runtime, tmp_path / "again") == before
    assert rules_there == (rules[1],)
    assert call_there.later is not None
    assert call_there.later.webhook_url == ""
    assert len(done.taken[0].remarks) == 2
    assert not own.taken[0].remarks


@pytest.mark.spec("P-13")
async def test_an_imported_session_is_listed_prompted_and_deleted_in_another_directory(
    tmp_path: Path,
) -> None:
    (tmp_path / "project").mkdir()
    async with open_stage(tmp_path / "here", SCRIPT) as at:
        await at.prompt("more")
        await export_files(at.runtime, tmp_path / "files")
    await import_into_store(tmp_path / "there", tmp_path / "files", directory=tmp_path / "project")
    async with open_other_store(tmp_path / "there", SCRIPT) as (runtime, model):
        (found,) = await runtime.roots(tmp_path / "project")
        answer = await asyncio.wait_for(runtime.prompt(found.id, "news?"), PATIENCE)
        await runtime.delete_session(found.id)
        assert await runtime.roots(None) == ()
        again = await import_from(runtime, tmp_path / "files")
    assert answer.text == "Not yet."
    said = [
        part for told in model.requests[0].messages if isinstance(told, ModelTurn) for part in told.blocks
    ]
    assert "More." in str(said)
    assert [each.outcome for each in again.taken] == ["imported"]


@pytest.mark.spec("P-13")
async def test_unread_input_is_imported_and_does_not_start_a_turn(tmp_path: Path) -> None:
    async with open_stage(tmp_path / "here", SCRIPT, serve=False) as at:
        await at.runtime.send(at.session_id, "more")
        await export_files(at.runtime, tmp_path / "files")
    await import_into_store(tmp_path / "there", tmp_path / "files")
    async with open_other_store(tmp_path / "there", SCRIPT) as (runtime, model):
        assert isinstance(await runtime.status(at.session_id), Idle)
        await asyncio.wait_for(runtime.prompt(at.session_id, "news?"), PATIENCE)
    texts = [told.text for told in model.requests[0].messages if isinstance(told, UserTurn)]
    assert texts == ["more", "news?"]


@pytest.mark.spec("P-13")
async def test_an_export_of_a_session_that_changes_meanwhile_is_a_conflict(tmp_path: Path) -> None:
    async with open_stage(tmp_path / "here", SCRIPT) as at:
        await at.prompt("more")
        records = at.runtime.transfer.records(at.session_id)
        await anext(records)
        await at.prompt("news?")
        with pytest.raises(Conflict, match="export it when it rests"):
            _ = [piece async for piece in records]
