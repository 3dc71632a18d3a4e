"""`@approval`: a tool that asks a person for a decision, which may take days."""

from collections.abc import Callable
from typing import Any, Unpack, overload

from msgspec.structs import replace

from asyncagents.domain.call.ask import Question
from asyncagents.domain.call.call import Completed, Failed
from asyncagents.domain.call.reply import DECISION_OPTIONS
from asyncagents.domain.envelope import one_line
from asyncagents.engine.call.pending import QUESTION_HEADER
from asyncagents.engine.input.message import require_text
from asyncagents.engine.tool import AnyTool, Outcome, Pending
from asyncagents.errors import InvalidInput
from asyncagents.plugins.tool.decorate import AsyncToolOptions, Function, build_async_tool

MOST_WHO = 200


class ApprovalOptions(AsyncToolOptions, total=False):
    who: str
    """The person, role or channel that is asked, as free text for people; it is not enforced."""


@overload
def approval(function: Function, /) -> AnyTool: ...


@overload
def approval(**options: Unpack[ApprovalOptions]) -> Callable[[Function], AnyTool]: ...


def approval(
    function: Function | None = None, /, **options: Unpack[ApprovalOptions]
) -> AnyTool | Callable[[Function], AnyTool]:
    """Make a tool that asks for a decision: approve or reject, with an optional remark.

    The function notifies the person who decides, with `context.pending_id` or `context.callback_url`, and
    returns the question: a text, or a `Question` with its own options. The session parks meanwhile. The first
    decision counts, whether by `runtime.answer`, `asyncagents answer`, a result or a webhook. After `seconds`
    without one the call fails, and the model reads that there was no answer.
    """
    who = options.pop("who", "")
    if len(require_text(who, "who")) > MOST_WHO:
        raise InvalidInput(
            f"who must be a text of at most {MOST_WHO} characters: the person or role that the approval asks"
        )

    def decorate(decorated: Function) -> AnyTool:
        made = build_async_tool(decorated, options, lambda value: _approval_outcome(value, who))
        assert made.async_spec is not None, "async tools have a spec"
        made.async_spec = replace(made.async_spec, who=who, approval=True)
        return made

    return decorate(function) if function is not None else decorate


def _approval_outcome(value: Any, who: str) -> Outcome:
    match value:
        case Completed() | Failed():
            return value
        case Pending(questions=(Question() as question,)):
            question = _with_choices(question)
            note = value.note or _note(question, value.who or who)
            return replace(value, questions=(question,), who=value.who or who, note=note, approval=True)
        case Question():
            return _approval_outcome(Pending(questions=(value,)), who)
        case str() if value.strip():
            return _approval_outcome(Question(question=value, header=QUESTION_HEADER, options=()), who)
        case _:
            raise TypeError(
                f"an approval returns what it asks, a text or a Question, not {type(value).__name__}"
            )


def _with_choices(question: Question) -> Question:
    """Give a question the default options if it has none, and refuse free text."""
    return replace(question, options=question.options or DECISION_OPTIONS, multiple=None, custom=False)


def _note(question: Question, who: str) -> str:
    return f"Asked {one_line(who) if who else 'a person'}: {question.question}"
