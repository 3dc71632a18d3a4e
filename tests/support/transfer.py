"""What flows of exports and imports have in common: another store, and the files of an export."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from asyncagents.archive.export import export_to
from asyncagents.archive.import_ import ImportResult, import_from
from asyncagents.domain.id import SessionId
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.engine.tool import AnyTool
from asyncagents.llm.scripted import Script, ScriptedModel
from tests.support.path import FIXTURES
from tests.support.runtime import open_runtime

OPENCODE = FIXTURES / "opencode"
RECORDED = OPENCODE / "export-1.18.33.json"
RECORDED_CHILD = OPENCODE / "export-1.18.33-child.json"
ROOT_ID = SessionId("ses_e1bb0d00dffeOXNtsJjOBJGRK0")
CHILD_ID = SessionId("ses_e1bb0bca2ffeiRPYunMAKRyGpT")


@asynccontextmanager
async def open_other_store(
    data: Path, script: Script | None = None, *tools: AnyTool, serve: bool = True
) -> AsyncIterator[tuple[Runtime, ScriptedModel]]:
    """A runtime on another store."""
    model = ScriptedModel(script or {})
    async with open_runtime(data, model=model, tools=tools, serve=serve) as runtime:
        yield runtime, model


def read_files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def export_files(runtime: Runtime, folder: Path, *sessions: SessionId) -> dict[str, bytes]:
    done = await export_to(runtime, folder, sessions)
    assert not done.troubles
    return read_files(folder)


async def import_into_store(data: Path, source: Path, **more: Any) -> ImportResult:
    """Import into a store that nobody serves."""
    async with open_other_store(data, serve=False) as (runtime, _):
        return await import_from(runtime, source, **more)


def unpack_recording(folder: Path, name: str) -> Path:
    """A data directory of OpenCode, as it was recorded."""
    for path, value in json.loads((OPENCODE / name).read_text()).items():
        write_json(folder / path, value)
    return folder


def write_json(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def change_json(path: Path, **fields: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


OLD_ROOT = SessionId("ses_e1baea3fbffepaXbVcNz8fpILR")


OLD_CHILD = SessionId("ses_e1bae9eb4ffegAo1yMWO9izeeS")


def write_waiting_session(storage: Path, **record: object) -> str:
    """As the source of async tools writes one: a part that waits, and a record of the call."""
    ids = {"sessionID": "ses_w", "messageID": "msg_02"}
    base = {"projectID": "p", "directory": "/home/ada/shop", "title": "Waits", "version": "1", "slug": "s"}
    write_json(
        storage / "session/p/ses_w.json", {"id": "ses_w", **base, "time": {"created": 1, "updated": 2}}
    )
    asked = {"id": "msg_01", "sessionID": "ses_w", "role": "user", "time": {"created": 1}}
    write_json(storage / "message/ses_w/msg_01.json", asked)
    write_json(
        storage / "part/msg_01/prt_1.json",
        {**ids, "id": "prt_1", "messageID": "msg_01", "type": "text", "text": "and?"},
    )
    step = {
        "id": "msg_02",
        "sessionID": "ses_w",
        "role": "assistant",
        "time": {"created": 2},
        "finish": "tool-calls",
    }
    write_json(storage / "message/ses_w/msg_02.json", step)
    state = {"status": "waiting_async", "input": {"env": "prod"}, "pendingID": "pend_1", "time": {"start": 2}}
    tool = {**ids, "id": "prt_2", "type": "tool", "callID": "call_1", "tool": "deploy", "state": state}
    write_json(storage / "part/msg_02/prt_2.json", tool)
    pending = {**ids, "id": "pend_1", "callID": "call_1", "tool": "deploy", "input": {"env": "prod"}}
    known = {"status": "waiting", "externalRef": "job-7", "time": {"created": 2}, **record}
    write_json(storage / "pending_tool/pend_1.json", {**pending, **known})
    return "pend_1"


def own_fields(**fields: Any) -> dict[str, Any]:
    return {"asyncagents": fields}


SESSION_FILE, STEP_FILE, PROMPT_FILE = (
    "session/p/ses_w.json",
    "message/ses_w/msg_02.json",
    "message/ses_w/msg_01.json",
)


TOOL_FILE, PENDING_FILE, TEXT_FILE = (
    "part/msg_02/prt_2.json",
    "pending_tool/pend_1.json",
    "part/msg_01/prt_1.json",
)
