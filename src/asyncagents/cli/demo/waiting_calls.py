"""The demo's last acts: a call that outlives its process, and a call that expires."""

import asyncio
import sys
from asyncio.subprocess import PIPE
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec
from msgspec import Struct

from asyncagents.app.runtime import open_runtime
from asyncagents.cli.demo.checks import History
from asyncagents.cli.demo.deploy import SHIP, SHIP_LATE, Reporter, report_text
from asyncagents.cli.demo.ledger import Effect, Ledger
from asyncagents.cli.demo.scene import POLL_SECONDS
from asyncagents.cli.demo.screen import DemoScreen
from asyncagents.cli.demo.worker import WorkerReport
from asyncagents.config.clock import SystemClock
from asyncagents.domain.call.call import TIMED_OUT
from asyncagents.domain.call.pending_tool import PendingToolCall
from asyncagents.domain.conversation.message import AssistantMessage, UserMessage
from asyncagents.domain.id import SessionId
from asyncagents.domain.why import Why


class SessionFacts(Struct, frozen=True):
    """A session and one of its calls, as stored."""

    call: PendingToolCall
    why: Why
    history: History

    def answers_to(self, prompt: str) -> list[str]:
        """Return the text of each step that answered a prompt."""
        [asked] = [entry.info.id for entry in self.history if _is_prompt(entry.info, prompt, entry.text)]
        return [
            entry.text
            for entry in self.history
            if isinstance(entry.info, AssistantMessage) and entry.info.parent_id == asked
        ]


def _is_prompt(info: object, prompt: str, text: str) -> bool:
    return isinstance(info, UserMessage) and text == prompt


def check_waits(screen: DemoScreen, facts: SessionFacts) -> None:
    screen.check(
        "The agent's process exited with code 0, and the file holds the waiting call.",
        holds=facts.call.status == "waiting"
        and (facts.why.code, facts.why.on) == ("async", (facts.call.id,)),
        seen=facts,
    )


def check_submissions(screen: DemoScreen, report: WorkerReport) -> None:
    first = report.first
    screen.check(
        "The call took one result: the same again was answered alike, the other one was refused.",
        holds=first == report.again
        and first.status == "completed"
        and first.result is not None
        and first.result.output in report.refused,
        seen=report,
    )


def check_resumed(
    screen: DemoScreen, facts: SessionFacts, pending_call: PendingToolCall, runs: Sequence[Effect]
) -> None:
    """Check for two steps: the call, and an answer with the result that only the worker could know."""
    result = pending_call.result.output if pending_call.result else ""
    started = [run.key for run in runs].count(pending_call.id)
    screen.check(
        "The session went on exactly once, with the worker's words; the deploy was started once.",
        holds=facts.answers_to(SHIP) == ["", report_text(result)] and started == 1,
        seen=(facts.history, runs),
    )


def check_expired(screen: DemoScreen, facts: SessionFacts) -> None:
    call = facts.call
    screen.check(
        f'The call has expired, once; the agent was told "{TIMED_OUT}" and went on.',
        holds=(call.status, call.error) == ("expired", TIMED_OUT)
        and (call.time.completed or 0) > (call.timeout or 0)
        and facts.answers_to(SHIP_LATE) == ["", report_text(TIMED_OUT)]
        and facts.why.code == "idle",
        seen=facts,
    )


class EndedProcess(Struct, frozen=True):
    """A process that has exited, and its stdout."""

    pid: int
    output: bytes


async def act_late(data: Path, screen: DemoScreen) -> SessionId:
    screen.head(
        "7. A tool that takes a day",
        "deploy only starts its work: the result comes later, from somewhere else. So the agent's process "
        "may end. What waits is in the file.",
    )
    async with open_runtime(data, model=Reporter(), serve=False) as runtime:
        session_id = (await runtime.create_session(title=SHIP)).id
    call = await _run_until_waiting(screen, data, session_id, SHIP)
    waits = await _inspect_session(data, session_id, call)
    screen.line("why", waits.why.sentence)
    check_waits(screen, waits)
    report = await _run_worker(screen, data, call)
    check_submissions(screen, report)
    agent = await _run_process("agent", str(data), session_id, "")
    screen.explain(f"A new agent, process {agent.pid}, reads only the file:")
    facts = await _inspect_session(data, session_id, call)
    screen.line("agent", facts.answers_to(SHIP)[-1])
    check_resumed(screen, facts, report.first, Ledger(data).effects_of("deploy"))
    return session_id


async def act_expiry(data: Path, screen: DemoScreen, session_id: SessionId) -> None:
    """Let a call expire while no process, this one included, has the file open."""
    screen.head(
        "8. A result that never comes",
        "Once more, and no result comes. The deadline passes while no process has the file open.",
    )
    call = await _run_until_waiting(screen, data, session_id, SHIP_LATE)
    while SystemClock().now() <= (call.timeout or 0):  # noqa: ASYNC110  the wall clock sets no event
        await asyncio.sleep(POLL_SECONDS)
    agent = await _run_process("agent", str(data), session_id, "")
    screen.explain(f"A new agent, process {agent.pid}, finds it overdue:")
    facts = await _inspect_session(data, session_id, call)
    screen.line("agent", facts.answers_to(SHIP_LATE)[-1])
    check_expired(screen, facts)


async def _run_until_waiting(
    screen: DemoScreen, data: Path, session_id: SessionId, prompt: str
) -> PendingToolCall:
    """Run an agent process on a prompt until it waits, and return the call that it waits for."""
    screen.line("you", prompt)
    agent = await _run_process("agent", str(data), session_id, prompt)
    [call] = msgspec.json.decode(agent.output, type=tuple[PendingToolCall, ...])
    screen.line(
        "tool", f"{call.tool}({call.input['version']}) is {call.status}, known there as {call.external_ref}"
    )
    screen.line("exit", f"process {agent.pid}, the agent, has ended")
    return call


async def _run_worker(screen: DemoScreen, data: Path, call: PendingToolCall) -> WorkerReport:
    worker = await _run_process("worker", str(data), call.id)
    screen.explain(f"The worker, process {worker.pid}, knows the id of the call. It submits the result:")
    report = msgspec.json.decode(worker.output, type=WorkerReport)
    for answer in (report.first, report.again):
        screen.line("worker", f"{answer.result.output if answer.result else answer.error} -> {answer.status}")
    screen.line("worker", f"no machine answers -> {report.refused}")
    return report


async def _inspect_session(data: Path, session_id: SessionId, call: PendingToolCall) -> SessionFacts:
    """Read the session without running it."""
    async with open_runtime(data, model=Reporter(), serve=False) as runtime:
        return SessionFacts(
            call=await runtime.async_tools.get(call.id),
            why=await runtime.tasks.why(session_id),
            history=await runtime.messages(session_id),
        )


async def _run_process(module: str, *arguments: str) -> EndedProcess:
    """Run a module as a process until it exits; raise if its exit code is not 0."""
    command = [sys.executable, "-P", "-m", f"asyncagents.cli.demo.{module}", *arguments]
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, start_new_session=True)
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise click.ClickException(f"{module} ended with exit code {process.returncode}")
    return EndedProcess(process.pid, output)
