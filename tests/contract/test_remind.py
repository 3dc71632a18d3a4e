"""What the model is reminded of is stored with the step, once, and stays where it was."""

import pytest
from msgspec.structs import replace

from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.failure import unknown_error
from asyncagents.domain.conversation.message import AssistantMessage, UserMessage
from asyncagents.domain.conversation.part import TextPart
from asyncagents.domain.conversation.todo import Todo
from asyncagents.domain.fact import WriteTodos
from asyncagents.domain.step import NewStep, Reminder, StartedStep, StepInfo
from tests.support.store.lab import ALICE, BOB, Lab, Step, completed_result


class Reminders:
    """Says something at every step, and remembers what it was told."""

    def __init__(self, *texts: str) -> None:
        self.seen: list[StepInfo] = []
        self._texts = texts

    def __call__(self, stepping: StepInfo) -> tuple[str, ...]:
        self.seen.append(stepping)
        return self._texts

    def step(self, lab: Lab) -> NewStep:
        reminder = Reminder(lab.ids.message(), self)
        return replace(lab.new_step(), reminder=reminder)


def said(entries: tuple[MessageWithParts, ...]) -> list[list[str]]:
    return [[p.text for p in entry.parts if isinstance(p, TextPart) and p.synthetic] for entry in entries]


def reminded(text: str) -> str:
    return f"<system-reminder>\n{text}\n</system-reminder>"


async def start(lab: Lab, lease: object, new: NewStep) -> StartedStep:
    started = await lab.store.start_step(lease, new)  # type: ignore[arg-type]
    assert started is not None
    return started


@pytest.mark.spec("S-06")
async def test_a_reminder_stands_beside_the_input_that_it_came_with(lab: Lab) -> None:
    session_id, message_id, claim = await lab.claim_prompted()
    reminders = Reminders("One.", "Two.")
    started = await start(lab, claim, reminders.step(lab))
    assert reminders.seen == [StepInfo(agent="build", number=1, asked=True)]
    assert said(started.tail) == [[reminded("One."), reminded("Two.")]]
    assert started.message.parent_id == message_id
    assert said(await lab.store.messages(session_id)) == [[reminded("One."), reminded("Two.")], []]


@pytest.mark.spec("S-06")
async def test_in_the_middle_of_a_turn_a_reminder_is_a_message_before_the_step(lab: Lab) -> None:
    session_id, message_id, claim = await lab.claim_prompted()
    step = await lab.step(claim)
    call = lab.call(step)
    await lab.end(claim, step, call)
    await lab.start(claim, call)
    await lab.store.finish_call(claim, call.id, completed_result())
    reminders = Reminders("Last.")
    started = await start(lab, claim, reminders.step(lab))
    assert reminders.seen == [StepInfo(agent="build", number=2)]
    assert started.number == 2
    assert started.message.parent_id == message_id
    kinds = [type(entry.info) for entry in await lab.store.messages(session_id)]
    assert kinds == [UserMessage, AssistantMessage, UserMessage, AssistantMessage]
    assert said(started.tail)[-1] == [reminded("Last.")]
    assert await lab.positions(session_id) == [1, 2, 3, 4]


@pytest.mark.spec("S-06")
async def test_a_step_that_was_cut_off_is_not_reminded_again(lab: Lab) -> None:
    session_id, message_id, claim = await lab.claim_prompted()
    step = await lab.step(claim)
    call = lab.call(step)
    await lab.end(claim, step, call)
    await lab.start(claim, call)
    await lab.store.finish_call(claim, call.id, completed_result())
    await start(lab, claim, Reminders("Last.").step(lab))
    claim = await lab.claim(session_id, BOB, dead=ALICE)
    again = await start(lab, claim, Reminders("Never.").step(lab))
    assert [text for texts in said(again.tail) for text in texts] == [reminded("Last.")]
    assert again.message.parent_id == message_id


async def test_a_step_knows_the_previous_agent_and_the_todos(lab: Lab) -> None:
    session_id, _, claim = await lab.claim_prompted()
    step = await lab.step(claim)
    await lab.end(claim, step)
    snapshot = await lab.store.snapshot(claim)
    todo = Todo(id="t", content="Leap", status="pending", priority="low")
    facts = (WriteTodos(session_id, (todo,)),)
    assert await lab.store.rest(claim, snapshot.control.wake_seq, "done", facts)
    fact = lab.input(session_id)
    await lab.store.admit(replace(fact, message=replace(fact.message, agent="plan")))
    claim = await lab.claim(session_id)
    reminders = Reminders()
    await start(lab, claim, reminders.step(lab))
    expected = StepInfo(agent="plan", number=1, asked=True, agent_before="build", todos=(todo,))
    assert reminders.seen == [expected]


async def test_steps_are_counted_in_their_turn(lab: Lab) -> None:
    session_id, _, claim = await lab.claim_prompted()
    numbers = []
    for _ in range(2):
        step = await lab.step(claim)
        numbers.append(step.started.number)
        call = lab.call(step)
        await lab.end(claim, step, call)
        await lab.start(claim, call)
        await lab.store.finish_call(claim, call.id, completed_result())
    last: Step = await lab.step(claim)
    numbers.append(last.started.number)
    snapshot = await lab.end(claim, last, error=unknown_error("no"))
    assert await lab.store.rest(claim, snapshot.control.wake_seq, "error")
    await lab.prompt(session_id)
    claim = await lab.claim(session_id)
    numbers.append((await lab.step(claim)).started.number)
    assert numbers == [1, 2, 3, 1]


@pytest.mark.spec("A-08")
async def test_a_call_counts_the_equal_calls_directly_before_it(lab: Lab) -> None:
    _, _, claim = await lab.claim_prompted()
    repeats = []
    for given in ({"n": 1}, {"n": 1}, {"n": 2}, {"n": 2}, {"n": 2}, {"n": 1}):
        step = await lab.step(claim)
        call = lab.call(step, given=given)
        await lab.end(claim, step, call)
        await lab.start(claim, call)
        await lab.store.finish_call(claim, call.id, completed_result())
        repeats.append((await lab.store.call(call.id)).repeats)
    assert repeats == [0, 1, 0, 1, 2, 0]
