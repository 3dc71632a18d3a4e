"""The promises about notices: each end is told or carried by a call, once, as the rows were then."""

import json

import msgspec

from asyncagents.domain.call.call import Call, Completed, Settled
from tests.simulation.forest import Forest, Notice, fail

READS = {"task", "asyncagents_output", "async_task_result", "asyncagents_cancel"}


def check_notices(forest: Forest) -> None:
    for notice in forest.notices:
        _check_notice(forest, notice)
        _check_known(forest, notice)
    _check_tellings(forest)
    _check_woken(forest)


def _check_notice(forest: Forest, notice: Notice) -> None:
    """Told once, or consumed by a call; or quiet, and its parent has read nothing since."""
    match notice.state:
        case "due":
            fail("T-15", f"the end of run {notice.run} of {notice.task_id} was never told")
        case "quiet":
            since = max([notice.seq, *(c.rev for c in forest.cancels if c.session_id == notice.session_id)])
            query = (  # what was promoted; a summary that ends after a cancel writes a message of its own
                "SELECT MAX(message.rev) FROM message JOIN input ON input.message_id = message.id "
                "WHERE message.session_id = ? AND message.turn > 0"
            )
            read = forest.db.execute(query, (notice.session_id,)).fetchone()[0] or 0
            if read > since:
                fail("T-15", f"the quiet end of {notice.task_id} was not told with what came next")
        case "consumed":
            if not any(_brings(call, notice, forest) for call in forest.calls.values()):
                fail("T-15", f"the end of {notice.task_id} is consumed, and no call brought it")
        case "told":
            if notice.message_id is None:
                fail("T-15", f"the end of {notice.task_id} was told in no message")
        case state:
            fail("T-15", f"the end of {notice.task_id} is {state}")


def _brings(call: Call, notice: Notice, forest: Forest) -> bool:
    if call.session_id != notice.session_id or call.tool not in READS:
        return False
    batch = call.input.get("batch")
    task = forest.tasks.get(notice.task_id)
    about = notice.task_id in json.dumps(msgspec.to_builtins(call.state)) or (task and batch == task.batch)
    if task and call.message_id == task.message_id and call.input.get("prompt") == task.prompt:
        return True  # it waited, and was aborted
    return bool(about) or notice.task_id.startswith(str(call.input.get("task_id") or "?"))


def _check_known(forest: Forest, notice: Notice) -> None:
    """Who has read a result is not told that it is there."""
    told = forest.told.get(notice.message_id or "")
    if notice.state != "told" or told is None or forest.runs[notice.task_id]:
        return  # of several runs one cannot tell which was read
    for call_id, rev in forest.changed.items():
        call = forest.calls[call_id]
        mine = call.session_id == notice.session_id and call.tool in (
            "asyncagents_output",
            "async_task_result",
        )
        if mine and rev < told and _shows_end(call, notice.task_id):
            fail("T-15", f"the end of {notice.task_id} was told after {call_id} had brought it")


def _shows_end(call: Call, task_id: str) -> bool:
    if not isinstance(call.state, Settled) or not isinstance(call.state.result, Completed):
        return False
    output = call.state.result.output
    if call.tool == "async_task_result":
        return "\n\nSession not found." not in output and output.startswith(
            (f"status: complete\ntask_id: {task_id}", f"status: error\ntask_id: {task_id}")
        )
    return output.startswith(f"task_id: {task_id}") and "<task_metadata>" in output


def _check_woken(forest: Forest) -> None:
    """DESIGN §4: an end that a cancel brought along, or found untold, wakes nobody."""
    for message_id, seq in forest.told.items():
        ends = [each for each in forest.notices if each.message_id == message_id]
        if not ends:
            continue
        session_id = ends[0].session_id
        revs = [
            cancel.rev for cancel in forest.cancels if cancel.session_id == session_id and cancel.rev < seq
        ]
        hushed = all(any(end.seq <= rev for rev in revs) for end in ends)
        query = """SELECT COUNT(*) FROM input WHERE (session_id, turn) IN
                     (SELECT session_id, turn FROM input WHERE message_id = ?)"""
        alone = forest.db.execute(query, (message_id,)).fetchone()[0] == 1
        if hushed and alone:
            fail("I9", f"{session_id} was woken by the end of {ends[0].task_id}, which its cancel had hushed")


def _check_tellings(forest: Forest) -> None:
    """Every message of notices tells those that its rows name, each once, as the rows were then."""
    told: dict[str, list[Notice]] = {}
    for notice in forest.notices:
        if notice.state == "told" and notice.message_id:
            told.setdefault(notice.message_id, []).append(notice)
    query = "SELECT message_id, session_id, seq FROM input WHERE source = 'notice'"
    inputs = {row[0]: (row[1], row[2]) for row in forest.db.execute(query)}
    if missing := told.keys() - inputs.keys():
        fail("T-15", f"notices were told in {missing}, which are no input")
    for message_id, (session_id, seq) in inputs.items():
        _check_telling(forest, told.get(message_id, []), message_id, session_id, seq=seq)


def _check_telling(
    forest: Forest, notices: list[Notice], message_id: str, session_id: str, *, seq: int
) -> None:
    query = "SELECT body FROM part WHERE message_id = ? ORDER BY id"
    parts = [json.loads(row[0]) for row in forest.db.execute(query, (message_id,))]
    visible = [part["text"] for part in parts if not part.get("synthetic")]
    hidden = "\n".join(part["text"] for part in parts if part.get("synthetic"))
    cleared = forest.db.execute("SELECT COUNT(*) FROM tombstone WHERE kind = 'task'").fetchone()[0]
    if len(visible) != len(notices) and not (cleared and len(visible) > len(notices)):
        fail("T-15", f"message {message_id} tells {len(visible)} ends, and {len(notices)} were told in it")
    for notice in notices:
        wanted = sum(1 for each in notices if each.task_id == notice.task_id)
        if hidden.count(f'\nTask {notice.task_id} "') != wanted:
            fail("T-15", f"message {message_id} does not tell the model of {notice.task_id}")
        if notice.session_id != session_id or notice.seq > seq:
            fail("T-15", f"the end of {notice.task_id} was told to {session_id}, or before it came")
    _check_progress(forest, notices, visible, seq)
    _check_agent(forest, message_id, session_id, seq)


def _check_progress(forest: Forest, notices: list[Notice], visible: list[str], seq: int) -> None:
    """T-12, Z-03: background tasks, counted in the rows when it is told, not when it ends."""
    if len(visible) != len(notices):
        return
    if forest.db.execute("SELECT COUNT(*) FROM tombstone").fetchone()[0]:
        return
    for notice, text in zip(sorted(notices, key=lambda n: (n.seq, n.task_id, n.run)), visible, strict=True):
        batch = [task for task in forest.tasks.values() if task.batch == notice.end["batch"]]
        batch = [task for task in batch if forest.first[task.id] <= seq]
        if any(forest.kind_at_birth(task) != task.kind or task.run for task in batch):
            continue  # of one that changed its kind the rows do not tell when
        batch = [task for task in batch if task.kind == "background"]
        ended = [forest.ended_at(task, seq) for task in batch]
        if None in ended:
            continue
        progress = f"Task Progress: {sum(map(bool, ended))}/{len(batch)}" if batch else ".**"
        if not text.endswith(progress):
            fail("T-12", f"{text!r} was told when it was {progress!r}")


def _check_agent(forest: Forest, message_id: str, session_id: str, seq: int) -> None:
    """T-12: whoever is told stays who it is."""
    query = """SELECT message.info FROM input JOIN message ON message.id = input.message_id
               WHERE input.session_id = ? AND input.seq < ?
               ORDER BY input.seq DESC, message.id DESC LIMIT 1"""
    before = json.loads(forest.db.execute(query, (session_id, seq)).fetchone()[0])
    info = json.loads(forest.db.execute("SELECT info FROM message WHERE id = ?", (message_id,)).fetchone()[0])
    if (info["agent"], info["model"]) != (before["agent"], before["model"]):
        fail("T-12", f"a notice made {session_id} a {info['agent']}, it was a {before['agent']}")
