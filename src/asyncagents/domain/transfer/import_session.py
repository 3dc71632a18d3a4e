"""Builds an import from the JSON of an exported session: validated, complete and at rest. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.call.call import Call
from asyncagents.domain.conversation.codec import DECODE_ERRORS, decode_message, decode_part, decode_session
from asyncagents.domain.conversation.message import AssistantMessage, Message
from asyncagents.domain.conversation.part import ToolPart
from asyncagents.domain.conversation.session import Session
from asyncagents.domain.conversation.todo import Todo
from asyncagents.domain.id import SessionId, sort_id
from asyncagents.domain.shape import Shape, encode
from asyncagents.domain.task.account import earlier_runs, run_account, session_account
from asyncagents.domain.task.task import LIVE, Account, Task, TaskError
from asyncagents.domain.transfer.import_call import CallImporter
from asyncagents.domain.transfer.import_position import assign_positions, complete_session_mark
from asyncagents.domain.transfer.legacy import (
    Json,
    add_agent_and_model,
    complete_message,
    complete_part,
    complete_session,
    find_directory,
)
from asyncagents.domain.transfer.records import (
    LARGEST,
    MARK_KEY,
    SESSION_CUT_OFF,
    ImportedMessage,
    ImportedPart,
    MessageMark,
    PartMark,
    SessionImport,
    SessionMark,
    check_id,
)
from asyncagents.errors import InvalidInput

M = TypeVar("M", bound=Shape)


class SessionJson(Struct, frozen=True, kw_only=True):
    """One session as the files of an export hold it."""

    info: Json
    messages: Sequence[tuple[Json, Sequence[Json]]]
    todos: Any = None
    pending: Mapping[str, Json] = {}
    """Records of its pending calls, by call id."""


class ImportTerms(Struct, frozen=True, kw_only=True):
    """Options of an import. `trusted`: keep rules that allow something, webhook addresses and MCP servers."""

    now: int
    trusted: bool = False
    directory: str | None = None
    """The directory of the imported session; None: the exported one."""
    orphan: bool = False
    """Whether to drop the parent: it is missing here, or unrelated."""


def build_import(session_json: SessionJson, terms: ImportTerms) -> SessionImport:
    """Build the import of one session. Raises `InvalidInput` if it cannot be imported."""
    try:
        return _build_import(session_json, terms)
    except DECODE_ERRORS as error:  # `Unreadable` names the object
        raise InvalidInput(str(error)) from error


def _build_import(session_json: SessionJson, terms: ImportTerms) -> SessionImport:
    ordered = sorted(session_json.messages, key=lambda each: _sort_id(each[0]))
    directory = terms.directory or find_directory([info for info, _ in ordered])
    session_mark = _read_mark(session_json.info, SessionMark)
    raw_info = complete_session(_apply_options(_without_mark(session_json.info), terms), directory=directory)
    whole = list(_complete_messages(ordered, str(raw_info["directory"])))
    raw_info = add_agent_and_model(raw_info, [info for info, _, _ in whole])
    session = _read_session(raw_info)
    messages = [_read_message(info, mark, session) for info, mark, _ in whole]
    if session_mark is None:
        messages = assign_positions(session, messages)
    calls = CallImporter(session_json.pending, messages, now=terms.now, trusted=terms.trusted)
    parts = [part for info, _, parts in whole for part in _read_parts(parts, info, session, calls)]
    calls.check_all_used()
    _check_unique(messages, parts)
    waits = any(call.open for call in calls.calls)
    _check_notices(session_mark)
    mark = complete_session_mark(session_mark, messages, parts, waits=waits)
    task = _read_task(mark, session, terms, calls.calls)
    return SessionImport(
        info=session,
        raw=encode(raw_info),
        mark=mark,
        messages=tuple(messages),
        parts=tuple(parts),
        calls=tuple(calls.calls),
        todos=_read_todos(session_json.todos),
        task=task,
        cut_off=task is not None and not task.live and _was_live(mark),
        remarks=tuple(_import_remarks(session_json.info, terms, calls)),
    )


def _sort_id(info: Json) -> str:
    """Return the sort id of a message; its time tells the era, as OpenCode's ids restart every 26 months."""
    message_id, time = str(info.get("id")), info.get("time")
    created = time.get("created") if isinstance(time, dict) else None
    return sort_id(message_id, created, past=True) if isinstance(created, int) else message_id


def _apply_options(info: Json, terms: ImportTerms) -> Json:
    """Apply the directory, drop an orphan's parent and, unless trusted, everything that allows something."""
    info = dict(info)
    if terms.directory is not None:
        info["directory"] = terms.directory
    if terms.orphan:
        info.pop("parentID", None)
    rules = info.get("permission")
    if isinstance(rules, list) and not terms.trusted:
        info["permission"] = [rule for rule in rules if not _is_permissive(rule)]
    tools = info.get("tools")
    if isinstance(tools, dict) and not terms.trusted:
        info["tools"] = {tool: used for tool, used in tools.items() if used is not True}
        if not info["tools"]:
            del info["tools"]
    if not terms.trusted:
        info.pop("mcpServers", None)  # they run programs
    return info


def _is_permissive(rule: object) -> bool:
    return isinstance(rule, dict) and rule.get("action") != "deny"


def _allows_anything(info: Json) -> bool:
    rules, tools = info.get("permission"), info.get("tools")
    by_rule = isinstance(rules, list) and any(_is_permissive(rule) for rule in rules)
    return by_rule or (isinstance(tools, dict) and any(used is True for used in tools.values()))


def _import_remarks(info: Json, terms: ImportTerms, calls: CallImporter) -> Iterator[str]:
    if not terms.trusted and _allows_anything(info):
        yield "rules of the session that allow something were left out"
    if not terms.trusted and info.get("mcpServers"):
        yield "MCP servers of the session, which run programs, were left out"
    if calls.dropped_webhook:
        yield "webhook addresses for results were left out"
    if calls.dropped_server_task:
        yield "tasks of MCP servers were left out: their calls wait for a result from outside"
    if terms.orphan:
        parent = str(info.get("parentID"))[:140]
        yield f"its parent {parent} is missing here or has worked here since, so it has no parent now"


def _read_session(info: Json) -> Session:
    raw = encode(info)
    session = decode_session(raw)
    check_id(session.id, "session")
    if not session.id.startswith("ses_"):
        raise InvalidInput(f"{session.id!r} is not a valid session id: expected one that begins with ses_")
    if session.parent_id is not None:
        check_id(session.parent_id, "session")
    if not session.directory.startswith("/") or "\0" in session.directory:
        raise InvalidInput("the session has no absolute directory: name one (--into DIR)")
    _check_numbers(session.time.created, session.time.updated)
    return session


def _complete_messages(
    ordered: Sequence[tuple[Json, Sequence[Json]]], directory: str
) -> Iterator[tuple[Json, Any, Sequence[Json]]]:
    """Yield each message with the fields that older versions leave out, its mark and its parts."""
    asked = ""
    for (info, parts), after in zip(ordered, _next_answers(ordered), strict=True):
        plain = complete_message(_without_mark(info), after=after, asked=asked, directory=directory)
        asked = str(plain.get("id")) if plain.get("role") == "user" else asked
        yield plain, _read_mark(info, MessageMark), parts


def _next_answers(ordered: Sequence[tuple[Json, Sequence[Json]]]) -> list[Json | None]:
    """Return for each message the next assistant message."""
    found: list[Json | None] = []
    following: Json | None = None
    for info, _ in reversed(ordered):
        found.append(following)
        following = info if info.get("role") == "assistant" else following
    return found[::-1]


def _read_message(info: Json, mark: MessageMark | None, session: Session) -> ImportedMessage:
    message = decode_message(encode(info))
    check_id(message.id, "message")
    if message.session_id != session.id:
        raise InvalidInput(
            f"message {message.id} is of session {message.session_id!r}, not of {session.id!r}"
        )
    _check_numbers(message.time.created, mark.position if mark else None, mark.turn if mark else None)
    ended, raw = _end_message(message, info)
    return ImportedMessage(info=ended, raw=raw, mark=mark or MessageMark())


def _end_message(message: Message, info: Json) -> tuple[Message, bytes]:
    """End a step that was incomplete at the export, with an error if it has neither finish nor error."""
    if not isinstance(message, AssistantMessage) or message.time.completed is not None:
        return message, encode(info)
    cut = {"name": "MessageAbortedError", "data": {"message": SESSION_CUT_OFF}}
    time = {**info["time"], "completed": message.time.created}
    waiting = message.finish is not None or message.error is not None
    info = {**info, "time": time} if waiting else {**info, "time": time, "error": cut}
    raw = encode(info)
    return decode_message(raw), raw


def _read_parts(
    parts: Sequence[Json], message: Json, session: Session, calls: CallImporter
) -> Iterator[ImportedPart]:
    for each in sorted(parts, key=lambda part: str(part.get("id"))):
        mark = _read_mark(each, PartMark) or PartMark()
        plain = complete_part(_without_mark(each), at=int(message["time"]["created"]))
        part = decode_part(encode(plain))
        check_id(part.id, "part")
        if (part.message_id, part.session_id) != (message["id"], session.id):
            raise InvalidInput(
                f"part {part.id} does not belong to message {message['id']!r} of {session.id!r}"
            )
        if isinstance(part, ToolPart):
            plain = calls.import_part(part, plain, mark.call)
            part = decode_part(encode(plain))
        yield ImportedPart(part, encode(plain), max(1, mark.version))


def _check_unique(messages: Sequence[ImportedMessage], parts: Sequence[ImportedPart]) -> None:
    keys = [each.mark.input.key for each in messages if each.mark.input]
    places = [each.mark.position for each in messages if each.mark.position is not None]
    for kind, ids in (
        ("message", [each.info.id for each in messages]),
        ("part", [each.part.id for each in parts]),
        ("key", keys),
        ("position", places),
    ):
        seen: set[object] = set()
        for each in ids:
            if each in seen:
                raise InvalidInput(f"{kind} {each!r} occurs twice")
            seen.add(each)


def _read_todos(value: Any) -> tuple[Todo, ...] | None:
    """Read the todos; entries without content are left out, as OpenCode does."""
    if value is None:
        return None
    if not isinstance(value, list):
        raise InvalidInput("the todos are not a list")
    named = [each for each in value if isinstance(each, dict) and each.get("content")]
    return tuple(msgspec.convert(each, Todo) for each in named)


def _read_task(mark: SessionMark, session: Session, terms: ImportTerms, calls: Sequence[Call]) -> Task | None:
    """Read the task; a live one goes on in the background if its child has open calls, else it is cut off."""
    if mark.task is None or session.parent_id is None:
        return None
    task = msgspec.convert(mark.task, Task)
    if (task.id, task.parent_id) != (session.id, session.parent_id):
        raise InvalidInput(
            f"the task of {session.id} names session {task.id!r} and parent {task.parent_id!r}: ids differ"
        )
    _check_numbers(task.due, task.crowd, task.run, task.created, task.began, task.ended, task.longest)
    _check_numbers(task.resumes, task.retrieved, task.follow.at if task.follow else None)
    for counted in (task.account, task.base, task.earlier):
        if counted is not None:
            _check_numbers(counted.tool_calls, counted.ms, *counted.by_name.values())
    task = replace(task, calls=(), gone=False)
    if not task.live:
        return replace(task, account=task.account or Account())
    if any(call.open for call in calls):
        return replace(task, background=True)
    account = run_account(task, session_account(session, [call.tool for call in calls]))
    account = replace(account, ms=max(0, session.time.updated - task.began))
    error = TaskError("MessageAbortedError", SESSION_CUT_OFF)
    task = replace(task, earlier=earlier_runs(task), status="cancelled", ended=terms.now)
    return replace(task, account=account, error=error, ended_by="shutdown")


def _check_notices(mark: SessionMark | None) -> None:
    for notice in mark.notices if mark else ():
        check_id(notice.end.id, "task")
        _check_numbers(notice.end.run, notice.end.ms)


def _was_live(mark: SessionMark) -> bool:
    return mark.task is not None and mark.task.get("status", "running") in LIVE


def _without_mark(value: Json) -> Json:
    return {name: each for name, each in value.items() if name != MARK_KEY}


def _read_mark(value: Json, kind: type[M]) -> M | None:
    return msgspec.convert(value[MARK_KEY], kind) if MARK_KEY in value else None


def _check_numbers(*numbers: int | None) -> None:
    for number in numbers:
        if number is not None and not 0 <= number <= LARGEST:
            raise InvalidInput(f"{number} is not a valid position, turn or time: expected 0 to 2^53")


def session_ids(value: Json) -> tuple[SessionId, SessionId | None]:
    """Read the ids of a session and its parent, before the rest is read."""
    parent = value.get("parentID")
    return SessionId(check_id(value.get("id"), "session")), None if parent is None else SessionId(
        check_id(parent, "session")
    )
