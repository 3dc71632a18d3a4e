"""`asyncagents demo`: pending calls, parallel agents and killed processes, with every claim checked."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from msgspec import Struct

from asyncagents.app.runtime import open_runtime
from asyncagents.cli.demo.checks import (
    History,
    check_history,
    check_in_doubt,
    check_prompt,
    check_rerun,
    check_text,
)
from asyncagents.cli.demo.child import STEADY, STUCK, do_nothing, open_child
from asyncagents.cli.demo.ledger import Ledger
from asyncagents.cli.demo.scene import (
    AcknowledgedPrompt,
    approve,
    poll,
    send,
    send_again,
    show_turn,
    text_so_far,
    wait_for_lines,
)
from asyncagents.cli.demo.screen import DemoScreen
from asyncagents.cli.demo.shop import LOOK_UP, NEWSLETTER, REFUND, SHIP, Shop, shop_model
from asyncagents.cli.demo.team import act_team, act_team_crash
from asyncagents.cli.demo.waiting_calls import act_expiry, act_late
from asyncagents.domain.call.call import Call
from asyncagents.domain.conversation.status import WaitingAsync
from asyncagents.domain.id import MessageId, SessionId
from asyncagents.engine.runtime.runtime import Runtime

DEMO_SECONDS = 60.0


class Stage(Struct, frozen=True):
    data: Path
    screen: DemoScreen


class SessionBeforeCrash(Struct, frozen=True):
    """The session with the open call, before the crash."""

    call: Call
    history: History

    @property
    def prompt(self) -> MessageId:
        """The prompt that led to the open call."""
        [asked] = [entry.info.id for entry in self.history if entry.text == REFUND]
        return asked


class CrashState(Struct, frozen=True):
    """The prompts under way when the process was killed, and the stored part of the answer."""

    letter: AcknowledgedPrompt
    order: AcknowledgedPrompt
    kept: str


@click.command()
@click.option(
    "--keep",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Work in DIR, which must be new or empty, and keep it.",
)
def demo(keep: Path | None) -> None:
    """Watch agents survive kill -9: offline, no key, half a minute.

    A scripted model works in a small shop. One of its tools waits for a person, the process that runs it is
    killed in the middle of its work, and another process continues. Then five agents work for one, first in
    sequence, then in parallel, then through a kill -9; and a result comes in when no agent runs. Every claim
    is checked; if one does not hold, the exit code is 1.
    """
    screen = DemoScreen()
    with _directory(keep) as data:
        try:
            asyncio.run(_play(Stage(data, screen)))
        except TimeoutError as error:
            stuck = f"not done after {DEMO_SECONDS:g} seconds; stuck in {screen.heading!r}"
            raise click.ClickException(stuck) from error
    if keep is not None:
        screen.line("kept", f"{keep / 'asyncagents.db'}")


@contextmanager
def _directory(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with TemporaryDirectory(prefix="asyncagents-demo-") as name:
            yield Path(name)
    elif keep.exists() and any(keep.iterdir()):
        raise click.BadParameter(f"{keep} is not empty; name a new directory", param_hint="--keep")
    else:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep.absolute()


async def _play(stage: Stage) -> None:
    async with asyncio.timeout(DEMO_SECONDS):
        stage.screen.explain(
            "An agent works in a small lamp shop. Its model plays a script, so this needs no key and no "
            "network. The rest is real: the processes, the kill -9, and the one SQLite file that "
            "everything is kept in."
        )
        before = await _play_before_crash(stage)
        state = await act_crash(stage)
        await act_recovery(stage, before, state)
        await act_team(stage.data, stage.screen)
        await act_team_crash(stage.data, stage.screen)
        session_id = await act_late(stage.data, stage.screen)
        await act_expiry(stage.data, stage.screen, session_id)
        _print_summary(stage.screen)


async def _play_before_crash(stage: Stage) -> SessionBeforeCrash:
    tools = Shop(Ledger(stage.data), do_nothing).tools()
    async with open_runtime(stage.data, model=shop_model(), tools=tools) as runtime:
        session = await runtime.create_session(title="Order 1042")
        await act_session(stage.screen, runtime, session.id)
        call = await act_open_call(stage.screen, runtime, session.id)
        return SessionBeforeCrash(call, await runtime.messages(session.id))


async def act_session(screen: DemoScreen, runtime: Runtime, session_id: SessionId) -> None:
    screen.head(
        "1. A session",
        "A session is a conversation with one agent. You send a prompt; the model may call tools, and its "
        "answer comes in word by word.",
    )
    words, answer = await show_turn(screen, runtime, session_id, LOOK_UP)
    screen.check(
        "The words that came in are the answer that is stored.", holds=words == answer.text, seen=words
    )


async def act_open_call(screen: DemoScreen, runtime: Runtime, session_id: SessionId) -> Call:
    screen.head(
        "2. A call that waits",
        "Some tools cannot answer now. A refund needs the manager, who may be away until tomorrow.",
    )
    await show_turn(screen, runtime, session_id, REFUND)
    await poll(lambda: _nothing_runs(runtime))
    status = await runtime.status(session_id)
    screen.check(
        "The session is waiting_async and 0 runs are alive: what waits is a row in the file, not a process.",
        holds=isinstance(status, WaitingAsync) and runtime.live == 0,
        seen=(status, runtime.live),
    )
    [call] = await runtime.open_calls(session_id)
    return call


async def _nothing_runs(runtime: Runtime) -> bool | None:
    return runtime.live == 0 or None


async def act_crash(stage: Stage) -> CrashState:
    screen = stage.screen
    async with (
        open_runtime(stage.data, model=shop_model(), serve=False) as runtime,
        open_child(stage.data, STUCK) as process,
    ):
        screen.head(
            "3. A crash",
            f"This process stops working and only looks on; another one, {process.pid}, serves the same file "
            "now. A prompt is acknowledged once it is on the disk.",
        )
        letter, order = [await send(screen, runtime, text) for text in (NEWSLETTER, SHIP)]
        await wait_for_lines(process, "update_stock", "charge_card")
        partial_text = await poll(lambda: text_so_far(runtime, letter.session_id))
        screen.explain(f"Process {process.pid} is now in the middle of this:")
        screen.line("answer", f"{partial_text} ...")
        screen.line("update_stock", "runs. Declared `idempotent`: again with the same key does no harm.")
        screen.line("charge_card", "runs. Declared `once`, the default: again would charge twice.")
        screen.line("refund", "is open. It still waits for the manager.")
        process.kill()
        screen.line("kill -9", str(process.pid))
        code = await process.wait()
        screen.check("The process died of signal 9.", holds=code == -signal.SIGKILL, seen=f"exit code {code}")
    return CrashState(letter, order, partial_text)


async def act_recovery(stage: Stage, before: SessionBeforeCrash, state: CrashState) -> None:
    screen, ledger = stage.screen, Ledger(stage.data)
    async with (
        open_runtime(stage.data, model=shop_model(), serve=False) as runtime,
        open_child(stage.data, STEADY) as process,
    ):
        screen.head(
            "4. The recovery",
            f"A new process, {process.pid}, takes over; it reads only the file. We send the same "
            "prompts with the same keys again, as a client does that got no response.",
        )
        history = await send_again(screen, runtime, state.letter)
        check_prompt(screen, history, state.letter.message_id)
        check_text(screen, history, state.kept)
        history = await send_again(screen, runtime, state.order)
        check_prompt(screen, history, state.order.message_id)
        check_rerun(screen, history, ledger)
        check_in_doubt(screen, history, ledger)
        screen.explain("The manager is back, and did not notice any of this:")
        history = await approve(screen, runtime, before.call)
        check_prompt(screen, history, before.prompt)
        check_history(screen, before.history, history)
    screen.check("The new process ended in good order.", holds=process.returncode == 0, seen=process)


def _print_summary(screen: DemoScreen) -> None:
    screen.head("What you saw", f"{screen.checks} claims were checked, and all held.")
    screen.line("acknowledged", "The acknowledged prompts and the open call outlived kill -9.")
    screen.line("answers", "Each prompt got one. The interrupted answer was written again.")
    screen.line("tools", "What may run again did, under its key. What may not was reported in doubt.")
    screen.line("open call", "It waited without a process, and its result woke the session in a new process.")
    screen.line("tasks", "Five agents worked at once. A kill -9 lost no result and repeated no notice.")
    screen.line("late result", "It came after the process had ended, and the next process used it, once.")
    screen.explain("The README lists the guarantees under `What survives a crash`.")
