"""The tool bash: a command under the user's rules, ended with all that it started."""

import os
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from asyncagents.config.git_settings import UNASKED
from asyncagents.domain.call import Completed
from asyncagents.domain.text import whole
from asyncagents.engine.tool import Ask, Tool, ToolContext
from asyncagents.errors import ToolError
from asyncagents.tools import shell_rules
from asyncagents.tools.described import described
from asyncagents.tools.files import Files
from asyncagents.tools.guarded_line import guarded_asks
from asyncagents.tools.process import Ended, Processes
from asyncagents.tools.sandbox import Sandboxes
from asyncagents.tools.threads import Threads

DEFAULT = 120_000
LONGEST = 600_000
# A command that took all its time is still to be ended, and its output read.
TIMEOUT = LONGEST / 1000 + 60
TITLE = 200

# No rule means this one; who may run it may run any program, and needs no hook of git for it.
_ANY_PROGRAM = "./any-program of-the-project"

LIVE = 4_000
"""So much of what a command prints is shown while it runs."""


class Bash(Struct, frozen=True, kw_only=True):
    command: Annotated[str, Meta(min_length=1, description="The command, as bash reads it.")]
    description: Annotated[str, Meta(description="What it is for, in five to ten words.")] = ""
    timeout: Annotated[int, Meta(ge=1, le=LONGEST, description="Milliseconds it may take.")] = DEFAULT
    workdir: Annotated[
        str | None, Meta(description="Where it starts; the project's directory if not given.")
    ] = None


class Confinement(Struct, frozen=True):
    """What the sandbox of an agent is made of, where there is one."""

    sandboxes: Sandboxes
    threads: Threads
    shown: tuple[Path, ...] = ()
    """Folders of skills: commands may read them wherever they lie."""

    async def arguments(self, context: ToolContext) -> tuple[str, ...] | None:
        """None: outside any sandbox, as what a person runs himself."""
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
    """`files`: of the project, if there is one whose guarded places are asked about."""
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
    """Those of the call: git runs no hook for a command that rules allowed where they do not allow any."""
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
    """For the person who ran it; how it failed is for the model, which was not asked."""
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
