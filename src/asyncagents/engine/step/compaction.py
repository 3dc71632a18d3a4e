"""Summarise a long conversation: the request, the tail that is kept, and the open items beside it."""

from collections.abc import Sequence
from itertools import takewhile

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.call.call import Call
from asyncagents.domain.conversation.entry import Entry
from asyncagents.domain.conversation.failure import ContextOverflowError
from asyncagents.domain.conversation.message import AssistantMessage, UserMessage
from asyncagents.domain.conversation.part import StepStartPart
from asyncagents.domain.conversation.todo import Todo
from asyncagents.domain.envelope import enclosed, line
from asyncagents.domain.id import Ids, MessageId, PartId
from asyncagents.domain.shape import encode
from asyncagents.domain.task.task import Task
from asyncagents.domain.window import Window, taken, weight
from asyncagents.engine.model_input import about_summary
from asyncagents.engine.step.digest import digest, shortened
from asyncagents.engine.workplace.agents import prompt_text
from asyncagents.engine.workplace.workplace import Keeping, Workplace
from asyncagents.llm.model import FromUser, Request
from asyncagents.store.store import Store
from asyncagents.store.verb.read import ToldBefore
from asyncagents.store.verb.step import Started, StepEnd
from asyncagents.store.verb.summary import Still, Summarised

LEAST_ROOM = 1_000
LEAST_KEPT, MOST_KEPT = 2_000, 15_000
LONGEST_PROMPT = 8_000
ASKED_LAST = "What the person asked last, in their own words; the summary says how much of it is done:"
LONGEST_INPUT = 400
EMPTY = "The model was asked for a summary of the conversation and said nothing; the next prompt tries again."
NOTHING = "There is nothing to summarise yet."


class Summary(Struct, frozen=True):
    """A summary to be made: the request, and the tail that is kept."""

    request: Request | None
    """None if there is nothing to summarise."""
    tail_id: MessageId | None


class Compaction:
    def __init__(self, *, store: Store, ids: Ids) -> None:
        self._store = store
        self._ids = ids

    async def prepare(self, started: Started, place: Workplace, window: Window, reader: Window) -> Summary:
        """Build the request. `window`: of the summary's writer; `reader`: of the model that reads it."""
        told = await self._store.told(started.message.session_id, whole=True)
        entries = [entry for entry in told.entries if not about_summary(entry)]
        known = window.room(place.keeping.reserved)
        room = _readable(known, told, entries)
        free = reader.room(place.keeping.reserved)
        left = max(free or room, LEAST_ROOM)
        request = place.summarising(started.message.model_ref)
        said = await place.hooks.compacting(started.message.session_id)
        text = digest(_head(told), entries, told.shown, room=room * 3 // 4)
        if not text.strip():
            return Summary(None, None)
        if asked := "\n".join(_minds(told.entries, started.message.id)):
            text += f"\n\nWhat to mind above all, says the person who asked for this summary: {asked}"
        text = "\n\n".join([text, *said.context])
        if said.prompt is not None:
            request = replace(request, system=said.prompt)
        if known is not None:
            most = min(window.output or room, longest_summary(room), longest_summary(left))
            request = replace(request, options=replace(request.options, max_output=most))
        request = replace(request, messages=(FromUser(text),))
        kept = tail_start(entries, place.keeping, left, known=free is not None, shown=told.shown)
        return Summary(request, kept)

    def done(self, end: StepEnd, started: Started, summary: Summary) -> Summarised:
        return Summarised(
            end=end,
            position=started.position,
            tail_id=summary.tail_id,
            note=still,
            note_id=self._ids.part(),
            go_on=prompt_text("compaction-go-on"),
        )


def _minds(entries: Sequence[Entry], summary_id: MessageId) -> list[str]:
    """Return the focus texts that people gave for this summary, since the last one."""
    said: list[str] = []
    for entry in filter(about_summary, entries):
        if isinstance(entry.info, UserMessage):
            said.append(entry.text)
        elif entry.info.id != summary_id:
            said.clear()
    return [text for text in said if text]


def _head(told: ToldBefore) -> str:
    """Return the text of the last summary, without its list of open items, which is rebuilt."""
    return told.head[1].text if told.head else ""


def _readable(known: int | None, told: ToldBefore, entries: Sequence[Entry]) -> int:
    """Return how many tokens the summary request may take. After refusals for length: at most what a request
    ever took, halved each time, as the stated window or the token estimate may be wrong."""
    proven = _proven((*told.head, *entries))
    refused = sum(1 for entry in told.entries if _too_much(entry))
    if not refused:
        return max(known or proven, LEAST_ROOM)
    return max(min(known or proven, proven or LEAST_ROOM) >> (refused - 1), LEAST_ROOM)


def _too_much(entry: Entry) -> bool:
    """Whether the entry is a summary that failed because the request was too long."""
    if not isinstance(entry.info, AssistantMessage) or not entry.info.summary:
        return False
    return isinstance(entry.info.error, ContextOverflowError)


def _proven(entries: Sequence[Entry]) -> int:
    """Return the most tokens a request took so far, for a model whose window is unknown."""
    steps = [entry.info for entry in entries if isinstance(entry.info, AssistantMessage)]
    return max((taken(step.tokens) for step in steps), default=0)


def longest_summary(room: int) -> int:
    return room // 4


def tail_start(
    entries: Sequence[Entry],
    keeping: Keeping,
    room: int,
    *,
    known: bool = True,
    shown: frozenset[PartId] = frozenset(),
) -> MessageId | None:
    """Return the first message of the tail: the newest messages, up to a quarter of the room or of all.

    Messages that no step has read are kept up to half of the room, or all of them if the room is unknown
    (`known`), so that a prompt is never only summarised.
    A call and its result are one message, so they stay or go together.
    """
    budget = keeping.recent if keeping.recent is not None else min(max(room // 4, LEAST_KEPT), MOST_KEPT)
    most = min(budget, room // 2, weight(entries, shown) // 4)
    unread = _unread(entries)
    first, prompts, kept = None, 0, 0
    for number, entry in enumerate(reversed(entries)):
        kept += weight((entry,), shown)
        prompts += isinstance(entry.info, UserMessage) and bool(entry.text)
        too_old = keeping.turns is not None and prompts > keeping.turns
        if (known and kept > room // 2) if number < unread else (kept > most or too_old):
            break
        first = entry.info.id
    return first


def _unread(entries: Sequence[Entry]) -> int:
    """Count the last messages that no model has read: those after its last step, and people's own tasks."""
    return sum(1 for _ in takewhile(lambda entry: not _of_model(entry), reversed(entries)))


def _of_model(entry: Entry) -> bool:
    return any(isinstance(part, StepStartPart) for part in entry.parts) or _failed(entry)


def _failed(entry: Entry) -> bool:
    """Whether a step failed, possibly before a model was asked; that ends a turn as well."""
    return isinstance(entry.info, AssistantMessage) and entry.info.error is not None


def still(open_: Still) -> str:
    """Build the note beside a summary from the rows: last prompt, open todos, calls and tasks."""
    pieces = []
    if open_.prompt:
        said = shortened(open_.prompt, LONGEST_PROMPT)
        pieces.append(f"{ASKED_LAST}\n{said}")
    if open_.todos:
        pieces.append("\n".join(["Todos that are not done:", *map(_todo, open_.todos)]))
    if open_.calls:
        lines = ["Calls that are still pending; their results will arrive in later messages:"]
        pieces.append("\n".join([*lines, *map(_call, open_.calls)]))
    if open_.tasks:
        lines = ["Tasks that you launched and that have not ended; a notice will come when one does:"]
        pieces.append("\n".join([*lines, *map(_task, open_.tasks)]))
    return "\n\n".join(pieces)


def _task(task: Task) -> str:
    return f"- {task.id} ({line(task.agent)}): {line(task.description)}"


def _todo(todo: Todo) -> str:
    return f"- [{todo.status}] {enclosed(' '.join(todo.content.split()), files=True)} ({todo.priority})"


def _call(call: Call) -> str:
    given = shortened(encode(call.input).decode(), LONGEST_INPUT)
    return f"- {call.call_id}: {call.tool} {enclosed(given, files=True)}"
