"""Before a turn ends somebody may object, or have something commit together with its end."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from asyncagents.domain.call.call import REJECTED, Completed
from asyncagents.domain.conversation.failure import UnknownError
from asyncagents.domain.conversation.status import Busy, Idle
from asyncagents.domain.event import PermissionAsked, SessionIdle, SessionStatus
from asyncagents.domain.fact import Admit, Settle
from asyncagents.domain.id import SessionId
from asyncagents.domain.session_state import RestReason, Snapshot
from asyncagents.engine.runner import Continue, RestVerdict
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.llm.model import ModelTurn, TextBlock, UserTurn
from asyncagents.llm.scripted import call, fail, pause, say
from asyncagents.testing.inside import inside
from tests.support.runtime import answer_of, open_stage
from tests.support.tool import CAREFUL, build_pending_tool

REPORT = Completed("all green")


class Hook:
    """Says what it was told to say, then nothing, and remembers why it was asked."""

    def __init__(self, *texts: str, key: str | None = None) -> None:
        self.runtime: Runtime | None = None
        self.reasons: list[RestReason] = []
        self._texts = list(texts)
        self._key = key

    async def __call__(self, snapshot: Snapshot, reason: RestReason) -> RestVerdict:
        self.reasons.append(reason)
        return Continue(self.say(snapshot.control.id, self._texts.pop(0))) if self._texts else ()

    def say(self, session_id: SessionId, text: str) -> Admit:
        assert self.runtime is not None
        fact = inside(self.runtime).inputs.build_prompt(session_id, text, key=self._key, options={})
        return replace(fact, source="system")


async def test_a_turn_goes_on_when_the_before_rest_hook_adds_input(tmp_path: Path) -> None:
    hook = Hook("You forgot the tests.", "And the docs.")
    script = {"go": [[say("Done.")], [say("Tests too.")], [say("Docs too.")]]}
    async with open_stage(tmp_path, script, before_rest=hook) as at:
        hook.runtime = at.runtime
        answer = await at.prompt("go")
        await at.listener.until(SessionIdle)

    assert answer.text == "Docs too."
    assert hook.reasons == ["done"] * 3
    assert at.request_messages() == [
        UserTurn("go"),
        ModelTurn((TextBlock("Done."),)),
        UserTurn("You forgot the tests."),
        ModelTurn((TextBlock("Tests too."),)),
        UserTurn("And the docs."),
    ]
    assert [event.status for event in at.listener.of(SessionStatus)] == [Busy(), Idle()]


async def test_hook_input_under_a_repeated_key_does_not_continue_the_turn(tmp_path: Path) -> None:
    hook = Hook(*["Go on."] * 50, key="nudge")
    async with open_stage(tmp_path, {"go": [[say("Done.")], [say("Still done.")]]}, before_rest=hook) as at:
        hook.runtime = at.runtime
        answer = await at.prompt("go")

    assert answer.text == "Still done."
    assert len(at.model.requests) == len(hook.reasons) == 2


@pytest.mark.spec("C-03")
async def test_hook_input_after_an_error_begins_a_turn_of_its_own(tmp_path: Path) -> None:
    hook = Hook("Try again.")
    script = {"go": [[fail("overloaded")]], "Try again.": [[say("Done.")]]}
    async with open_stage(tmp_path, script, before_rest=hook) as at:
        hook.runtime = at.runtime
        failed = await at.prompt("go")
        await at.listener.until_text("Done.")
        await at.listener.until(SessionIdle)
        answer = (await at.messages())[-1]

    assert answer_of(failed).error is not None
    assert answer.text == "Done."
    assert hook.reasons == ["error", "done"]


async def test_hook_input_after_a_blocked_turn_begins_the_next_turn(tmp_path: Path) -> None:
    hook = Hook("Then something else.")
    script = {"go": [[call("careful", text="a")]], "Then something else.": [[say("Done.")]]}
    async with open_stage(tmp_path, script, tools=[CAREFUL], before_rest=hook) as at:
        hook.runtime = at.runtime
        prompt = asyncio.ensure_future(at.prompt("go"))
        await at.runtime.answer((await at.listener.until(PermissionAsked)).request.id, "reject")
        await prompt
        await at.listener.until_text("Done.")
        await at.listener.until(SessionIdle)

    assert hook.reasons == ["blocked", "done"]
    assert REJECTED in str(at.request_messages())


@pytest.mark.spec("C-10")
async def test_the_before_rest_hook_is_not_called_after_an_abort(tmp_path: Path) -> None:
    hook = Hook("Go on.")
    async with open_stage(tmp_path, {"go": [[say("I beg"), pause(3600)]]}, before_rest=hook) as at:
        hook.runtime = at.runtime
        await at.runtime.send(at.session_id, "go")
        await at.listener.until_text("I beg")
        await at.abort()
        await at.listener.until(SessionIdle)

    assert hook.reasons == []


async def test_the_before_rest_hook_is_not_called_while_a_call_is_open(tmp_path: Path) -> None:
    hook = Hook("Go on.")
    script = {"go": [[call("deploy")], [say("Done.")]]}
    async with open_stage(tmp_path, script, tools=[build_pending_tool("deploy")], before_rest=hook) as at:
        hook.runtime = at.runtime
        await at.prompt("go")
        parked = list(hook.reasons)
        await at.runtime.complete((await at.open_call()).id, "v2")
        await at.listener.until(SessionIdle)

    assert parked == []
    assert hook.reasons == ["done", "done"]


async def test_facts_returned_by_the_before_rest_hook_reach_the_parent_session(tmp_path: Path) -> None:
    """A child tells its parent, and settles the call that waits for it."""
    hook = Hook()

    async def report(snapshot: Snapshot, reason: RestReason) -> RestVerdict:
        if snapshot.control.parent_id is None:
            return ()
        (waiting,) = await at.runtime.open_calls(snapshot.control.parent_id)
        return (
            hook.say(snapshot.control.parent_id, "The child has ended."),
            Settle(waiting.id, REPORT),
        )

    script = {"go": [[call("deploy")], [say("Done.")]], "work": [[say("Worked.")]]}
    async with open_stage(tmp_path, script, tools=[build_pending_tool("deploy")], before_rest=report) as at:
        hook.runtime = at.runtime
        await at.prompt("go")
        child = await at.runtime.create_session(directory=tmp_path, parent_id=at.session_id)
        await at.runtime.prompt(child.id, "work")
        await at.listener.until(SessionIdle, lambda event: event.session_id == at.session_id)

    assert at.request_messages()[0] == UserTurn("go")
    assert "child has ended" in str(at.request_messages())
    assert REPORT.output in str(at.request_messages())


async def test_a_hook_that_raises_ends_in_an_error_not_in_a_loop(tmp_path: Path) -> None:
    asked: list[RestReason] = []

    async def broken(snapshot: Snapshot, reason: RestReason) -> RestVerdict:
        asked.append(reason)
        raise RuntimeError("a bug in a hook")

    async with open_stage(tmp_path, {"go": [[say("Done.")]]}, before_rest=broken) as at:
        answer = await at.prompt("go")
        await at.listener.until(SessionIdle)

    error = answer_of(answer).error
    assert isinstance(error, UnknownError)
    assert error.data.message.startswith("crash_loop")
    assert answer.text == "Done."
    assert len(at.model.requests) == 1
    assert len(asked) == 4
