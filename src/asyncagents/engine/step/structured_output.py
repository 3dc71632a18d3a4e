"""Structured output: the model answers by a tool; an answer that does not fit is retried, with a limit."""

from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec.structs import replace

from asyncagents.domain.call.call import Call, Completed, Failed, Requested, Settled
from asyncagents.domain.conversation.failure import MessageOutputLengthError, structured_output_error
from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.conversation.part import StepFinishPart
from asyncagents.domain.conversation.system_message import MessageTarget, build_system_message
from asyncagents.domain.fact import Admit
from asyncagents.domain.id import CallId, Ids
from asyncagents.domain.step import OutputFormat, StepEnd
from asyncagents.domain.text import reminder, replace_surrogates
from asyncagents.engine.input.output_schema import (
    DEFAULT_RETRIES,
    extract_answer,
    find_violations,
    tool_parameters,
)
from asyncagents.engine.workplace.agents import prompt_text
from asyncagents.engine.workplace.workplace import Brief
from asyncagents.llm.model import ToolSpec

TOOL_NAME = "StructuredOutput"
ANSWER_TAKEN = "The answer was taken."
TOO_LATE = "Not run: the answer was given in the same step."
NOT_BY_TOOL = f"it was not given by a call of {TOOL_NAME}"
NO_STEPS_LEFT = "the agent may take no more steps"

_StateOf: TypeAlias = Callable[[CallId], Settled | None]
_Verdict: TypeAlias = tuple[Call, Any] | str


def with_output_tool(brief: Brief, output_format: OutputFormat, *, last: bool) -> Brief:
    """Add the output tool to a brief; some tool must be called, and on a retry or the last step this one."""
    spec = ToolSpec(TOOL_NAME, prompt_text("structured-output"), tool_parameters(output_format.format.schema))
    others = tuple(each for each in brief.specs if each.name != TOOL_NAME)
    choice = TOOL_NAME if output_format.tries or last or not others else "required"
    return replace(brief, specs=(*others, spec), tool_choice=choice, weight=None)


class OutputAcceptance:
    """Accepts or refuses the structured answer of one step, in the step's own transaction."""

    def __init__(self, output_format: OutputFormat, ids: Ids, now: int, *, last: bool) -> None:
        self._wanted = output_format
        self._ids = ids
        self._now = now
        self._last = last

    def judge_end(self, end: StepEnd) -> StepEnd:
        if isinstance(end.message.error, MessageOutputLengthError):  # the next try may answer
            end = replace(end, message=replace(end.message, error=None))
        if end.message.error is not None:
            return end
        calls = [call for call in end.calls if call.tool == TOOL_NAME]
        if not calls and end.message.finish == "tool-calls":
            return end  # the turn goes on
        verdict = self._find_answer(calls)
        if not isinstance(verdict, str):
            return self._accept(end, *verdict)
        tries = self._wanted.tries
        allowed = (
            DEFAULT_RETRIES if self._wanted.format.retry_count is None else self._wanted.format.retry_count
        )
        refused = {call.id: Settled(Failed(verdict), self._now) for call in calls}
        if tries < allowed and not self._last:
            again = self._ask_again(end.message, verdict)
            return replace(
                end,
                calls=_settle_calls(end.calls, lambda call_id: refused.get(call_id)),
                facts=(*end.facts, again),
            )
        failure = structured_output_error(f"The answer does not fit the schema: {verdict}", tries)
        message = replace(end.message, error=failure)
        return replace(end, message=message, calls=_settle_calls(end.calls, self._close_others(refused)))

    def _find_answer(self, calls: list[Call]) -> _Verdict:
        """Return the first call whose answer fits, with the answer; or what is wrong with the first."""
        schema = self._wanted.format.schema
        wrong: list[str] = []
        for call in calls:
            if isinstance(call.state, Settled) and not call.input and isinstance(call.state.result, Failed):
                wrong.append(call.state.result.error)
                continue
            value = extract_answer(schema, call.input)
            why = find_violations(schema, value)
            if why is None:
                return call, value
            wrong.append(f"the arguments do not fit the schema:\n{why}")
        return replace_surrogates(wrong[0]) if wrong else NO_STEPS_LEFT if self._last else NOT_BY_TOOL

    def _accept(self, end: StepEnd, call: Call, value: Any) -> StepEnd:
        done = {call.id: Settled(Completed(ANSWER_TAKEN, title="Answer"), self._now)}
        return replace(
            end,
            message=replace(end.message, structured=value, finish="stop"),
            calls=_settle_calls(end.calls, self._close_others(done)),
            parts=tuple(
                replace(part, reason="stop") if isinstance(part, StepFinishPart) else part
                for part in end.parts
            ),
        )

    def _close_others(self, known: dict[CallId, Settled]) -> _StateOf:
        """Settle all other calls as not run: no step follows."""
        return lambda call_id: known.get(call_id) or Settled(Failed(TOO_LATE), self._now)

    def _ask_again(self, message: AssistantMessage, why: str) -> Admit:
        target = MessageTarget(message.session_id, message.agent, message.model_ref)
        text = reminder(prompt_text("structured-again").format(why=why))
        system_message = build_system_message(target, text, ids=self._ids, now=self._now)
        return Admit(
            message=system_message.message,
            parts=(system_message.part,),
            key=self._wanted.next_key,
            source="system",
        )


def _settle_calls(calls: tuple[Call, ...], state: _StateOf) -> tuple[Call, ...]:
    """Settle calls that are only requested, and calls of the output tool, which never run."""
    made = []
    for call in calls:
        new = state(call.id)
        changes = new is not None and (isinstance(call.state, Requested) or call.tool == TOOL_NAME)
        made.append(call.with_state(new) if new is not None and changes else call)
    return tuple(made)
