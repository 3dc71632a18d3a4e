"""Summarise a long conversation: the request, the tail that is kept, and the open items beside it."""

import logging
from collections.abc import Sequence
from itertools import takewhile

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.call.call import Call
from asyncagents.domain.conversation.entry import MessageWithParts, ModelHistory
from asyncagents.domain.conversation.failure import ContextOverflowError
from asyncagents.domain.conversation.message import AssistantMessage, ModelRef, UserMessage
from asyncagents.domain.conversation.part import StepStartPart
from asyncagents.domain.conversation.todo import Todo
from asyncagents.domain.envelope import escape_tags, one_line
from asyncagents.domain.id import Ids, MessageId, PartId
from asyncagents.domain.shape import encode
from asyncagents.domain.step import OpenItems, StartedStep, StepEnd, SummaryEnd
from asyncagents.domain.task.task import Task
from asyncagents.domain.window import estimate_tokens, tokens_used
from asyncagents.engine.model_input import is_about_summary
from asyncagents.engine.run import Run
from asyncagents.engine.step.digest import cut_middle, digest
from asyncagents.engine.workplace.agents import prompt_text
from asyncagents.engine.workplace.workplace import CompactionPolicy, Workplace
from asyncagents.llm.model import ChatRequest, UserTurn, WindowLookup
from asyncagents.store.store import Store

MIN_ROOM = 1_000
MIN_TAIL_TOKENS, MAX_TAIL_TOKENS = 2_000, 15_000
MAX_PROMPT_CHARS = 8_000
LAST_PROMPT_INTRO = "What the person asked last, in their own words; the summary says how much of it is done:"
MAX_INPUT_CHARS = 400
EMPTY_SUMMARY = (
    "The model was asked for a summary of the conversation and said nothing; the next prompt tries again."
)
NOTHING_TO_SUMMARISE = "There is nothing to summarise yet."
WINDOW_TOO_SMALL = (
    "%s/%s has room for %d tokens, and the system prompt and tools alone take about %d: no summary could make"
    " room, so none is made. Use a model with a longer context, or an agent with fewer tools."
)

_log = logging.getLogger(__name__)


class SummaryRequest(Struct, frozen=True):
    """A summary to be made: the request, and the tail that is kept."""

    request: ChatRequest | None
    """None if there is nothing to summarise."""
    tail_id: MessageId | None


class Compaction:
    def __init__(self, *, store: Store, ids: Ids, windows: WindowLookup) -> None:
        self._store = store
        self._ids = ids
        self._windows = windows
        self._narrow_models: set[ModelRef] = set()

    def threshold(self, run: Run, workplace: Workplace, model: ModelRef) -> int | None:
        """Return the tokens from which on a summary is wanted; None: unknown, or summaries are off. Brief and
        last summary must leave some room, or a summary would be made before every step."""
        policy = workplace.compaction_policy
        room = self._windows(model).room(policy.reserved) if policy.auto else None
        if room is None:
            return None
        if run.overhead < room - max_summary_tokens(room):
            return max(room, run.overhead + run.model_input.head_tokens + room // 4)
        if model not in self._narrow_models:
            self._narrow_models.add(model)
            _log.warning(WINDOW_TOO_SMALL, model.provider_id, model.model_id, room, run.overhead)
        return None

    async def prepare(
        self, started: StartedStep, workplace: Workplace, *, reader: ModelRef
    ) -> SummaryRequest:
        """Build the request. `reader`: the model that reads the summary, whose writer may be another."""
        window = self._windows(started.message.model_ref)
        history = await self._store.model_history(started.message.session_id, whole=True)
        entries = [entry for entry in history.entries if not is_about_summary(entry)]
        known = window.room(workplace.compaction_policy.reserved)
        room = _input_room(known, history, entries)
        free = self._windows(reader).room(workplace.compaction_policy.reserved)
        left = max(free or room, MIN_ROOM)
        request = workplace.summary_request(started.message.model_ref)
        hints = await workplace.hooks.compacting(started.message.session_id)
        text = digest(_head_text(history), entries, history.shown, room=room * 3 // 4)
        if not text.strip():
            return SummaryRequest(None, None)
        if asked := "\n".join(_requested_focus(history.entries, started.message.id)):
            text += f"\n\nWhat to mind above all, says the person who asked for this summary: {asked}"
        text = "\n\n".join([text, *hints.context])
        if hints.prompt is not None:
            request = replace(request, system=hints.prompt)
        if known is not None:
            most = min(window.output or room, max_summary_tokens(room), max_summary_tokens(left))
            request = replace(request, options=replace(request.options, max_output=most))
        request = replace(request, messages=(UserTurn(text),))
        tail_id = tail_start(
            entries, workplace.compaction_policy, left, known=free is not None, shown=history.shown
        )
        return SummaryRequest(request, tail_id)

    def build_summary_end(self, end: StepEnd, started: StartedStep, summary: SummaryRequest) -> SummaryEnd:
        return SummaryEnd(
            end=end,
            position=started.position,
            tail_id=summary.tail_id,
            note=open_items_text,
            note_id=self._ids.part(),
            go_on=prompt_text("compaction-go-on"),
        )


def _requested_focus(entries: Sequence[MessageWithParts], summary_id: MessageId) -> list[str]:
    """Return the focus texts that people gave for this summary, since the last one."""
    texts: list[str] = []
    for entry in filter(is_about_summary, entries):
        if isinstance(entry.info, UserMessage):
            texts.append(entry.text)
        elif entry.info.id != summary_id:
            texts.clear()
    return [text for text in texts if text]


def _head_text(history: ModelHistory) -> str:
    """Return the text of the last summary, without its list of open items, which is rebuilt."""
    return history.head[1].text if history.head else ""


def _input_room(known: int | None, history: ModelHistory, entries: Sequence[MessageWithParts]) -> int:
    """Return how many tokens the summary request may take. After refusals for length: at most what a request
    ever took, halved each time, as the stated window or the token estimate may be wrong."""
    proven = _proven_room((*history.head, *entries))
    refused = sum(1 for entry in history.entries if _was_too_long(entry))
    if not refused:
        return max(known or proven, MIN_ROOM)
    return max(min(known or proven, proven or MIN_ROOM) >> (refused - 1), MIN_ROOM)


def _was_too_long(entry: MessageWithParts) -> bool:
    """Whether the entry is a summary that failed because the request was too long."""
    if not isinstance(entry.info, AssistantMessage) or not entry.info.summary:
        return False
    return isinstance(entry.info.error, ContextOverflowError)


def _proven_room(entries: Sequence[MessageWithParts]) -> int:
    """Return the most tokens a request took so far, for a model whose window is unknown."""
    steps = [entry.info for entry in entries if isinstance(entry.info, AssistantMessage)]
    return max((tokens_used(step.tokens) for step in steps), default=0)


def max_summary_tokens(room: int) -> int:
    return room // 4


def tail_start(
    entries: Sequence[MessageWithParts],
    policy: CompactionPolicy,
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
    budget = (
        policy.recent if policy.recent is not None else min(max(room // 4, MIN_TAIL_TOKENS), MAX_TAIL_TOKENS)
    )
    most = min(budget, room // 2, estimate_tokens(entries, shown) // 4)
    unread = _count_unread(entries)
    first, prompts, tail_tokens = None, 0, 0
    for number, entry in enumerate(reversed(entries)):
        tail_tokens += estimate_tokens((entry,), shown)
        prompts += isinstance(entry.info, UserMessage) and bool(entry.text)
        too_old = policy.turns is not None and prompts > policy.turns
        if (known and tail_tokens > room // 2) if number < unread else (tail_tokens > most or too_old):
            break
        first = entry.info.id
    return first


def _count_unread(entries: Sequence[MessageWithParts]) -> int:
    """Count the last messages that no model has read: those after its last step, and people's own tasks."""
    return sum(1 for _ in takewhile(lambda entry: not _is_model_step(entry), reversed(entries)))


def _is_model_step(entry: MessageWithParts) -> bool:
    return any(isinstance(part, StepStartPart) for part in entry.parts) or _has_error(entry)


def _has_error(entry: MessageWithParts) -> bool:
    """Whether a step failed, possibly before a model was asked; that ends a turn as well."""
    return isinstance(entry.info, AssistantMessage) and entry.info.error is not None


def open_items_text(open_: OpenItems) -> str:
    """Build the note beside a summary from the rows: last prompt, open todos, calls and tasks."""
    pieces = []
    if open_.prompt:
        prompt = cut_middle(open_.prompt, MAX_PROMPT_CHARS)
        pieces.append(f"{LAST_PROMPT_INTRO}\n{prompt}")
    if open_.todos:
        pieces.append("\n".join(["Todos that are not done:", *map(_todo_line, open_.todos)]))
    if open_.calls:
        lines = ["Calls that are still pending; their results will arrive in later messages:"]
        pieces.append("\n".join([*lines, *map(_call_line, open_.calls)]))
    if open_.tasks:
        lines = ["Tasks that you launched and that have not ended; a notice will come when one does:"]
        pieces.append("\n".join([*lines, *map(_task_line, open_.tasks)]))
    return "\n\n".join(pieces)


def _task_line(task: Task) -> str:
    return f"- {task.id} ({one_line(task.agent)}): {one_line(task.description)}"


def _todo_line(todo: Todo) -> str:
    return f"- [{todo.status}] {escape_tags(' '.join(todo.content.split()), files=True)} ({todo.priority})"


def _call_line(call: Call) -> str:
    given = cut_middle(encode(call.input).decode(), MAX_INPUT_CHARS)
    return f"- {call.call_id}: {call.tool} {escape_tags(given, files=True)}"
