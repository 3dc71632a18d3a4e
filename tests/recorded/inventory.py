"""What a store holds, as the program reads it: an inventory that is written down beside a recording."""

import hashlib
from typing import Any, get_args

import msgspec

from asyncagents.domain.call.call import Call, Open, Settled
from asyncagents.domain.call.pending_tool import PendingStatus
from asyncagents.domain.conversation.codec import UnknownPart
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.conversation.part import Part, ToolPart
from asyncagents.domain.conversation.session import Session
from asyncagents.domain.id import SessionId
from asyncagents.domain.shape import encode
from asyncagents.domain.task.task import Task
from asyncagents.store.store import Store
from asyncagents.store.tx import Database
from tests.recorded.rows import Row, Tables, counts

SHORT = 160
EVERY = 10_000
PART_FIELDS = ("text", "url", "prompt", "name", "files", "synthetic", "auto", "reason", "attempt")
CALL_FIELDS = (
    *("tool", "input", "turn", "agent", "effect", "repeats", "ask_id", "answered_by", "asked_before"),
    *("shown_pending", "compacted", "written", "proposed", "prepared", "started", "created"),
)
OPEN_FIELDS = (
    *("kind", "since", "due", "warn", "warned", "note", "who", "approval", "blocks", "child_waits", "watch"),
    *("title", "metadata"),
)
TASK_FIELDS = (
    *("parent_id", "description", "prompt", "agent", "batch", "background", "forked", "status", "run"),
    *("resumes", "created", "began", "due", "ended", "ended_by", "result", "error", "retrieved", "calls"),
    *("crowd", "longest", "follow", "account"),
)


async def take_inventory(database: Database, tables: Tables) -> dict[str, Any]:
    """Read everything by the program's own verbs, and what no verb reads from the rows."""
    store = Store(database)
    ids = sorted(SessionId(row["id"]) for row in tables["session"])
    sessions = [await store.session(session_id) for session_id in ids]
    found = {
        "tables": counts(tables),
        "statuses": dict(sorted((await store.statuses()).items())),
        "asks": [(each.call.ask_id, each.who, each.until) for each in await store.asks()],
        "approvals": {
            project: await store.approvals(project)
            for project in sorted({each.project_id for each in sessions})
        },
        "deliveries": await store.deliveries.list(None, after="", limit=EVERY),
        "pending": {each: await _pending(store, each) for each in get_args(PendingStatus)},
        "keys": [hashlib.sha256(key).hexdigest() for key in await store.pending.secret_keys()],
        "next due": await store.next_due(),
        "batches": await _batches(store, tables),
        "sessions": {each.id: await _session(store, each, tables) for each in sessions},
    }
    plain: dict[str, Any] = _plain(found)
    return plain


async def _pending(store: Store, status: PendingStatus) -> list[str]:
    return [each.id for each in await store.pending.calls(status, None, after="", limit=EVERY)]


async def _batches(store: Store, tables: Tables) -> dict[str, Any]:
    names = sorted({row["batch"] for row in tables["task"]})
    return {each: [seen.task.id for seen in await store.tasks_of_batch(each)] for each in names}


async def _session(store: Store, session: Session, tables: Tables) -> dict[str, Any]:
    control = await store.control(session.id)
    rows = {name: _of_session(tables[name], session.id) for name in ("input", "request", "notice", "cancel")}
    hidden = {row["id"] for row in _of_session(tables["message"], session.id) if row["hidden"]}
    placed = [entry.info.id for entry in await store.history(session.id)]
    return {
        "info": session,
        "control": {
            name: getattr(control, name)
            for name in (
                "state",
                "owner",
                "fence",
                "turn",
                "in_turn",
                "claims",
                "backoff",
                "compacting",
                "summary",
            )
        },
        "trace": await store.trace(session.id),
        "status": await store.status(session.id),
        "messages": [_message(each, hidden) for each in await store.messages(session.id)],
        "read by the model": placed,
        "calls": {each.id: _call(each) for each in await store.calls(session.id)},
        "todos": await store.todos(session.id),
        "tasks": {each.task.id: _task(each.task) for each in await store.tasks_of(session.id)},
        "inputs": [
            [row["message_id"], row["state"], row["source"], row["answer_id"]] for row in rows["input"]
        ],
        "requests": [[row["id"], row["state"], row["attempt"], row["next_at"]] for row in rows["request"]],
        "notices": [[row["task_id"], row["run"], row["state"], row["message_id"]] for row in rows["notice"]],
        "cancels": len(rows["cancel"]),
    }


def _of_session(rows: list[Row], session_id: SessionId) -> list[Row]:
    found = [row for row in rows if row["session_id"] == session_id]
    return sorted(
        found, key=lambda row: [str(row.get(name)) for name in ("message_id", "id", "task_id", "run")]
    )


def _message(entry: MessageWithParts, hidden: set[str]) -> dict[str, Any]:
    info = entry.info
    said: dict[str, Any] = {"id": info.id, "parts": [_part(part) for part in entry.parts]}
    if info.id in hidden:
        said["hidden"] = True
    if isinstance(info, AssistantMessage):
        error = msgspec.json.decode(encode(info.error)) if info.error is not None else None
        return said | {"of": info.parent_id, "finish": info.finish, "error": error, "summary": info.summary}
    return said | {"agent": info.agent, "model": info.model, "system": info.system, "tools": info.tools}


def _part(part: Part | UnknownPart) -> dict[str, Any]:
    if isinstance(part, UnknownPart):
        return {"id": part.id, "raw": part.raw.decode()}
    said: dict[str, Any] = {"id": part.id, "type": part.__struct_config__.tag}
    if isinstance(part, ToolPart):
        return said | {"call": part.call_id, "tool": part.tool, "state": part.state}
    return said | {name: getattr(part, name) for name in PART_FIELDS if hasattr(part, name)}


def _call(call: Call) -> dict[str, Any]:
    said = {name: getattr(call, name) for name in CALL_FIELDS}
    said |= {"granted": len(call.granted), "reply": call.reply, "later": call.later}
    state: dict[str, Any] = {"state": type(call.state).__name__.lower()}
    match call.state:
        case Open():
            state |= {name: getattr(call.state, name) for name in OPEN_FIELDS}
            state |= {"ask": call.state.ask, "question": call.state.question}
        case Settled(result, at, expired):
            state |= {"result": result, "at": at, "expired": expired}
        case _:
            pass
    return said | state


def _task(task: Task) -> dict[str, Any]:
    return {name: getattr(task, name) for name in TASK_FIELDS}


def _plain(value: Any) -> Any:
    """As JSON, without what is not said, long texts by their beginning, length and hash."""
    if isinstance(value, msgspec.Struct):
        return _plain(msgspec.json.decode(encode(value)))
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items() if each is not None}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, str) and len(value) > SHORT:
        digest = hashlib.sha256(value.encode()).hexdigest()[:16]
        return f"{value[:60]}… ({len(value)} characters, {digest})"
    return value


def missing(recorded: Any, now: Any, where: str = "") -> list[str]:
    """Name what an inventory says and another one does not; what the other one says besides is no matter."""
    if isinstance(recorded, dict) and isinstance(now, dict):
        return [
            odd for name, each in recorded.items() for odd in missing(each, now.get(name), f"{where}/{name}")
        ]
    if isinstance(recorded, list) and isinstance(now, list) and len(recorded) == len(now):
        pairs = enumerate(zip(recorded, now, strict=True))
        return [odd for place, pair in pairs for odd in missing(*pair, f"{where}/{place}")]
    return [] if recorded == now else [f"{where}: was {recorded!r} and is {now!r}"]
