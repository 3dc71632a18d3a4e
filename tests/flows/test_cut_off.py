"""A process that others may take for dead does nothing; when it is heard of again it works as before."""

import asyncio
from pathlib import Path

import pytest

from asyncagents.domain.session_state import CLAIM_LIMIT
from asyncagents.llm.scripted import call, say
from asyncagents.testing.inside import inside
from tests.support.runtime import answer_of, open_stage
from tests.support.tool import Gate
from tests.support.wait import PATIENCE


@pytest.mark.spec("X-10")
async def test_a_run_that_was_cut_off_before_it_began_leaves_its_place(tmp_path: Path) -> None:
    async with open_stage(tmp_path, {}) as at:
        dispatcher = inside(at.runtime).dispatcher
        dispatcher.dispatch(at.session_id)
        dispatcher.set_disconnected(True)
        await asyncio.sleep(0)
        dispatcher.set_disconnected(False)
        async with asyncio.timeout(PATIENCE):
            await at.prompt("hello")


@pytest.mark.spec("X-10")
async def test_a_run_that_is_disconnected_repeatedly_is_no_crash_loop(tmp_path: Path) -> None:
    gate = Gate("gate", effect="none")
    async with open_stage(tmp_path, {"wait": [[call("gate")], [say("through")]]}, tools=[gate.tool]) as at:
        message_id = await at.runtime.send(at.session_id, "wait")
        for _ in range(CLAIM_LIMIT + 2):
            await gate.until_started()
            inside(at.runtime).dispatcher.set_disconnected(True)
            await gate.ended.wait()
            gate.started.clear()
            gate.ended.clear()
            inside(at.runtime).dispatcher.set_disconnected(False)
        gate.go.set()
        async with asyncio.timeout(PATIENCE):
            await at.runtime.wait(at.session_id)
        answer = await at.runtime.answer_to(message_id)
        assert answer is not None
        assert answer_of(answer).error is None
