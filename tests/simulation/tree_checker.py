"""The promises about tasks, read from the rows alone when everything is at rest."""

import json
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any, NoReturn

import msgspec
from msgspec import Struct

from asyncagents.domain.call import ABORTED, Call, Completed, Failed, Settled
from asyncagents.domain.task import Task
from asyncagents.domain.task_text import sync_output
from asyncagents.testing.clock import EPOCH_MS
from tests.simulation.checker import all_calls
from tests.simulation.stage import Stage, Violation
from tests.simulation.trees import MOST_SESSIONS, Grove

SLACK_MS = 45_000
READS = {"task", "asyncagents_output", "async_task_result", "asyncagents_cancel"}


class Notice(Struct, frozen=True):
    task_id: str
    run: int
    session_id: str
    seq: int
    state: str
    message_id: str | None
    end: dict[str, Any]


class Cancel(Struct, frozen=True):
    session_id: str
    rev: int
    at: int


class Forest:
    """All that the rows say of trees."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db
        self.tasks = {
            row[0]: msgspec.json.decode(row[1], type=Task) for row in db.execute("SELECT id, body FROM task")
        }
        columns = "task_id, run, session_id, seq, state, message_id, body"
        self.notices = [
            Notice(*row[:6], json.loads(row[6])) for row in db.execute(f"SELECT {columns} FROM notice")
        ]
        self.calls = all_calls(db)
        self.parents = dict(db.execute("SELECT id, parent_id FROM session"))
        self.cancels = [Cancel(*row) for row in db.execute("SELECT session_id, rev, at FROM cancel ORDER BY rev")]
        first = "SELECT session_id, MIN(seq) FROM input GROUP BY session_id"
        self.first = dict(db.execute(first))
        """When a session was born."""
        turns = """SELECT session_id, turn, MIN(rev) FROM message
                   WHERE info ->> 'role' = 'user' AND turn > 0 GROUP BY session_id, turn"""
        self.turns = {(row[0], row[1]): row[2] for row in db.execute(turns)}
        """When a turn began."""
        told = "SELECT message_id, seq FROM input WHERE source = 'notice'"
        self.told: dict[str, int] = dict(db.execute(told))
        """When a message of notices was told."""
        self.changed: dict[str, int] = dict(db.execute("SELECT id, rev FROM call"))
        self.runs = {task.id: task.run for task in self.tasks.values()}
        self.ends = {(each.task_id, each.run): each.seq for each in self.notices}

    def below(self, session_id: str) -> set[str]:
        """With itself."""
        found = {session_id}
        while more := {each for each, above in self.parents.items() if above in found} - found:
            found |= more
        return found

    def ended_at(self, task: Task, rev: int) -> bool | None:
        """Whether it had ended at a revision; None: the rows do not tell."""
        end = self.ends.get((task.id, 0))
        if end is None or end > rev:
            return False
        return True if task.run == 0 else None


def _fail(invariant: str, text: str) -> NoReturn:
    raise Violation(f"{invariant}: {text}")


def check_trees(stage: Stage, path: Path, grove: Grove) -> None:
    db = sqlite3.connect(path)
    try:
        forest = Forest(db)
        _check_limits(forest, grove)
        for task in forest.tasks.values():
            _check_task(forest, task, grove.limits.seconds)
            _check_end(forest, task)
            _check_sync(forest, task)
            _check_fork(forest, task)
        for notice in forest.notices:
            _check_notice(forest, notice)
            _check_known(forest, notice)
        _check_follow_ups(stage, forest)
        _check_tellings(forest)
        _check_woken(forest)
        _check_cancelled_turns(forest)
        _check_acknowledged(stage, forest)
        _count(stage, forest)
    finally:
        db.close()


def _count(stage: Stage, forest: Forest) -> None:
    stage.counts["tasks"] = len(forest.tasks)
    stage.counts["ends"] = len(forest.notices)
    stage.counts["forks"] = sum(task.forked for task in forest.tasks.values())
    for notice in forest.notices:
        stage.count(f"notices {notice.state}")
    for task in forest.tasks.values():
        stage.count(f"tasks {task.status}")


def _check_limits(forest: Forest, grove: Grove) -> None:
    """D-10: no deeper and no more than may be."""
    deepest = forest.db.execute("SELECT MAX(depth) FROM session").fetchone()[0] or 0
    if deepest > grove.limits.depth:
        _fail("D-10", f"a session stands {deepest} deep, and {grove.limits.depth} is the limit")
    for parent_id, many in Counter(task.parent_id for task in forest.tasks.values()).items():
        if many > grove.limits.spawns:
            _fail("D-10", f"{parent_id} launched {many} tasks, not {grove.limits.spawns}")
    if len(forest.parents) > MOST_SESSIONS + 3:
        _fail("D-10", f"{len(forest.parents)} sessions")


def _check_task(forest: Forest, task: Task, seconds: float | None) -> None:
    """One terminal state; each run ended once, and each end is kept for its parent."""
    live = forest.db.execute("SELECT live FROM task WHERE id = ?", (task.id,)).fetchone()[0]
    if task.live or live:
        _fail("D-05", f"task {task.id} is still {task.status}")
    if task.ended is None or task.account is None:
        _fail("D-05", f"task {task.id} is {task.status} and never ended")
    _check_deadline(task, seconds)
    runs = sorted(each.run for each in forest.notices if each.task_id == task.id)
    if runs != list(range(task.run + 1)):
        _fail("T-12", f"task {task.id} has {task.run + 1} runs, and notices of the runs {runs}")
    if task.parent_id not in forest.parents:
        _fail("D-05", f"task {task.id} outlives {task.parent_id}, who launched it")
    last = next(each for each in forest.notices if (each.task_id, each.run) == (task.id, task.run))
    if (last.end["status"], last.end.get("result")) != (task.status, task.result):
        _fail("T-12", f"the notice of {task.id} says {last.end}, the task {task.status}")


def _check_deadline(task: Task, seconds: float | None) -> None:
    """D-10: it is ended in its time, or as soon as somebody looks."""
    if seconds is None or task.run or task.ended is None:
        return
    if task.ended > task.began + seconds * 1000 + SLACK_MS:
        _fail("D-10", f"task {task.id} took {task.ended - task.began} ms, and {seconds} s is the limit")


def _check_end(forest: Forest, task: Task) -> None:
    """DESIGN §4: a task with live children, open calls or unread input is not finished."""
    end, run = forest.ends[task.id, task.run], task.run
    assert task.ended is not None
    for child in forest.tasks.values():
        if child.parent_id != task.id or child.id not in forest.first:
            continue
        if (forest.ends[task.id, 0] > forest.first[child.id]) and not forest.ends[child.id, 0] <= end:
            _fail("D-06", f"task {task.id} ended while {child.id}, which it had launched, was at work")
        if child.began < task.ended and (child.ended or 0) > task.ended:
            _fail("D-06", f"run {run} of {task.id} ended while {child.id} was at work")
    if task.status == "cancelled" or task.id not in forest.parents:
        return
    for call in forest.calls.values():
        late = isinstance(call.state, Settled) and call.state.at > task.ended
        if call.session_id == task.id and call.created < task.ended and late:
            _fail("D-06", f"task {task.id} ended while its call {call.id} ({call.tool}) was open")
    _check_read(forest, task, end)


def _check_read(forest: Forest, task: Task, end: int) -> None:
    cancelled = [each.rev for each in forest.cancels if each.session_id == task.id]
    query = """SELECT input.seq, message.rev, part.body ->> 'text' FROM input
               JOIN message ON message.id = input.message_id JOIN part ON part.message_id = message.id
               WHERE input.session_id = ? AND input.source = 'person' AND input.state = 'promoted'
                 AND COALESCE(part.body ->> 'synthetic', 0) = 0"""
    for admitted, placed, text in forest.db.execute(query, (task.id,)):
        held = any(admitted < rev for rev in cancelled)
        if admitted < end < placed and not held and ":quiet" not in text:
            _fail("T-08", f"task {task.id} ended before it had read {text!r}")


def _check_sync(forest: Forest, task: Task) -> None:
    """The call of a foreground task is settled with what its child came to."""
    call = next((each for each in forest.calls.values() if _launches(each, task)), None)
    if call is None or call.tool != "task":
        return
    assert isinstance(call.state, Settled)
    result = call.state.result
    if isinstance(result, Failed) and result.error == ABORTED:
        return
    metadata = result.metadata
    if metadata.get("background"):
        return
    assert task.ended is not None
    if task.run == 0 and not _says(result, task):
        _fail("D-02", f"the call {call.id} says {result}, its task {sync_output(task)}")
    if task.run == 0 and call.state.at != task.ended:
        _fail("D-02", f"the call {call.id} was settled at {call.state.at}, its task ended at {task.ended}")


def _launches(call: Call, task: Task) -> bool:
    result = call.state.result if isinstance(call.state, Settled) else None
    child = result.metadata.get("sessionId") if result else None
    return call.message_id == task.message_id and child == task.id


def _says(result: Completed | Failed, task: Task) -> bool:
    if task.status == "completed":
        return isinstance(result, Completed) and result.output == sync_output(task)
    return isinstance(result, Failed) and result.error == sync_output(task)


def _check_fork(forest: Forest, task: Task) -> None:
    """T-11: a fork begins with copies, and nothing else does."""
    texts = """SELECT part.body ->> 'text' FROM message JOIN part ON part.message_id = message.id
               WHERE message.session_id = ? AND message.info ->> 'role' = 'user'
                 AND part.body ->> 'type' = 'text' AND message.position IS NOT NULL {}"""
    copied = [row[0] for row in forest.db.execute(texts.format("AND message.turn = 0"), (task.id,))]
    if not task.forked and copied:
        _fail("T-11", f"{task.id} is no fork and begins with {copied[:2]}")
    told = {row[0] for row in forest.db.execute(texts.format(""), (task.parent_id,))}
    if task.forked and copied and not any(text in told for text in copied):
        _fail("T-11", f"the fork {task.id} begins with {copied[:2]}, which its parent never read")
    if task.forked and task.id in forest.parents and not copied:
        _fail("T-11", f"the fork {task.id} begins with nothing")


def _check_notice(forest: Forest, notice: Notice) -> None:
    """Told once, or consumed by a call; or quiet, and its parent has read nothing since."""
    match notice.state:
        case "due":
            _fail("T-12", f"the end of run {notice.run} of {notice.task_id} was never told")
        case "quiet":
            since = max([notice.seq, *(c.rev for c in forest.cancels if c.session_id == notice.session_id)])
            query = "SELECT MAX(rev) FROM message WHERE session_id = ? AND info ->> 'role' = 'user' AND turn > 0"
            read = forest.db.execute(query, (notice.session_id,)).fetchone()[0] or 0
            if read > since:
                _fail("T-12", f"the quiet end of {notice.task_id} was not told with what came next")
        case "consumed":
            if not any(_brings(call, notice, forest) for call in forest.calls.values()):
                _fail("T-12", f"the end of {notice.task_id} is consumed, and no call brought it")
        case "told":
            if notice.message_id is None:
                _fail("T-12", f"the end of {notice.task_id} was told in no message")


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
        mine = call.session_id == notice.session_id and call.tool in ("asyncagents_output", "async_task_result")
        if mine and rev < told and _shows_end(call, notice.task_id):
            _fail("T-12", f"the end of {notice.task_id} was told after {call_id} had brought it")


def _shows_end(call: Call, task_id: str) -> bool:
    if not isinstance(call.state, Settled) or not isinstance(call.state.result, Completed):
        return False
    output = call.state.result.output
    if call.tool == "async_task_result":
        return output.startswith((f"status: complete\ntask_id: {task_id}", f"status: error\ntask_id: {task_id}"))
    return output.startswith(f"task_id: {task_id}") and "<task_metadata>" in output


def _check_follow_ups(stage: Stage, forest: Forest) -> None:
    """T-08: what was acknowledged as a follow-up is there, once, for its task."""
    query = """SELECT input.session_id, part.body ->> 'text' FROM input
               JOIN part ON part.message_id = input.message_id WHERE input.source = 'person'"""
    said = Counter(forest.db.execute(query).fetchall())
    wanted = {text: str(task_id) for text, task_id in stage.follow_ups.items()}
    for call in forest.calls.values():
        task_id = _followed(call)
        if task_id is not None:
            wanted[call.input["prompt"]] = task_id
    for text, task_id in wanted.items():
        if task_id in forest.parents and said[task_id, text] != 1:
            _fail("T-08", f"the follow-up {text!r} stands {said[task_id, text]} times in {task_id}")


def _followed(call: Call) -> str | None:
    """The task to which this call took a follow-up."""
    if call.tool not in ("task", "asyncagents_task") or not isinstance(call.state, Settled):
        return None
    given, result = call.input.get("resume") or call.input.get("task_id"), call.state.result
    if not given or isinstance(result, Failed) and "sessionId" not in result.metadata:
        return None
    return str(result.metadata["sessionId"])


def _check_woken(forest: Forest) -> None:
    """DESIGN §4: an end that a cancel brought along, or found untold, wakes nobody."""
    for message_id, seq in forest.told.items():
        ends = [each for each in forest.notices if each.message_id == message_id]
        if not ends:
            continue
        session_id = ends[0].session_id
        revs = [cancel.rev for cancel in forest.cancels if cancel.session_id == session_id and cancel.rev < seq]
        hushed = all(any(end.seq <= rev for rev in revs) for end in ends)
        query = "SELECT COUNT(*) FROM input WHERE (session_id, turn) IN (SELECT session_id, turn FROM input WHERE message_id = ?)"
        alone = forest.db.execute(query, (message_id,)).fetchone()[0] == 1
        if hushed and alone:
            _fail("I9", f"{session_id} was woken by the end of {ends[0].task_id}, which its cancel had hushed")


def _check_tellings(forest: Forest) -> None:
    """Every message of notices tells those that its rows name, each once, as the rows were then."""
    told: dict[str, list[Notice]] = {}
    for notice in forest.notices:
        if notice.state == "told" and notice.message_id:
            told.setdefault(notice.message_id, []).append(notice)
    query = "SELECT message_id, session_id, seq FROM input WHERE source = 'notice'"
    inputs = {row[0]: (row[1], row[2]) for row in forest.db.execute(query)}
    if missing := told.keys() - inputs.keys():
        _fail("T-12", f"notices were told in {missing}, which are no input")
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
        _fail("T-12", f"message {message_id} tells {len(visible)} ends, and {len(notices)} were told in it")
    for notice in notices:
        wanted = sum(1 for each in notices if each.task_id == notice.task_id)
        if hidden.count(f'\nTask {notice.task_id} "') != wanted:
            _fail("T-12", f"message {message_id} does not tell the model of {notice.task_id}")
        if notice.session_id != session_id or notice.seq > seq:
            _fail("T-12", f"the end of {notice.task_id} was told to {session_id}, or before it came")
    _check_progress(forest, notices, visible, seq)
    _check_agent(forest, message_id, session_id, seq)


def _check_progress(forest: Forest, notices: list[Notice], visible: list[str], seq: int) -> None:
    """T-15: counted in the rows when it is told, not when it ends."""
    if len(visible) != len(notices):
        return
    if forest.db.execute("SELECT COUNT(*) FROM tombstone").fetchone()[0]:
        return
    for notice, text in zip(sorted(notices, key=lambda n: (n.seq, n.task_id, n.run)), visible, strict=True):
        batch = [task for task in forest.tasks.values() if task.batch == notice.end["batch"]]
        batch = [task for task in batch if forest.first[task.id] <= seq]
        ended = [forest.ended_at(task, seq) for task in batch]
        if None in ended:
            continue
        progress = f"Task Progress: {sum(map(bool, ended))}/{len(batch)}"
        if not text.endswith(progress):
            _fail("T-15", f"{text!r} was told when it was {progress!r}")


def _check_agent(forest: Forest, message_id: str, session_id: str, seq: int) -> None:
    """T-12: whoever is told stays who it is."""
    query = """SELECT message.info FROM input JOIN message ON message.id = input.message_id
               WHERE input.session_id = ? AND input.seq < ? ORDER BY input.seq DESC, message.id DESC LIMIT 1"""
    before = json.loads(forest.db.execute(query, (session_id, seq)).fetchone()[0])
    info = json.loads(forest.db.execute("SELECT info FROM message WHERE id = ?", (message_id,)).fetchone()[0])
    if (info["agent"], info["model"]) != (before["agent"], before["model"]):
        _fail("T-12", f"a notice made {session_id} a {info['agent']}, it was a {before['agent']}")


def _check_cancelled_turns(forest: Forest) -> None:
    """I9: in a turn that was cancelled nothing is launched, and no model is asked."""
    asked = "SELECT session_id, turn, started FROM request WHERE attempt > 0"  # else it waits for its first try
    requests = forest.db.execute(asked).fetchall()
    for cancel in forest.cancels:
        for session_id, turn, started in requests:
            began = forest.turns.get((session_id, turn))
            covered = session_id == cancel.session_id and began is not None and began < cancel.rev
            if covered and started > cancel.at:
                _fail("I9", f"a model was asked for turn {turn} of {session_id} after it was cancelled")
    for task in forest.tasks.values():
        row = forest.db.execute("SELECT turn FROM message WHERE id = ?", (task.message_id,)).fetchone()
        began = forest.turns.get((task.parent_id, row[0])) if row else None
        born = forest.first.get(task.id)
        for cancel in forest.cancels:
            if began and born and cancel.session_id == task.parent_id and began < cancel.rev < born:
                _fail("I9", f"{task.id} was launched in a turn of {task.parent_id} that was cancelled")


def _check_acknowledged(stage: Stage, forest: Forest) -> None:
    """I9: an acknowledged cancel covers all below: tasks have ended, nothing works on."""
    for ended in stage.ended:
        asked, acknowledged = ended.asked + EPOCH_MS, ended.acknowledged + EPOCH_MS
        own = [c for c in forest.cancels if c.session_id == ended.session_id and asked <= c.at <= acknowledged]
        if not own:
            continue  # it has been deleted since
        tree = forest.below(ended.session_id)
        _check_ended(forest, own[0], tree)
        _check_stopped(stage, forest, own[0], tree, acknowledged=acknowledged)


def _check_ended(forest: Forest, cancel: Cancel, tree: set[str]) -> None:
    for task in forest.tasks.values():
        if task.id not in tree or task.id not in forest.first:
            continue
        if forest.first[task.id] < cancel.rev < forest.ends[task.id, 0]:
            _fail("I9", f"{task.id} went on though {cancel.session_id} above it was cancelled")
        if task.began < cancel.at < (task.ended or 0):
            _fail("I9", f"run {task.run} of {task.id} outlived the cancel of {cancel.session_id}")


def _check_stopped(
    stage: Stage, forest: Forest, cancel: Cancel, tree: set[str], *, acknowledged: int
) -> None:
    for ask in stage.asks:
        at = int(ask.at * 1000) + EPOCH_MS
        if ask.process in stage.suspects or ask.session_id not in tree or at <= acknowledged:
            continue
        query = "SELECT turn FROM request WHERE session_id = ? AND started <= ? ORDER BY started DESC, id DESC"
        row = forest.db.execute(query, (ask.session_id, at)).fetchone()
        began = forest.turns.get((ask.session_id, row[0])) if row else None
        if began is not None and began < cancel.rev:
            _fail("I9", f"a model was asked for {ask.session_id} after the cancel of {cancel.session_id}")
    for effect in stage.effects:
        call = forest.calls.get(effect.call_id)
        if call is None or effect.process in stage.suspects or call.session_id not in tree:
            continue
        began = forest.turns.get((call.session_id, call.turn))
        late = int(effect.at * 1000) + EPOCH_MS > acknowledged
        if began is not None and began < cancel.rev and late:
            _fail("I9", f"{call.tool} of {call.session_id} ran after the cancel of {cancel.session_id}")
