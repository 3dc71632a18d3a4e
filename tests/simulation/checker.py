"""The promises, read from the rows alone when everything is at rest."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from asyncagents.domain.call.call import IN_DOUBT, Always, Call, Completed, Failed, Once, Settled, render
from asyncagents.domain.shape import encode
from asyncagents.domain.task.task import Task
from asyncagents.domain.task.view import background_task
from asyncagents.engine.step.retry import MAX_RETRIES
from asyncagents.store.verb.claim import CUT_OFF
from asyncagents.testing.clock import EPOCH_MS
from tests.simulation.answer_checker import find_foreign_answer
from tests.simulation.mirror import Mirror
from tests.simulation.stage import Stage, Violation

MESSAGE_PARTS = "SELECT body FROM part WHERE message_id = ?"
OPEN_STATES = {"pending", "running", "waiting_async"}


def check(stage: Stage, path: Path) -> None:
    db = sqlite3.connect(path)
    try:
        for mirror in stage.mirrors:
            check_mirror(db, mirror)
        for session_id in (row[0] for row in db.execute("SELECT id FROM session")):
            _check_session(db, session_id)
        forget_deleted(db, stage)
        calls = all_calls(db)
        _check_prompts(db, stage)
        _check_calls(db, calls)
        _check_results(stage, calls)
        _check_effects(stage, calls)
        _check_gates(db, stage, calls)
        _check_aborts(stage, calls)
        _check_held_back(db)
    finally:
        db.close()


def all_calls(db: sqlite3.Connection) -> dict[str, Call]:
    rows = db.execute("SELECT id, body FROM call")
    return {row[0]: msgspec.json.decode(row[1], type=Call) for row in rows}


def forget_deleted(db: sqlite3.Connection, stage: Stage) -> None:
    """What was promised to sessions that somebody deleted is not owed any more; nothing else is gone."""
    gone: dict[str | None, str | None] = {}
    wished = set(map(str, stage.deleted))
    for session_id, body in db.execute("SELECT id, body FROM tombstone WHERE kind = 'session' ORDER BY rev"):
        gone[session_id] = json.loads(body).get("parentID")
    for session_id in gone:
        above: str | None = session_id
        while above is not None and above not in wished:
            above = gone.get(above)
        if above is None:
            _fail("I0", f"{session_id} was deleted, and nobody wished it")
    if not gone:
        return
    known = {row[0] for row in db.execute("SELECT message_id FROM input")}
    stage.prompts = {key: text for key, text in stage.prompts.items() if key in known}
    there = {row[0] for row in db.execute("SELECT id FROM call")}
    stage.results = {key: result for key, result in stage.results.items() if key in there}
    stage.effects = [each for each in stage.effects if each.session_id not in gone]


def check_mirror(db: sqlite3.Connection, mirror: Mirror) -> None:
    """I11: whoever followed the feed, from any point and in any pieces, has what the store has."""
    tasks = (json.loads(row[0]) for row in db.execute("SELECT body FROM task"))
    shown = (background_task(msgspec.convert(each, Task), None) for each in tasks)
    listed: dict[str, Any] = {
        each.session_id: json.loads(encode(replace(each, progress=None))) for each in shown
    }
    if listed != mirror.tasks:
        odd = sorted(
            key for key in listed.keys() | mirror.tasks.keys() if listed.get(key) != mirror.tasks.get(key)
        )
        _fail("I11", f"a reader of the feed has other tasks: {odd[:3]}")
    for name, kept, query in (
        ("sessions", mirror.sessions, "SELECT id, info FROM session"),
        ("statuses", mirror.statuses, "SELECT id, status FROM session"),
        ("messages", mirror.messages, "SELECT id, info FROM message"),
        ("parts", mirror.parts, "SELECT id, body FROM part"),
    ):
        stored = {key: json.loads(value) for key, value in db.execute(query)}
        if stored != kept:
            odd = sorted(key for key in stored.keys() | kept.keys() if stored.get(key) != kept.get(key))
            _fail("I11", f"a reader of the feed has other {name}: {odd[:3]}")


def _fail(invariant: str, text: str) -> None:
    raise Violation(f"{invariant}: {text}")


def _check_session(db: sqlite3.Connection, session_id: str) -> None:
    state, status, positions, in_turn, info = db.execute(
        "SELECT state, status, positions, in_turn, info FROM session WHERE id = ?", (session_id,)
    ).fetchone()
    if state != "idle" or json.loads(status) != {"type": "idle"} or in_turn:
        _fail("I6", f"{session_id} is {state} with status {status}, in_turn {in_turn}")
    placed = "SELECT position FROM message WHERE session_id = ? AND position IS NOT NULL ORDER BY position"
    places = [row[0] for row in db.execute(placed, (session_id,))]
    taken_out = "SELECT COUNT(*) FROM tombstone WHERE kind = 'message' AND body ->> 'sessionID' = ?"
    (gaps,) = db.execute(taken_out, (session_id,)).fetchone()
    if len(places) + gaps != positions or not set(places) <= set(range(1, positions + 1)):
        _fail("I14", f"{session_id} has places {places} of {positions}")
    _check_messages(db, session_id)
    _check_tokens(db, session_id, json.loads(info))
    _check_tries(db, session_id)


def _check_messages(db: sqlite3.Connection, session_id: str) -> None:
    """Nothing stays half open."""
    query = "SELECT info, position, hidden FROM message WHERE session_id = ?"
    for raw, position, hidden in db.execute(query, (session_id,)):
        info = json.loads(raw)
        cut = info.get("error", {}).get("data", {}).get("message") == CUT_OFF
        if cut and not hidden:
            _fail("X-11", f"the model sees the step {info['id']} that a crash cut off")
        if info["role"] == "assistant" and "completed" not in info["time"]:
            _fail("C1", f"step {info['id']} was never closed")
        if info.get("finish") == "tool-calls" and not _tools(db, info["id"]):
            _fail("I1", f"the calls of step {info['id']} are lost")
        if info["role"] == "assistant" and position is None:
            _fail("I14", f"step {info['id']} has no place")
    _check_parts(db, session_id)


def _check_parts(db: sqlite3.Connection, session_id: str) -> None:
    for (raw,) in db.execute("SELECT body FROM part WHERE session_id = ?", (session_id,)):
        part = json.loads(raw)
        if part["type"] == "tool" and part["state"]["status"] in OPEN_STATES:
            _fail("C1", f"tool part {part['id']} is still {part['state']['status']}")
        if part["type"] in ("text", "reasoning") and "time" in part and "end" not in part["time"]:
            _fail("C1", f"part {part['id']} was never closed")


def _tools(db: sqlite3.Connection, message_id: str) -> int:
    query = "SELECT COUNT(*) FROM part WHERE message_id = ? AND body ->> 'type' = 'tool'"
    count: int = db.execute(query, (message_id,)).fetchone()[0]
    return count


def _check_tokens(db: sqlite3.Connection, session_id: str, info: dict[str, Any]) -> None:
    """What was spent is the sum of what the requests say, none of them open."""
    spent = 0
    for state, raw in db.execute("SELECT state, tokens FROM request WHERE session_id = ?", (session_id,)):
        if state == "open":
            _fail("C1", f"a request of {session_id} is still open")
        spent += json.loads(raw)["input"]
    if spent != info["tokens"]["input"]:
        _fail("overspent", f"{session_id} says {info['tokens']['input']}, its requests {spent}")


def _check_tries(db: sqlite3.Connection, session_id: str) -> None:
    """C-05: at most five retries, each counted, none before it is due, and none still waited for."""
    query = "SELECT state, turn, attempt, started, next_at FROM request WHERE session_id = ? ORDER BY id"
    before = ("", 0, 0, 0, 0)
    for row in db.execute(query, (session_id,)):
        state, turn, attempt, started, _ = row
        again = before[:2] == ("failed", turn) and attempt > 0
        if state == "backoff":
            _fail("C-05", f"a request of {session_id} still waits for its next try")
        if attempt > 1 + MAX_RETRIES:
            _fail("C-05", f"a request of {session_id} was tried {attempt} times")
        if again and attempt != before[2] + 1:
            _fail("C-05", f"try {attempt} of {session_id} came after try {before[2]}")
        if again and started < before[4]:
            _fail("C-05", f"{session_id} tried again {before[4] - started} ms too early")
        before = row


def _check_prompts(db: sqlite3.Connection, stage: Stage) -> None:
    """I0, I6: what was acknowledged is there, once, and answered."""
    for message_id, text in stage.prompts.items():
        row = db.execute("SELECT state, answer_id FROM input WHERE message_id = ?", (message_id,)).fetchone()
        if row is None:
            _fail("I0", f"the acknowledged prompt {text!r} is gone")
        said = [json.loads(row[0]) for row in db.execute(MESSAGE_PARTS, (message_id,))]
        if [part["text"] for part in said if not part.get("synthetic")] != [text]:
            _fail("I0", f"the prompt {text!r} has become {said}")
        added = [part["text"] for part in said if part.get("synthetic")]
        if len(set(added)) < len(added):
            _fail("I0", f"of something the model was reminded twice: {added}")
        if message_id in stage.answers and stage.answers[message_id] != row[1]:
            _fail("I4", f"the answer to {text!r} was {stage.answers[message_id]} and is now {row[1]}")
    _check_inputs(db)


def _check_inputs(db: sqlite3.Connection) -> None:
    for message_id, state, answer in db.execute("SELECT message_id, state, answer_id FROM input"):
        if state == "queued":
            _fail("I6", f"input {message_id} was never read")
        if state in ("promoted", "aborted") and answer is None:
            _fail("I6", f"input {message_id} ({state}) was never answered")
        if (
            answer
            and not db.execute("SELECT 1 FROM message WHERE id = ? AND hidden = 0", (answer,)).fetchone()
        ):
            _fail("I4", f"input {message_id} was answered by {answer}, which nobody sees")
    _check_answers(db)
    if wrong := find_foreign_answer(db):
        _fail("Z-02", wrong)
    texts = [row[0] for row in db.execute(
        "SELECT part.body ->> 'text' FROM input JOIN part ON part.message_id = input.message_id"
        " WHERE input.source NOT IN ('compaction', 'notice')"
        " AND COALESCE(part.body ->> 'synthetic', 0) = 0"
        " AND part.body ->> 'text' NOT LIKE '<system-reminder>%'"
    )]  # fmt: skip
    if len(texts) != len(set(texts)):
        _fail("I3", "an input stands twice")


def _check_answers(db: sqlite3.Connection) -> None:
    """S-10: a summary answers nobody but who wished for one, unless it failed."""
    query = """SELECT input.message_id, message.id FROM input JOIN message ON message.id = input.answer_id
               WHERE input.source = 'person' AND message.info ->> 'summary'
                 AND message.info ->> 'error' IS NULL"""
    for message_id, answer in db.execute(query):
        _fail("S-10", f"prompt {message_id} was answered by the summary {answer}")


def _check_calls(db: sqlite3.Connection, calls: dict[str, Call]) -> None:
    for call in calls.values():
        if not isinstance(call.state, Settled):
            _fail("I6", f"call {call.id} ({call.tool}) was never settled: {call.state}")
        (body,) = db.execute("SELECT body FROM part WHERE id = ?", (call.part_id,)).fetchone()
        if json.loads(body) != json.loads(encode(render(call))):
            _fail("I11", f"the part of call {call.id} is not what its row says")
        if (
            call.shown_pending
            and not db.execute("SELECT 1 FROM input WHERE key = ?", (f"result:{call.id}",)).fetchone()
        ):
            aborted = isinstance(call.state, Settled) and call.state.result == Failed(
                "Tool execution aborted"
            )
            if not aborted:
                _fail("I2", f"the result of {call.id} never reached the model")


def _check_results(stage: Stage, calls: dict[str, Call]) -> None:
    for call_id, result in stage.results.items():
        state = calls[call_id].state
        if not isinstance(state, Settled) or state.result != result:
            _fail("I0", f"the acknowledged result of {call_id} is {state}")
    by_ask = {call.ask_id: call for call in calls.values() if call.ask_id}
    for ask_id, reply in stage.replies.items():
        call = by_ask.get(ask_id)
        if call is not None and call.reply != reply:
            _fail("I0", f"the acknowledged answer to {ask_id} is {call.reply}")


def _check_effects(stage: Stage, calls: dict[str, Call]) -> None:
    """I8: a `once` effect happens once; nothing runs without permission or without its row."""
    done: dict[str, int] = {}
    for effect in stage.effects:
        call = calls.get(effect.call_id)
        if call is None:
            _fail("I8", f"{effect.tool} ran for {effect.call_id}, which has no row")
            return
        if call.started is None:
            _fail("I8", f"{effect.tool} ran before its intent was written down")
        done[call.id] = done.get(call.id, 0) + 1
        if call.effect == "once" and done[call.id] > 1:
            _fail("I8", f"{call.tool} ran {done[call.id]} times")
    _check_doubts(calls, done)


def _check_gates(db: sqlite3.Connection, stage: Stage, calls: dict[str, Call]) -> None:
    """I16: nothing passes without a yes, of its own or for good."""
    approved = {row[0] for row in db.execute("SELECT pattern FROM approval WHERE permission = 'gate'")}
    for call in (calls[effect.call_id] for effect in stage.effects):
        yes = isinstance(call.reply, Once | Always) or str(call.input.get("n")) in approved
        if call.tool == "gate" and not yes:
            _fail("I16", f"gate ran though the answer was {call.reply}")
        if call.written is not None and not (isinstance(call.reply, Once) and call.reply.input == call.input):
            _fail("I16", f"gate ran with arguments that nobody approved: {call.input}")


def check_steps(path: Path, limit: int) -> None:
    """S-06: after what a person says come no more steps with tools than the agent may take."""
    db = sqlite3.connect(path)
    rows = db.execute(
        """SELECT message.session_id, message.info ->> 'finish',
             CASE WHEN message.info ->> 'role' = 'user' THEN COALESCE(input.source, 'aside') END FROM message
           LEFT JOIN input ON input.message_id = message.id
           WHERE hidden = 0 AND position IS NOT NULL AND message.turn > 0
             AND (message.info ->> 'role' = 'assistant' OR input.source IS NOT NULL OR EXISTS (
               SELECT 1 FROM part
               WHERE message_id = message.id AND body ->> 'text' LIKE '<system-reminder>%'))
           ORDER BY message.session_id, position"""
    ).fetchall()
    db.close()
    steps: dict[str, int] = {}
    before = None
    for session_id, finish, source in rows:
        steps[session_id] = 0 if source == "person" else steps.get(session_id, 0) + (finish == "tool-calls")
        if steps[session_id] >= limit:
            _fail("S-06", f"a turn of {session_id} had {steps[session_id]} steps with tools")
        if source == before == "aside":
            _fail("S-06", f"{session_id} was reminded twice before one step")
        before = source


def _check_doubts(calls: dict[str, Call], done: dict[str, int]) -> None:
    for call in calls.values():
        assert isinstance(call.state, Settled)
        paid = call.state.result == Completed("paid")
        if paid and call.tool in ("pay", "gate", "put") and not done.get(call.id):
            _fail("I8", f"{call.tool} says paid and did nothing")
        doubt = isinstance(call.state.result, Failed) and call.state.result.error == IN_DOUBT
        if doubt and call.effect != "once":
            _fail("I8", f"{call.tool} may run again and is in doubt")


def _check_aborts(stage: Stage, calls: dict[str, Call]) -> None:
    """I9: after an abort was acknowledged, nothing that was there when it was asked for touches the world."""
    for effect in stage.effects:
        call = calls[effect.call_id]
        if effect.process in stage.suspects:
            continue
        for asked, acknowledged in stage.aborted.get(call.session_id, ()):
            if call.created - EPOCH_MS < asked and acknowledged < effect.at * 1000:
                _fail("I9", f"{call.tool} of a turn aborted at {acknowledged} ran at {effect.at * 1000}")


def _check_held_back(db: sqlite3.Connection) -> None:
    """C-10: what an abort found unread is answered by the abort; it never runs on its own account."""
    rows = db.execute(
        """SELECT part.body ->> 'text', answer.info FROM input
           JOIN cancel ON cancel.session_id = input.session_id AND cancel.rev > input.seq
           JOIN message ON message.id = input.message_id AND message.rev > cancel.rev
           JOIN part ON part.message_id = input.message_id
           LEFT JOIN message AS answer ON answer.id = input.answer_id
           WHERE input.state IN ('promoted', 'aborted') AND input.key NOT LIKE 'result:%'
           AND COALESCE(part.body ->> 'synthetic', 0) = 0
           AND part.body ->> 'text' NOT LIKE '<system-reminder>%'"""
    )
    for text, answer in rows:
        failed = "error" in json.loads(answer or "{}")
        if not failed and ":quiet" not in text:
            _fail("C-10", f"{text!r} was unread when the turn was aborted, and was run all the same")
