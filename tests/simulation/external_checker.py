"""The promises about external agents: what their programs did is what the rows say, and no more was asked."""

import json
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct

from asyncagents.domain.call.call import Always, Call, Completed, Failed, Once, Settled
from asyncagents.engine.external.agent import EXTERNAL_PROVIDER, ExternalStep
from asyncagents.engine.external.calls import NO_OUTPUT
from asyncagents.store.verb.claim import CUT_OFF
from tests.simulation.checker import all_calls
from tests.simulation.externals import ExternalWorld
from tests.simulation.foreign import ASKED, DENIED, FREE, INSTRUCTIONS, ForeignProgram, Prompted
from tests.simulation.forest import Forest, fail

DONE = ("end_turn", "max_tokens", "refusal")
"""The answers with which a turn ends well."""
Why: TypeAlias = Callable[["Shown"], bool]


class Shown(Struct, frozen=True, kw_only=True):
    """A step of an external agent as the rows have it, and what its program did."""

    id: str
    session_id: str
    info: dict[str, Any]
    text: str
    program: ForeignProgram | None
    prompted: Prompted | None
    before: tuple["Shown", ...]
    """The earlier steps of its session."""
    not_started: ExternalStep | None = None
    """Its step, if its program did not start."""

    @property
    def goes_on(self) -> bool:
        """Whether a prompt was under way when the step began."""
        step = self.not_started or (self.program.step if self.program else None)
        return step is not None and step.known is not None and step.known.prompt is not None

    @property
    def error(self) -> str:
        error = self.info.get("error") or {}
        return f"{error['name']}: {error['data'].get('message')}" if error else ""


def check_externals(world: ExternalWorld, path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        forest, calls = Forest(db), all_calls(db)
        steps = _read_steps(world, db)
        for step in steps.values():
            _check_text(step)
            _check_error(step)
            _check_calls(step, [call for call in calls.values() if call.message_id == step.id])
        _check_allowed(world, calls, set(forest.parents))
        _check_received(world, db, steps)
        _check_introductions(world)
        _check_tasks(forest, steps)
        _check_programs(world, forest)
        marks = db.execute("SELECT session_id FROM external_session WHERE sent IS NOT NULL").fetchall()
        bodies = [json.loads(row[0]) for row in db.execute("SELECT body FROM external_session")]
        if marks or any(body.get("prompt") for body in bodies):
            fail("X-03", f"prompts of {marks} are under way at rest")
        _count(world, steps)


def _count(world: ExternalWorld, steps: dict[str, Shown]) -> None:
    for step in steps.values():
        world.stage.count(f"foreign steps {step.error.split(':')[0] or 'done'}")


def _read_steps(world: ExternalWorld, db: sqlite3.Connection) -> dict[str, Shown]:
    programs = {program.step.step_id: program for program in world.foreign.programs}
    prompts = {prompted.step_id: prompted for prompted in world.foreign.prompts}
    steps: dict[str, Shown] = {}
    by_session: dict[str, tuple[Shown, ...]] = {}
    query = "SELECT id, session_id, info FROM message ORDER BY id"
    for message_id, session_id, raw in db.execute(query).fetchall():
        program = programs.get(message_id)
        info = json.loads(raw)
        if info["role"] != "assistant" or (info["providerID"] != EXTERNAL_PROVIDER and program is None):
            continue
        bodies = db.execute("SELECT body FROM part WHERE message_id = ? ORDER BY id", (message_id,))
        parts = [json.loads(row[0]) for row in bodies]
        before = by_session.get(session_id, ())
        steps[message_id] = Shown(
            id=message_id,
            session_id=session_id,
            info=info,
            text="".join(part["text"] for part in parts if part["type"] == "text"),
            program=program,
            prompted=prompts.get(message_id),
            before=before,
            not_started=world.foreign.not_started.get(message_id),
        )
        by_session[session_id] = (*before, steps[message_id])
    return steps


def _check_text(step: Shown) -> None:
    """What is shown is what was said, once and in order; what came after the answer may be missing."""
    if step.prompted is None:
        may_repeat = "TaskInDoubt" in step.error or CUT_OFF in step.error
        earlier = {"", *(each.text for each in step.before)} if may_repeat else {""}
        if step.text.replace("\n", "") not in earlier:  # it joins its parts with them
            fail("X-03", f"step {step.id} shows {step.text!r}, and its agent got no prompt")
        return
    said, late = "".join(step.prompted.said), "".join(step.prompted.late)
    if not step.error and step.text not in (said, said + late):
        fail("X-03", f"step {step.id} shows {step.text!r}, its agent said {said!r}")
    if not (said + late).startswith(step.text):
        fail("X-03", f"step {step.id} shows {step.text!r}, which is no beginning of {said + late!r}")


_WHY: dict[str, Why] = {
    "TaskInDoubt: ": lambda step: _is_in_doubt(step),
    f"UnknownError: {CUT_OFF}": lambda step: True,
    "ContentFilterError": lambda step: _outcome(step) == "refusal",
    "MessageOutputLengthError": lambda step: _outcome(step) == "max_tokens",
    "UnknownError: The external agent {} cancelled its turn by itself.": (
        lambda step: _outcome(step) == "cancelled"
    ),
    "MessageAbortedError: Aborted": lambda step: True,
    "UnknownError: The external agent {} did not start.": lambda step: (
        step.not_started is not None and not step.goes_on
    ),
    "UnknownError: The external agent {} hangs: ": lambda step: _has(step, "erred") and _is_known(step),
    "UnknownError: The external agent {} failed: ": lambda step: _has(step, "erred") and _is_known(step),
    "UnknownError: The external agent {} ended before its answer was complete.": lambda step: (
        (_has(step, "broke") or _has(step, "erred")) and _is_known(step)
    ),
    "UnknownError: The process stopped": lambda step: True,
}
"""The errors of steps, and when they are true."""


def _outcome(step: Shown) -> str:
    return step.prompted.outcome if step.prompted else ""


def _has(step: Shown, what: str) -> bool:
    return step.program is not None and bool(getattr(step.program, what))


def _is_known(step: Shown) -> bool:
    """How far the program got is known: it got this prompt, or no earlier one was under way."""
    return step.prompted is not None or not step.goes_on


def _is_in_doubt(step: Shown) -> bool:
    """A prompt was cut off, and no session could be loaded or resumed."""
    cut = any(CUT_OFF in each.error for each in step.before)
    if _is_known(step) or not cut:
        return False
    program = step.program
    if program is None:
        return step.not_started is not None
    known = program.step.known
    moved = known is not None and known.command != program.step.backend.command
    ended = program.broke or program.erred
    return moved or ended or program.refused or program.offers_nothing


def _check_error(step: Shown) -> None:
    """A step says how it ended as it was: done only after an answer, and each error for its reason."""
    if not step.error:
        if _outcome(step) not in DONE:
            fail("X-03", f"step {step.id} is done, and its agent answered {_outcome(step)!r}")
        return
    agent = step.info["agent"]
    for begins, holds in _WHY.items():
        if step.error.startswith(begins.format(agent)):
            if not holds(step):
                fail("X-03", f"step {step.id} says {step.error!r}, and that is not so")
            return
    fail("X-03", f"step {step.id} ended with {step.error!r}")


def _check_calls(step: Shown, calls: list[Call]) -> None:
    """A call has the first result that its agent showed; of a whole step none is missing."""
    keys = Counter(call.call_id for call in calls)
    if double := [key for key, many in keys.items() if many > 1]:
        fail("X-03", f"calls {double} of step {step.id} stand twice")
    prompted = step.prompted
    ends = prompted.ends if prompted else {}
    if not step.error and (missing := ends.keys() - keys.keys()):
        fail("X-03", f"calls {missing} of step {step.id} have no row")
    for call in calls:
        if prompted is None or call.call_id in prompted.asked:
            continue
        shown = _shown_end(call)
        if call.call_id in ends and not step.error and shown != ends[call.call_id]:
            fail("X-03", f"call {call.id} ended with {shown}, its agent said {ends[call.call_id]}")
        if call.call_id not in ends and shown[0] == "completed":
            fail("X-03", f"call {call.id} is completed, and its agent never said so")


def _shown_end(call: Call) -> tuple[str, str]:
    assert isinstance(call.state, Settled), "checked before"
    match call.state.result:
        case Completed(output=output):
            return "completed", output.replace(NO_OUTPUT, "")
        case Failed(error=error):
            return "failed", error


def _check_allowed(world: ExternalWorld, calls: dict[str, Call], there: set[str]) -> None:
    """Each call that was made was allowed: by a rule, for good, or by an answer of its own."""
    made = Counter((each.session_id, each.url) for each in set(world.foreign.allowed))
    for (session_id, url), many in made.items():
        host = url.rsplit("/", 2)[0]
        if host == DENIED:
            fail("X-03", f"{url} was fetched, and a rule denies it")
        if host == FREE or session_id not in there:
            continue
        assert host == ASKED
        about = [call for call in calls.values() if call.session_id == session_id and _url(call) == url]
        replies = [call.reply for call in about if call.ask_id is not None]
        once = sum(isinstance(reply, Once) for reply in replies)
        if many > once and not any(isinstance(reply, Always) for reply in replies):
            fail("X-03", f"{url} was fetched {many} times in {session_id}, and allowed by {replies}")


def _url(call: Call) -> str | None:
    url = call.input.get("url") if call.observed else None
    return url if isinstance(url, str) else None


def _check_received(world: ExternalWorld, db: sqlite3.Connection, steps: dict[str, Shown]) -> None:
    """What a whole step answers was sent; an agent that loads without prompts is asked to go on instead."""
    query = """SELECT part.body ->> 'text', input.answer_id FROM input
               JOIN part ON part.message_id = input.message_id
               WHERE input.source = 'person' AND input.state = 'promoted'
                 AND COALESCE(part.body ->> 'synthetic', 0) = 0"""
    for text, answer in db.execute(query):
        step = steps.get(answer or "")
        if step is None or step.error or step.program is None:
            continue
        persona = world.foreign.personas[step.program.step.agent]
        is_told = persona.shows_prompts if persona.loads else persona.resumes
        if is_told and (step.program.step.session_id, text) not in world.foreign.received:
            fail("X-03", f"{text!r} was answered by {answer}, and no agent has got it")


def _check_introductions(world: ExternalWorld) -> None:
    """The first prompt that an external session gets has the instructions of its agent."""
    met: set[str] = set()
    for prompted in world.foreign.prompts:
        if prompted.external_id not in met and INSTRUCTIONS not in "\n".join(prompted.texts):
            fail("X-03", f"{prompted.external_id} began with {prompted.texts!r}, without instructions")
        met.add(prompted.external_id)


def _check_tasks(forest: Forest, steps: dict[str, Shown]) -> None:
    """A task ends as its last step did."""
    for task in forest.tasks.values():
        own = [step for step in steps.values() if step.session_id == task.id and CUT_OFF not in step.error]
        if not own or task.gone or task.id not in forest.parents:
            continue
        doubt = task.error is not None and task.error.name == "TaskInDoubt"
        if doubt and not any("TaskInDoubt" in step.error for step in own):
            fail("X-03", f"task {task.id} is in doubt, and none of its steps")
        said = (task.result or "").replace("\n", "")  # between its parts
        if task.status == "completed" and not any(not step.error and step.text == said for step in own):
            fail("X-03", f"task {task.id} came to {task.result!r}, and no step of it did")


def _check_programs(world: ExternalWorld, forest: Forest) -> None:
    """No program outlives its process, or a cancel that was acknowledged."""
    suspects = world.stage.suspects
    for program in world.foreign.programs:
        if program.closed is None and (program.process.number not in suspects or program.process.dead):
            fail("X-03", f"program {program.number} lives on")
    for ended in world.stage.ended:
        tree = forest.below(ended.session_id)
        for program in world.foreign.programs:
            began, closed = program.opened * 1000, (program.closed or 0) * 1000
            if program.process.number in suspects or program.step.session_id not in tree:
                continue
            if began < ended.asked and closed > ended.acknowledged + 1:
                fail("X-03", f"program {program.number} outlives the cancel of {ended.session_id}")
