"""What a recording must hold: every state that the version's rows could be in, written out by hand."""

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

Found = frozenset[str]


class Demand(Struct, frozen=True):
    """The values of one thing that a recording must hold."""

    of: str
    values: Found


def demand(of: str, *values: str) -> Demand:
    return Demand(of, frozenset(values))


FIRST = (
    demand("session state", "idle", "ready", "running"),
    demand("session status", "idle", "busy", "retry", "waiting_async"),
    demand("a summary is wanted, or being written", "wanted", "placed"),
    demand("call state", "requested", "running", "open", "settled"),
    demand("open call", "ask", "question", "async", "wait", "task"),
    demand("settled call", "completed", "failed", "completed expired", "failed expired", "failed blocks"),
    demand("call effect", "none", "idempotent", "once"),
    demand("call shown as pending", "open", "settled"),
    demand(
        "call has",
        *(
            "ask_id",
            "reply",
            "answered_by",
            "asked_before",
            "shown_pending",
            "compacted",
            "written",
            "proposed",
        ),
        *("prepared", "repeats", "granted", "later", "started"),
    ),
    demand(
        "open call has",
        *("due", "warn", "warned", "note", "ask", "question", "who", "approval", "watch", "child_waits"),
        *("title", "metadata"),
    ),
    demand("watched", "one task", "any task"),
    demand("later has", "due", "estimated", "external_ref", "webhook_url", "checked"),
    demand("pending call", "waiting", "processing", "completed", "failed", "expired"),
    demand("ask waits", "permission", "question", "approval"),
    demand("ask answered", "once", "always", "reject", "answers"),
    demand("task status", "running", "completed", "error", "cancelled", "resumed"),
    demand("task ended by", "user", "parent", "deadline", "shutdown", "crash"),
    demand("task", "sync", "background", "forked", "several runs", "queued", "in a batch", "follow", "due"),
    demand("notice", "due", "quiet", "consumed", "told"),
    demand("input state", "queued", "held", "aborted", "promoted"),
    demand("input source", "person", "system", "notice", "compaction"),
    demand("request", "open", "done", "failed", "refused", "lost", "backoff", "backoff before its first try"),
    demand("delivery", "owed, not tried", "owed, tried", "delivered", "dead"),
    demand("tombstone", "session", "message", "part", "task"),
    demand("secret", "in", "out"),
    demand("todo", "pending", "in_progress", "completed", "cancelled"),
    demand(
        "session has", "revert", "permission", "metadata", "summary", "path", "archived", "trace", "cancels"
    ),
    demand("session after a summary", "yes"),
    demand("revert", "files put back", "files being put back", "no files"),
    demand(
        "part",
        *("text", "reasoning", "tool", "file", "agent", "subtask", "compaction", "step-start", "step-finish"),
        *("patch", "retry", "unknown"),
    ),
    demand("tool part", "pending", "running", "completed", "error", "waiting_async"),
    demand(
        "error of a message",
        *("APIError", "MessageAbortedError", "UnknownError", "StructuredOutputError", "ContentFilterError"),
        "ContextOverflowError",
    ),
    demand("approval", "touch"),
    demand("asked again", "yes"),
    demand("cut off in a step", "with text", "before text"),
)

SECOND = (demand("later has", "server_task"),)

SINCE: dict[str, tuple[Demand, ...]] = {"0.1": FIRST, "0.2": SECOND}
"""What recordings must hold from a version on; a state that is new in a version stands there."""


def demands(version: str | None = None) -> dict[str, Found]:
    """Sum up what recordings of a version must hold; without one, of the newest."""
    every: dict[str, Found] = {}
    for since, new in SINCE.items():
        if version is None or _number(since) <= _number(version):
            every |= {each.of: every.get(each.of, frozenset()) | each.values for each in new}
    return every


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def lacking(inventory: dict[str, Any], version: str | None = None) -> dict[str, list[str]]:
    """Name what an inventory should have and has not."""
    found = found_in(inventory)
    lacks = {of: sorted(values - found.get(of, frozenset())) for of, values in demands(version).items()}
    return {of: values for of, values in lacks.items() if values}


def found_in(inventory: dict[str, Any]) -> dict[str, Found]:
    """Collect the values that an inventory has of each thing."""
    found: dict[str, set[str]] = {}
    for of, value in (*_of_tables(inventory), *_of_sessions(inventory), *_of_others(inventory)):
        found.setdefault(of, set()).add(value)
    return {of: frozenset(values) for of, values in found.items()}


def _of_tables(inventory: dict[str, Any]) -> Iterator[tuple[str, str]]:
    columns = (
        ("session state", "session", "state"),
        ("session status", "session", "status"),
        ("call state", "call", "state"),
        ("pending call", "call", "pending"),
        ("task status", "task", "status"),
        ("notice", "notice", "state"),
        ("input state", "input", "state"),
        ("input source", "input", "source"),
        ("request", "request", "state"),
        ("tombstone", "tombstone", "kind"),
        ("secret", "call_secret", "direction"),
    )
    for of, table, column in columns:
        for value in inventory["tables"][table][column]:
            yield of, value
    if inventory["tables"]["answered"]["rows"]:
        yield "asked again", "yes"


def _of_others(inventory: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for delivery in inventory["deliveries"]:
        tried = ", tried" if delivery["attempts"] else ", not tried"
        yield "delivery", delivery["state"] + (tried if delivery["state"] == "owed" else "")
    for rules in inventory["approvals"].values():
        for rule in rules:
            yield "approval", rule["permission"]
    if any(len(batch) > 1 for batch in inventory["batches"].values()):
        yield "task", "in a batch"


def _of_sessions(inventory: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for session in inventory["sessions"].values():
        yield from _of_session(session)
        for call in session["calls"].values():
            yield from _of_call(call)
        for task_id, task in session["tasks"].items():
            child = inventory["sessions"].get(task_id)
            yield from _of_task(task, child)
        for message in session["messages"]:
            yield from _of_message(message, session)


def _has(of: str, value: dict[str, Any], names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Name the fields that say something."""
    return ((of, name) for name in names if value.get(name))


def _of_session(session: dict[str, Any]) -> Iterator[tuple[str, str]]:
    info, control = session["info"], session["control"]
    yield from _has("session has", info, ("revert", "permission", "metadata", "summary", "path"))
    yield from _has("session has", info["time"], ("archived",))
    yield from _has("session has", session, ("trace", "cancels"))
    if control["compacting"]:
        yield "a summary is wanted, or being written", "wanted" if control["compacting"] < 0 else "placed"
    if control["summary"]:
        yield "session after a summary", "yes"
    if revert := info.get("revert"):
        files = "files put back" if "diff" in revert else "files being put back"
        yield "revert", files if "snapshot" in revert else "no files"
    for todo in session["todos"]:
        yield "todo", todo["status"]
    if any(state == "backoff" and not attempt for _, state, attempt, _ in session["requests"]):
        yield "request", "backoff before its first try"


def _of_message(message: dict[str, Any], session: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for part in message["parts"]:
        yield "part", part.get("type", "unknown")
        if part.get("type") == "tool":
            yield "tool part", part["state"]["status"]
    if error := message.get("error"):
        yield "error of a message", error["name"]
    cut = message is session["messages"][-1] and "of" in message and not message.get("finish")
    if cut and session["control"]["state"] == "running":
        said = any(part.get("type") == "text" for part in message["parts"])
        yield "cut off in a step", "with text" if said else "before text"


def _of_call(call: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "call effect", call["effect"]
    yield from _has("call has", call, demands()["call has"])
    if call["shown_pending"]:
        yield "call shown as pending", call["state"]
    yield from _has("later has", call.get("later") or {}, demands()["later has"])
    if call.get("reply"):
        yield "ask answered", call["reply"]["type"]
    if call["state"] == "open":
        yield from _of_open(call)
    if call["state"] == "settled":
        result = call["result"]
        yield "settled call", result["type"] + (" expired" if call["expired"] else "")
        if result.get("blocks"):
            yield "settled call", f"{result['type']} blocks"


def _of_open(call: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "open call", call["kind"]
    yield from _has("open call has", call, demands()["open call has"])
    if watch := call.get("watch"):
        yield "watched", "any task" if watch.get("any") else "one task"
    if call.get("ask"):
        yield "ask waits", "permission"
    elif call.get("question"):
        yield "ask waits", "approval" if call["approval"] else "question"


def _of_task(task: dict[str, Any], child: dict[str, Any] | None) -> Iterator[tuple[str, str]]:
    yield "task", "background" if task["background"] else "sync"
    yield from _has("task", task, ("forked", "follow"))
    if task["run"]:
        yield "task", "several runs"
    if task.get("due") and "ended" not in task:
        yield "task", "due"
    if by := task.get("ended_by"):
        yield "task ended by", by
    if child and child["control"]["state"] == "ready":
        yield "task", "queued"
