"""Files that somebody else made: each is taken or told of, by name, and never does harm."""

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asyncagents.archive import layout as folders
from asyncagents.archive.export import export_to
from asyncagents.archive.import_ import import_from
from asyncagents.domain.conversation.status import Idle
from asyncagents.domain.id import SessionId
from asyncagents.errors import InvalidInput
from asyncagents.llm.scripted import call, say
from asyncagents.testing.inside import inside
from tests.support.runtime import open_stage
from tests.support.tool import build_pending_tool
from tests.support.transfer import (
    OLD_CHILD,
    OLD_ROOT,
    PENDING_FILE,
    PROMPT_FILE,
    ROOT_ID,
    SESSION_FILE,
    STEP_FILE,
    TEXT_FILE,
    TOOL_FILE,
    change_json,
    export_files,
    import_into_store,
    open_other_store,
    own_fields,
    read_files,
    unpack_recording,
    write_json,
    write_waiting_session,
)
from tests.support.wait import PATIENCE

SCRIPT = {"ship": [[call("deploy")], [say("Shipped.")]], "more": [[say("More.")]]}
DEPLOY = build_pending_tool("deploy")

Spoil = Callable[[Path], object]


def session_file(storage: Path) -> Path:
    return storage / "session/p/ses_w.json"


def edit(name: str, **fields: Any) -> Spoil:
    return lambda storage: change_json(storage / name, **fields)


def raw(name: str, body: bytes) -> Spoil:
    return lambda storage: (storage / name).write_bytes(body)


def moved(name: str, to: str) -> Spoil:
    def move(storage: Path) -> None:
        (storage / to).parent.mkdir(parents=True, exist_ok=True)
        (storage / name).rename(storage / to)

    return move


def instead(make: Callable[[Path], None]) -> Spoil:
    """In the place of a text."""

    def spoil(storage: Path) -> None:
        (storage / TEXT_FILE).unlink()
        make(storage / TEXT_FILE)

    return spoil


def state(**fields: Any) -> dict[str, Any]:
    base = {"status": "waiting_async", "input": {}, "pendingID": "pend_1", "time": {"start": 2}}
    return {"state": {**base, **fields}}


DEEP = b'{"a":' * 150 + b"1" + b"}" * 150

STRANGE = {
    **dict.fromkeys(("message_id", "parent_agent", "agent", "description", "prompt", "batch"), "x"),
    "id": "ses_other",
    "parent_id": OLD_ROOT,
    "created": 1,
}

BAD: dict[str, Spoil] = {
    "no JSON": raw(SESSION_FILE, b"{"),
    "NaN": raw(PROMPT_FILE, b'{"id":"msg_01","time":{"created":NaN}}'),
    "half a character": raw(TEXT_FILE, b'{"id":"prt_1","type":"text","text":"\\ud800"}'),
    "no UTF-8": raw(TEXT_FILE, b'{"id":"prt_1","type":"text","text":"\xff"}'),
    "endless depth": raw(TEXT_FILE, b"[" * 200_000),
    "too deep to read again": lambda storage: (storage / TEXT_FILE).write_bytes(
        b'{"id":"prt_1","type":"text","text":"x","metadata":' + DEEP + b"}"
    ),
    "a list": raw(SESSION_FILE, b"[]"),
    "an empty file": raw(STEP_FILE, b""),
    "another id than its name": edit(SESSION_FILE, id="ses_x"),
    "an id that climbs": edit(SESSION_FILE, id="../../x"),
    "an id that is no text": edit(SESSION_FILE, id=7),
    "a parent that climbs": edit(SESSION_FILE, parentID="../../x"),
    "its own parent": edit(SESSION_FILE, parentID="ses_w"),
    "a message of another session": edit(STEP_FILE, sessionID="ses_other"),
    "a part of another message": edit(TOOL_FILE, messageID="msg_01"),
    "a part of another session": edit(TOOL_FILE, sessionID="ses_other"),
    "a name that is no id": moved(TEXT_FILE, "part/msg_01/prt 1.json"),
    "a pending id that climbs": edit(TOOL_FILE, **state(pendingID="../../session/p/ses_w")),
    "a pending id that is the index": edit(TOOL_FILE, **state(pendingID="index")),
    "a record of another tool": edit(PENDING_FILE, tool="bash"),
    "a record of another session": edit(PENDING_FILE, sessionID="ses_other"),
    "a record that is unreadable": edit(PENDING_FILE, time="soon"),
    "a deadline out of all bounds": edit(PENDING_FILE, timeout=2**70),
    "a time before all times": edit(SESSION_FILE, time={"created": -1, "updated": 1}),
    "a role that nobody has": edit(STEP_FILE, role="oracle"),
    "no directory": edit(SESSION_FILE, directory=""),
    "a directory that is no path": edit(SESSION_FILE, directory="shop"),
    "a directory with a zero byte": edit(SESSION_FILE, directory="/a\0b"),
    "todos that are no list": lambda storage: write_json(storage / "todo/ses_w.json", {"a": 1}),
    "todos of no known state": lambda storage: write_json(
        storage / "todo/ses_w.json", [{"content": "x", "status": "odd", "priority": "low"}]
    ),
    "a place that is taken": lambda storage: (
        edit(SESSION_FILE, **own_fields(turn=1))(storage),
        edit(STEP_FILE, **own_fields(position=1, turn=1))(storage),
        edit(PROMPT_FILE, **own_fields(position=1, turn=1))(storage),
    ),
    "a place out of all bounds": edit(STEP_FILE, **own_fields(position=2**70)),
    "a summary that is none": edit(SESSION_FILE, **own_fields(turn=1, summary=2, tail=2)),
    "marks that are none": edit(SESSION_FILE, asyncagents=[1]),
    "a call that is none": edit(TOOL_FILE, **own_fields(call={"id": "x"})),
    "a call that climbs": edit(TOOL_FILE, **own_fields(call={"id": "../x", "turn": 1, "created": 1})),
    "a task of another session": edit(SESSION_FILE, parentID=OLD_ROOT, **own_fields(turn=1, task=STRANGE)),
    "a version out of all bounds": edit(TEXT_FILE, **own_fields(version=2**70)),
    "a tail without a summary": edit(SESSION_FILE, **own_fields(turn=1, tail=2**70)),
    "a tail of nothing": edit(SESSION_FILE, **own_fields(turn=1, tail=1)),
    "a key with a zero byte": lambda storage: (
        edit(SESSION_FILE, **own_fields(turn=1))(storage),
        edit(PROMPT_FILE, **own_fields(input={"key": "a\0b", "state": "promoted"}))(storage),
    ),
    "a turn of an input out of all bounds": edit(
        PROMPT_FILE, **own_fields(input={"key": "k", "state": "promoted", "turn": 2**70})
    ),
    "a notice that is none": edit(SESSION_FILE, **own_fields(turn=1, notices=[{"end": {"id": "ses_x"}}])),
    "turns without end": edit(SESSION_FILE, **own_fields(turn=2**60)),
    "a link": instead(lambda path: path.symlink_to("/etc/hostname")),
    "a pipe": instead(os.mkfifo),
    "a folder": instead(Path.mkdir),
}


@pytest.mark.spec("P-13")
@pytest.mark.parametrize("spoil", BAD.values(), ids=BAD)
async def test_a_bad_file_is_reported_and_the_others_are_imported(tmp_path: Path, spoil: Spoil) -> None:
    storage = unpack_recording(tmp_path / "opencode", "data-1.1.53.json") / "storage"
    write_waiting_session(storage)
    spoil(storage)
    async with open_other_store(tmp_path / "data", serve=False) as (runtime, _):
        before = read_files(storage)
        done = await asyncio.wait_for(import_from(runtime, storage), PATIENCE)
        sessions = {session.id for session in await runtime.roots(None)}
        left = await inside(runtime).store._read(lambda tx: tx.all("exported_messages", "ses_w", "", 10))
        parts = await inside(runtime).store._read(lambda tx: tx.all("exported_parts", "msg_02"))
    (trouble,) = done.troubles
    assert "ses_w" in trouble.name
    assert trouble.why
    assert "Traceback" not in trouble.why
    assert len(trouble.why) < 1_000
    assert [each.session.id for each in done.taken] == [OLD_ROOT, OLD_CHILD]
    assert sessions == {OLD_ROOT}
    assert left == []
    assert parts == []
    assert read_files(storage) == before


@pytest.mark.spec("P-13")
async def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    storage = tmp_path / "storage"
    write_waiting_session(storage)
    with (storage / TEXT_FILE).open("r+b") as file:
        file.truncate(folders.MOST_FILE_BYTES + 1)  # a hole, not so many bytes
    done = await import_into_store(tmp_path / "data", storage)
    (trouble,) = done.troubles
    assert "too large" in trouble.why
    assert "prt_1.json" in trouble.why


@pytest.mark.spec("P-13")
async def test_a_session_that_occurs_in_two_files_is_not_imported(tmp_path: Path) -> None:
    storage = tmp_path / "storage"
    write_waiting_session(storage)
    write_json(storage / "session/q/ses_w.json", json.loads(session_file(storage).read_text()))
    done = await import_into_store(tmp_path / "data", storage)
    assert done.taken == ()
    (trouble,) = done.troubles
    assert "session/q/ses_w.json" in trouble.name
    assert "session/p/ses_w.json" in trouble.why


@pytest.mark.spec("P-13")
async def test_one_part_in_two_messages_is_refused(tmp_path: Path) -> None:
    storage = tmp_path / "storage"
    write_waiting_session(storage)
    text = {"id": "prt_1", "sessionID": "ses_w", "messageID": "msg_02", "type": "text", "text": "x"}
    write_json(storage / "part/msg_02/prt_1.json", text)
    done = await import_into_store(tmp_path / "data", storage)
    (trouble,) = done.troubles
    assert "'prt_1' occurs twice" in trouble.why


@pytest.mark.spec("P-13")
async def test_cycles_of_parents_and_children_of_failed_sessions_are_reported(
    tmp_path: Path,
) -> None:
    storage = unpack_recording(tmp_path / "opencode", "data-1.1.53.json") / "storage"
    (project,) = (storage / "session").iterdir()
    base = json.loads((project / f"{OLD_CHILD}.json").read_text())
    for name, parent in (("ses_a", "ses_b"), ("ses_b", "ses_c"), ("ses_c", "ses_a"), ("ses_d", "ses_a")):
        write_json(project / f"{name}.json", {**base, "id": name, "parentID": parent})
    change_json(project / f"{OLD_ROOT}.json", directory="nowhere")
    done = await import_into_store(tmp_path / "data", storage)
    why = {Path(each.name).stem: each.why for each in done.troubles}
    assert done.taken == ()
    assert {why.pop(name) for name in ("ses_a", "ses_b", "ses_c", "ses_d")} == {"its parents form a cycle"}
    assert why[OLD_CHILD] == f"its parent {OLD_ROOT} was not imported"
    assert "directory" in why[OLD_ROOT]


@pytest.mark.spec("P-13")
async def test_a_tree_is_imported_to_a_depth_of_one_hundred(tmp_path: Path) -> None:
    base = {"directory": "/home/ada/shop", "time": {"created": 1}}
    for depth in range(120):
        parent = {"parentID": f"ses_{depth - 1:03}"} if depth else {}
        write_json(tmp_path / f"storage/session/p/ses_{depth:03}.json", {**base, **parent})
    done = await import_into_store(tmp_path / "data", tmp_path / "storage")
    assert len(done.taken) == 101
    assert "nested more than 100 deep" in done.troubles[0].why


@pytest.mark.spec("P-13")
async def test_an_imported_call_cannot_take_the_id_of_an_existing_call(tmp_path: Path) -> None:
    """Its id is known to whoever has its result: an import under the same id must not take it over."""
    async with open_stage(tmp_path / "here", SCRIPT, tools=[DEPLOY]) as at:
        await at.prompt("ship")
        waiting = await at.open_call()
        storage = tmp_path / "storage"
        write_waiting_session(storage)
        change_json(storage / TOOL_FILE, **state(pendingID=waiting.id))
        moved(PENDING_FILE, f"pending_tool/{waiting.id}.json")(storage)
        change_json(storage / f"pending_tool/{waiting.id}.json", id=waiting.id)
        done = await import_from(at.runtime, storage)
        assert await at.open_call() == waiting
        await at.runtime.async_tools.submit_result(waiting.id, "done")
        await asyncio.wait_for(at.runtime.wait(at.session_id), PATIENCE)
    (trouble,) = done.troubles
    assert "in another session" in trouble.why


@pytest.mark.spec("P-13")
async def test_an_imported_call_that_is_granted_does_not_run(tmp_path: Path) -> None:
    """A call that is only requested, and granted by hand, was cut off as any other."""
    storage = tmp_path / "storage"
    write_waiting_session(storage)
    (storage / PENDING_FILE).unlink()
    granted = {
        "id": "tool_x",
        "turn": 1,
        "created": 1,
        "granted": ["by hand"],
        "state": {"type": "requested"},
    }
    change_json(
        storage / TOOL_FILE, state={"status": "pending", "input": {}, "raw": ""}, **own_fields(call=granted)
    )
    change_json(storage / SESSION_FILE, **own_fields(turn=1, inTurn=True))
    change_json(storage / STEP_FILE, **own_fields(position=2, turn=1))
    change_json(storage / PROMPT_FILE, **own_fields(position=1, turn=1))
    done = await import_into_store(tmp_path / "data", storage)
    async with open_other_store(tmp_path / "data", {"and?": [[say("x")]]}, DEPLOY) as (runtime, model):
        session_id = SessionId("ses_w")
        assert isinstance(await runtime.status(session_id), Idle)
        await asyncio.wait_for(runtime.prompt(session_id, "and?"), PATIENCE)
        assert not await runtime.open_calls(session_id)
    assert not done.troubles
    assert len(model.requests) == 1


@pytest.mark.spec("P-13")
async def test_ids_that_are_not_valid_file_names_are_not_exported(tmp_path: Path) -> None:
    async with open_stage(tmp_path / "here", SCRIPT) as at:
        await at.prompt("more")
        session = await at.runtime.create_session(directory=tmp_path)
        body = await at.runtime.transfer.document(session.id)
        assert body
        await inside(at.runtime).store._write(
            lambda tx: tx.run(
                "insert_message", "../../../x", session.id, None, None, False, b"{}", 1, 1, None
            )
        )
        done = await export_to(at.runtime, tmp_path / "files")
    (trouble,) = done.troubles
    assert trouble.name == session.id
    assert done.sessions == 1
    assert "is not a valid message id" in trouble.why
    assert not (tmp_path / "x.json").exists()


@pytest.mark.parametrize(
    "value",
    [
        [],
        {"info": {}},
        {"info": {}, "messages": [7]},
        {"info": 1, "messages": []},
        {"info": {}, "messages": [], "pendingTools": 7},
        7,
    ],
)
async def test_an_invalid_document_is_reported(tmp_path: Path, value: object) -> None:
    write_json(tmp_path / "one.json", value)
    done = await import_into_store(tmp_path / "data", tmp_path / "one.json")
    (trouble,) = done.troubles
    assert trouble.why


async def test_an_import_from_a_missing_or_empty_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    async with open_other_store(tmp_path / "data", serve=False) as (runtime, _):
        with pytest.raises(InvalidInput, match="does not exist"):
            await import_from(runtime, tmp_path / "none")
        with pytest.raises(InvalidInput, match="holds no exported sessions"):
            await import_from(runtime, tmp_path / "empty")


async def test_a_large_session_is_exported_in_pieces_and_comes_back(tmp_path: Path) -> None:
    time = {"created": 1, "updated": 1}
    info = {"id": ROOT_ID, "directory": "/home/ada/shop", "time": time}
    messages = []
    for number in range(1_000):
        message_id = f"msg_{number:06}"
        address = {"id": f"prt_{number:06}", "sessionID": ROOT_ID, "messageID": message_id}
        role = {"role": "assistant", "finish": "stop"} if number % 2 else {"role": "user"}
        said = {
            "id": message_id,
            "sessionID": ROOT_ID,
            "time": {"created": number, "completed": number},
            **role,
        }
        messages.append({"info": said, "parts": [{**address, "type": "text", "text": "x" * 2_000}]})
    write_json(tmp_path / "one.json", {"info": info, "messages": messages})
    first = await import_into_store(tmp_path / "data", tmp_path / "one.json")
    async with open_other_store(tmp_path / "data", serve=False) as (runtime, _):
        before = await export_files(runtime, tmp_path / "files")
        pieces = [len(piece) async for piece in runtime.transfer.records(ROOT_ID)]
    await import_into_store(tmp_path / "again", tmp_path / "files")
    async with open_other_store(tmp_path / "again", SCRIPT) as (runtime, model):
        assert await export_files(runtime, tmp_path / "more") == before
        await asyncio.wait_for(runtime.prompt(ROOT_ID, "more", model="scripted/scripted"), PATIENCE)
        await asyncio.wait_for(runtime.prompt(ROOT_ID, "more"), PATIENCE)
    assert [len(request.messages) for request in model.requests] == [1_001, 1_003]
    assert not first.troubles
    assert max(pieces) <= 100
