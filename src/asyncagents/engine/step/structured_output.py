"""Structured output: the model answers by a tool; an answer that does not fit is retried, with a limit."""

from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec.structs import replace

from asyncagents.domain.call.call import Call, Completed, Failed, Requested, Settled
from asyncagents.domain.conversation.failure import MessageOutputLengthError, structured_output
from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.conversation.part import StepFinishPart
from asyncagents.domain.conversation.system_message import Addressee, remark
from asyncagents.domain.fact import Admit
from asyncagents.domain.id import CallId, Ids
from asyncagents.domain.text import reminder, whole
from asyncagents.engine.input.output_schema import RETRIES, answer_in, complaint, parameters
from asyncagents.engine.workplace.agents import prompt_text
from asyncagents.engine.workplace.workplace import Brief
from asyncagents.llm.model import ToolSpec
from asyncagents.store.verb.output_format import Wanted
from asyncagents.store.verb.step import StepEnd

NAME = "StructuredOutput"
TAKEN = "The answer was taken."
TOO_LATE = "Not run: the answer was given in the same step."
PLAIN = f"it was not given by a call of {NAME}"
UNFINISHED = "the agent may take no more steps"

_Becomes: TypeAlias = Callable[[CallId], Settled | None]
_Verdict: TypeAlias = tuple[Call, Any] | str


def offered(brief: Brief, wanted: Wanted, *, last: bool) -> Brief:
    """Add the output tool to a brief; some tool must be called, and on a retry or the last step this one."""
    spec = ToolSpec(NAME, prompt_text("structured-output"), parameters(wanted.format.schema))
    others = tuple(each for each in brief.specs if each.name != NAME)
    choice = NAME if wanted.tries or last or not others else "required"
    return replace(brief, specs=(*others, spec), tool_choice=choice, weight=None)


class Acceptance:
    """Accepts or refuses the structured answer of one step, in the step's own transaction."""

    def __init__(self, wanted: Wanted, ids: Ids, now: int, *, last: bool) -> None:
        self._wanted = wanted
        self._ids = ids
        self._now = now
        self._last = last

    def judged(self, end: StepEnd) -> StepEnd:
        if isinstance(end.message.error, MessageOutputLengthError):  # the next try may answer
            end = replace(end, message=replace(end.message, error=None))
        if end.message.error is not None:
            return end
        calls = [call for call in end.calls if call.tool == NAME]
        if not calls and end.message.finish == "tool-calls":
            return end  # the turn goes on
        verdict = self._verdict(calls)
        if not isinstance(verdict, str):
            return self._taken(end, *verdict)
        tries = self._wanted.tries
        allowed = RETRIES if self._wanted.format.retry_count is None else self._wanted.format.retry_count
        refused = {call.id: Settled(Failed(verdict), self._now) for call in calls}
        if tries < allowed and not self._last:
            again = self._again(end.message, verdict)
            return replace(
                end,
                calls=_settled(end.calls, lambda call_id: refused.get(call_id)),
                facts=(*end.facts, again),
            )
        failure = structured_output(f"The answer does not fit the schema: {verdict}", tries)
        message = replace(end.message, error=failure)
        return replace(end, message=message, calls=_settled(end.calls, self._closing(refused)))

    def _verdict(self, calls: list[Call]) -> _Verdict:
        """Return the first call whose answer fits, with the answer; or what is wrong with the first."""
        schema = self._wanted.format.schema
        wrong: list[str] = []
        for call in calls:
            if isinstance(call.state, Settled) and not call.input and isinstance(call.state.result, Failed):
                wrong.append(call.state.result.error)
                continue
            value = answer_in(schema, call.input)
            why = complaint(schema, value)
            if why is None:
                return call, value
            wrong.append(f"the arguments do not fit the schema:\n{why}")
        return whole(wrong[0]) if wrong else UNFINISHED if self._last else PLAIN

    def _taken(self, end: StepEnd, call: Call, value: Any) -> StepEnd:
        done = {call.id: Settled(Completed(TAKEN, title="Answer"), self._now)}
        return replace(
            end,
            message=replace(end.message, structured=value, finish="stop"),
            calls=_settled(end.calls, self._closing(done)),
            parts=tuple(
                replace(part, reason="stop") if isinstance(part, StepFinishPart) else part
                for part in end.parts
            ),
        )

    def _closing(self, known: dict[CallId, Settled]) -> _Becomes:
        """Settle all other calls as not run: no step follows."""
        return lambda call_id: known.get(call_id) or Settled(Failed(TOO_LATE), self._now)

    def _again(self, message: AssistantMessage, why: str) -> Admit:
        to = Addressee(message.session_id, message.agent, message.model_ref)
        text = reminder(prompt_text("structured-again").format(why=why))
        said = remark(to, text, ids=self._ids, now=self._now)
        return Admit(message=said.message, parts=(said.part,), key=self._wanted.next_key, source="system")


def _settled(calls: tuple[Call, ...], state: _Becomes) -> tuple[Call, ...]:
    """Settle calls that are only requested, and calls of the output tool, which never run."""
    made = []
    for call in calls:
        new = state(call.id)
        changes = new is not None and (isinstance(call.state, Requested) or call.tool == NAME)
        made.append(call.to(new) if new is not None and changes else call)
    return tuple(made)
