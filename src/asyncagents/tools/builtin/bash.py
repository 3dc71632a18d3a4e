"""`bash`: run a shell command under the user's rules; all its descendants end with it."""

import os
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from asyncagents.config.git_settings import UNATTENDED
from asyncagents.domain.call.call import Completed
from asyncagents.domain.text import replace_surrogates
from asyncagents.engine.tool import Ask, Tool, ToolContext
from asyncagents.errors import ToolError
from asyncagents.tools.builtin.describe import load_description
from asyncagents.tools.file.files import Files
from asyncagents.tools.file.thread_pool import Threads
from asyncagents.tools.process.processes import Processes, ProcessResult
from asyncagents.tools.process.sandbox import Sandboxes
from asyncagents.tools.shell.guarded_places import guarded_asks
from asyncagents.tools.shell.rules import command_asks
from asyncagents.tools.shell.syntax_tree import parse_line

DEFAULT_TIMEOUT_MS = 120_000
MOST_TIMEOUT_MS = 600_000
# Leaves time to end a command that timed out and to read its output.
TIMEOUT = MOST_TIMEOUT_MS / 1000 + 60
MOST_TITLE = 200

# No rule names this command: where it is allowed, any program is, and git hooks gain nothing.
_ANY_PROGRAM = "./any-program of-the-project"

MOST_LIVE_CHARS = 4_000
"""Characters of the output's end that are shown while the command runs."""


class BashArgs(Struct, frozen=True, kw_only=True):
    command: Annotated[str, Meta(min_length=1, description="The command, as bash reads it.")]
    description: Annotated[str, Meta(description="What it is for, in five to ten words.")] = ""
    timeout: Annotated[int, Meta(ge=1, le=MOST_TIMEOUT_MS, description="Milliseconds it may take.")] = (
        DEFAULT_TIMEOUT_MS
    )
    workdir: Annotated[
        str | None, Meta(description="Where it starts; the project's directory if not given.")
    ] = None


class Confinement(Struct, frozen=True):
    """Prepares the sandbox of an agent's commands, if the agent has one."""

    sandboxes: Sandboxes
    threads: Threads
    readable: tuple[Path, ...] = ()
    """Folders of skills, readable in the sandbox wherever they are."""

    async def arguments(self, context: ToolContext) -> tuple[str, ...] | None:
        """Return the arguments that start the sandbox; None: no sandbox, as for commands of a person.

        Raises `ToolError` if the sandbox cannot be prepared.
        """
        sandbox = context.rules.sandbox if context.rules and not context.own else None
        if sandbox is None:
            return None
        prepare = partial(self.sandboxes.bwrap_arguments, sandbox, context.session_id, shown=self.readable)
        try:
            return await self.threads.run(prepare)
        except OSError as error:
            raise ToolError(
                f"The sandbox of this agent cannot be prepared, so nothing was run: {error}."
            ) from error


def bash(
    processes: Processes, *, home: Path, files: Files | None = None, confinement: Confinement | None = None
) -> Tool[BashArgs]:
    """`files`: the project's files, whose guarded places ask; None: no guarded places."""
    threads = files.threads if files else Threads()

    def find_asks(command: str, directory: Path, start: Path) -> tuple[Ask, ...]:
        """Return the asks for guarded places before the last ask, which is for `bash` itself."""
        parse = cache(parse_line)
        *others, own = command_asks(command, directory=directory, start=start, home=home, parse=parse)
        guarded = guarded_asks(command, files, start=start, home=home, parse=parse) if files else ()
        return (*others, *guarded, own)

    async def plan(args: BashArgs, context: ToolContext) -> tuple[Ask, ...]:
        start = _start_directory(args, context)
        return await threads.run(find_asks, args.command, Path(context.directory), start)

    async def run(args: BashArgs, context: ToolContext) -> Completed:
        result = await _processes_of_call(processes, context).run(
            ("bash", "-c", args.command),
            cwd=_start_directory(args, context),
            timeout=None if context.own else args.timeout / 1000,
            on_output=_LiveOutput(context).append,
            sandbox=await confinement.arguments(context) if confinement else None,
        )
        return _build_plain_result(result) if context.own else _build_result(args, result)

    return Tool(
        "bash", BashArgs, run, plan=plan, effect="once", timeout=TIMEOUT, description=load_description("bash")
    )


def _processes_of_call(processes: Processes, context: ToolContext) -> Processes:
    """Return processes for one call, with its environment.

    Git hooks are off, unless the rules allow any program or a person approved the call.
    """
    there = processes.with_variables(context.environment) if context.environment else processes
    held = context.rules is not None and context.rules.evaluate("bash", _ANY_PROGRAM) != "allow"
    return there.with_git_settings(UNATTENDED) if held and not context.approved else there


class _LiveOutput:
    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._tail = ""

    def append(self, text: str) -> None:
        self._tail = (self._tail + text)[-MOST_LIVE_CHARS:]
        self._context.report({"output": self._tail})


def _start_directory(args: BashArgs, context: ToolContext) -> Path:
    start = Path(context.directory) / (args.workdir or "")
    if not os.path.isdir(start):
        raise ToolError(
            f"There is no directory {replace_surrogates(str(start))[:500]!r}: name a workdir that exists."
        )
    return start


def _build_result(args: BashArgs, result: ProcessResult) -> Completed:
    notes = []
    if result.timed_out:
        notes.append(f"<timed out after {args.timeout} ms: the command was ended; give more time or do less>")
    elif result.exit_code:
        notes.append(f"<exit code {result.exit_code}>")
    text = result.output.rstrip("\n")
    output = "\n\n".join([*([text] if text else []), *notes]) or "(no output)"
    return Completed(
        output,
        title=replace_surrogates(args.description or args.command)[:MOST_TITLE],
        metadata=_metadata(result),
    )


def _build_plain_result(result: ProcessResult) -> Completed:
    """Build the result of a command that a person ran: the output as printed, then the exit code."""
    failed = f"\n\n<exit code {result.exit_code}>" if result.exit_code else ""
    return Completed(result.output + failed, metadata=_metadata(result))


def _metadata(result: ProcessResult) -> dict[str, Any]:
    return {
        "output": result.output,
        "exit": result.exit_code,
        "truncated": result.truncated,
        "timedOut": result.timed_out,
        **({"outputPath": result.spill_path} if result.spill_path else {}),
    }
