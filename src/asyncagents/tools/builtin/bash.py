"""`bash`: run a shell command under the user's rules; all its descendants end with it."""

import os
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from asyncagents.config.git_settings import UNASKED
from asyncagents.domain.call.call import Completed
from asyncagents.domain.text import whole
from asyncagents.engine.tool import Ask, Tool, ToolContext
from asyncagents.errors import ToolError
from asyncagents.tools.builtin.describe import described
from asyncagents.tools.file.files import Files
from asyncagents.tools.file.thread_pool import Threads
from asyncagents.tools.process.processes import Ended, Processes
from asyncagents.tools.process.sandbox import Sandboxes
from asyncagents.tools.shell import rules as shell_rules
from asyncagents.tools.shell.guarded_places import guarded_asks

DEFAULT = 120_000
LONGEST = 600_000
# Leaves time to end a command that timed out and to read its output.
TIMEOUT = LONGEST / 1000 + 60
TITLE = 200

# No rule names this command: where it is allowed, any program is, and git hooks gain nothing.
_ANY_PROGRAM = "./any-program of-the-project"

LIVE = 4_000
"""Characters of the output's end that are shown while the command runs."""


class Bash(Struct, frozen=True, kw_only=True):
    command: Annotated[str, Meta(min_length=1, description="The command, as bash reads it.")]
    description: Annotated[str, Meta(description="What it is for, in five to ten words.")] = ""
    timeout: Annotated[int, Meta(ge=1, le=LONGEST, description="Milliseconds it may take.")] = DEFAULT
    workdir: Annotated[
        str | None, Meta(description="Where it starts; the project's directory if not given.")
    ] = None


class Confinement(Struct, frozen=True):
    """Prepares the sandbox of an agent's commands, if the agent has one."""

    sandboxes: Sandboxes
    threads: Threads
    shown: tuple[Path, ...] = ()
    """Folders of skills, readable in the sandbox wherever they are."""

    async def arguments(self, context: ToolContext) -> tuple[str, ...] | None:
        """Return the arguments that start the sandbox; None: no sandbox, as for commands of a person.

        Raises `ToolError` if the sandbox cannot be prepared.
        """
        sandbox = context.rules.sandbox if context.rules and not context.own else None
        if sandbox is None:
            return None
        prepare = partial(self.sandboxes.arguments, sandbox, context.session_id, shown=self.shown)
        try:
            return await self.threads.run(prepare)
        except OSError as error:
            raise ToolError(
                f"The sandbox of this agent cannot be prepared, so nothing was run: {error}."
            ) from error


def bash(
    processes: Processes, *, home: Path, files: Files | None = None, confinement: Confinement | None = None
) -> Tool[Bash]:
    """`files`: the project's files, whose guarded places ask; None: no guarded places."""
    threads = files.threads if files else Threads()

    async def plan(args: Bash, context: ToolContext) -> tuple[Ask, ...]:
        start = _start(args, context)
        asks = await threads.run(
            shell_rules.asks, args.command, directory=Path(context.directory), start=start, home=home
        )
        if files is None:
            return asks
        guarded = await threads.run(guarded_asks, args.command, files, start=start, home=home)
        return (*asks[:-1], *guarded, asks[-1])

    async def run(args: Bash, context: ToolContext) -> Completed:
        ended = await _processes(processes, context).run(
            ("bash", "-c", args.command),
            cwd=_start(args, context),
            timeout=None if context.own else args.timeout / 1000,
            on_output=_Live(context).hear,
            sandbox=await confinement.arguments(context) if confinement else None,
        )
        return _as_printed(ended) if context.own else _told(args, ended)

    return Tool("bash", Bash, run, plan=plan, effect="once", timeout=TIMEOUT, description=described("bash"))


def _processes(processes: Processes, context: ToolContext) -> Processes:
    """Return processes for one call, with its environment.

    Git hooks are off, unless the rules allow any program or a person approved the call.
    """
    there = processes.with_variables(context.environment) if context.environment else processes
    held = context.rules is not None and context.rules.evaluate("bash", _ANY_PROGRAM) != "allow"
    return there.with_git_settings(UNASKED) if held and not context.approved else there


class _Live:
    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._tail = ""

    def hear(self, text: str) -> None:
        self._tail = (self._tail + text)[-LIVE:]
        self._context.report({"output": self._tail})


def _start(args: Bash, context: ToolContext) -> Path:
    start = Path(context.directory) / (args.workdir or "")
    if not os.path.isdir(start):
        raise ToolError(f"There is no directory {whole(str(start))[:500]!r}: name a workdir that exists.")
    return start


def _told(args: Bash, ended: Ended) -> Completed:
    notes = []
    if ended.timed_out:
        notes.append(f"<timed out after {args.timeout} ms: the command was ended; give more time or do less>")
    elif ended.exit:
        notes.append(f"<exit code {ended.exit}>")
    said = ended.output.rstrip("\n")
    output = "\n\n".join([*([said] if said else []), *notes]) or "(no output)"
    return Completed(output, title=whole(args.description or args.command)[:TITLE], metadata=_metadata(ended))


def _as_printed(ended: Ended) -> Completed:
    """Build the result of a command that a person ran: the output as printed, then the exit code."""
    failed = f"\n\n<exit code {ended.exit}>" if ended.exit else ""
    return Completed(ended.output + failed, metadata=_metadata(ended))


def _metadata(ended: Ended) -> dict[str, Any]:
    return {
        "output": ended.output,
        "exit": ended.exit,
        "truncated": ended.truncated,
        "timedOut": ended.timed_out,
        **({"outputPath": ended.saved} if ended.saved else {}),
    }
