"""`asyncagents submit`: submit the result of a pending call."""

import sys
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from asyncagents.app.runtime import open_runtime
from asyncagents.cli.act.answer import TreeState, server_url
from asyncagents.cli.act.answer import continue_tree as work_on
from asyncagents.cli.exit import CONFLICT, REFUSED, USAGE, CliError
from asyncagents.cli.inspect.read_task_tree import is_tree_running
from asyncagents.cli.lookup import is_empty
from asyncagents.cli.options import data_dir_option, data_directory, form_option
from asyncagents.cli.terminal.screen import Screen, log_to_screen, one_line
from asyncagents.config.env import system_environment
from asyncagents.config.trust import is_trusted
from asyncagents.domain.call.pending_tool import PendingToolCall
from asyncagents.domain.shape import encode
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.errors import Conflict, InvalidInput, NotFound, ResultRefused, Unavailable


@click.command()
@click.argument("id", metavar="PENDING_ID")
@click.argument("output", metavar="RESULT|-", required=False)
@click.option("--title", metavar="TEXT", default="", help="A short title for people.")
@click.option("--metadata", metavar="JSON", help="A JSON object, stored with the result.")
@click.option("--error", "failed", is_flag=True, help="Submit a failure; RESULT is the error message.")
@click.option("--run", "goes_on", is_flag=True, help="Then run the session, or show the server's progress.")
@form_option
@click.option("--json", "as_json", is_flag=True, help="Print the call as JSON; with --run, as --format json.")
@data_dir_option
@click.pass_context
def submit(  # noqa: PLR0913  its options
    context: click.Context,
    /,
    *,
    id: str,
    output: str | None,
    title: str,
    metadata: str | None,
    failed: bool,
    goes_on: bool,
    form: str,
    as_json: bool,
    data_dir: Path | None,
) -> None:
    """Submit the result of a pending call.

    PENDING_ID is the id that the tool got and `asyncagents pending` lists, or a unique prefix of it while the
    call waits. With - the result is read from stdin. It is stored when this command ends, once: submitting
    the same result again, under the full id, is not an error. The session continues in the server of this
    data or the process that runs it, else with the next `asyncagents run --session`, or here with --run.

    Exit codes: 0 accepted, now or before; 1 its tool must check the result and is not available; 2 no such
    call, or wrong usage; 4 it has another result already, or takes none; 6 its tool refused the result, and
    it still waits. With --run, those of `run`.
    """
    import asyncio

    arguments = SubmitArguments(id, read_text(output), title=title, metadata=metadata, failed=failed)
    outcome = asyncio.run(submit_result(data_directory(data_dir), arguments))
    if goes_on and not outcome.root.is_left_to_others:
        context.exit(continue_session(outcome, "json" if as_json else form, data_dir))
    print_outcome(outcome, as_json=as_json)


PENDING_HINT = "`asyncagents pending` lists pending calls"
PREFIX = "tool_"
ASK_PREFIXES = ("que_", "per_")
ANSWER_HINT = "`asyncagents answer {}` answers an ask; `asyncagents pending` lists pending calls"
MOST_BYTES = 10 * 1024 * 1024


class SubmitArguments(Struct, frozen=True):
    """The arguments of `asyncagents submit`."""

    id: str
    text: str
    title: str = ""
    metadata: str | None = None
    failed: bool = False


class SubmitOutcome(Struct, frozen=True):
    """A result that is stored."""

    call: PendingToolCall
    before: bool
    """The result was stored by an earlier submit."""
    others: int
    """Calls of the same step that still wait."""
    root: TreeState

    @property
    def is_run(self) -> bool:
        return self.root.is_run

    def text(self) -> str:
        how = "already accepted" if self.before else "accepted"
        what = f"{how}: {one_line(self.call.tool)} of session {self.call.session_id}"
        if self.others:
            others = _calls_text(self.others)
            return f"{what}, which continues when {others} of the same step has its result, too"
        if self.root.server:
            return f"{what}; the server at {self.root.server} runs it"
        if self.is_run:
            return f"{what}; another process runs it"
        return f"{what}; if no process serves it, `asyncagents run --session {self.root.session_id}` does"


def _calls_text(count: int) -> str:
    return "another call" if count == 1 else f"each of {count} other calls"


def read_text(word: str | None) -> str:
    """Return the argument, or stdin for `-`."""
    if word is None:
        raise CliError("RESULT is missing", hint="pass it as an argument, or - to read stdin", code=USAGE)
    if word != "-":
        return word
    raw = sys.stdin.buffer.read(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        raise CliError(f"the result is too long: at most {MOST_BYTES // 2**20} MiB", code=USAGE)
    try:
        return raw.decode().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise CliError("stdin is not UTF-8 text", code=USAGE) from error


async def submit_result(data: Path, arguments: SubmitArguments) -> SubmitOutcome:
    """Store the result. Raises `CliError` if the call is unknown, has another result, or refuses this one."""
    metadata = _metadata(arguments)
    if is_empty(data):
        raise unknown_call(arguments.id)
    log_to_screen(Screen())
    # With the tools of the session's own directory: the call's tool may check the result.
    async with open_runtime(data, serve=False, coding="each directory") as runtime:
        call = await find_pending(runtime, arguments.id)
        try:
            if arguments.failed:
                pending_call = await runtime.async_tools.submit_error(call.id, arguments.text)
            else:
                pending_call = await runtime.async_tools.submit_result(
                    call.id, arguments.text, title=arguments.title, metadata=metadata
                )
        except ResultRefused as error:
            raise CliError(str(error), hint="the call still waits", code=REFUSED) from error
        except Unavailable as error:
            raise await _unavailable_error(runtime, call, error) from error
        except Conflict as error:
            raise CliError(str(error), code=CONFLICT) from error
        except InvalidInput as error:
            raise CliError(str(error), code=USAGE) from error
        submitted = await _read_outcome(runtime, pending_call, before=call.time.completed is not None)
        return replace(submitted, root=replace(submitted.root, server=server_url(data)))


async def find_pending(runtime: Runtime, start: str) -> PendingToolCall:
    """Find a pending call by its id, or a waiting one by a unique prefix."""
    given = start = start.strip()
    if not start.removeprefix(PREFIX):
        raise CliError("the id is empty", hint=PENDING_HINT, code=USAGE)
    if start.startswith(ASK_PREFIXES):
        raise CliError(f"{start!r} is not a pending call", hint=ANSWER_HINT.format(start), code=USAGE)
    start = start if start.startswith(PREFIX) else f"{PREFIX}{start}"
    try:
        return await runtime.async_tools.get(start)
    except NotFound:
        # Ids are ordered: the first two after the prefix show whether it is unique.
        near = await runtime.async_tools.waiting_calls(after=start, limit=2)
    found = [each for each in near if each.id.startswith(start)]
    if not found:
        raise unknown_call(given)
    if len(found) > 1:
        raise CliError(
            f"several calls begin with {start!r}: write more of the id", hint=PENDING_HINT, code=USAGE
        )
    return found[0]


def unknown_call(start: str) -> CliError:
    return CliError(f"there is no pending call with id {start!r}", hint=PENDING_HINT, code=USAGE)


async def _unavailable_error(runtime: Runtime, call: PendingToolCall, error: Unavailable) -> CliError:
    place = (await runtime.session(call.session_id)).directory
    hint = "submit it where the agent runs"
    if not is_trusted(system_environment(), Path(place)):
        hint = f"`asyncagents trust {place}` trusts its tools"
    return CliError(str(error), hint=hint)


def _metadata(arguments: SubmitArguments) -> dict[str, Any] | None:
    if arguments.failed and (arguments.title or arguments.metadata is not None):
        raise CliError("--error excludes --title and --metadata: put everything into RESULT", code=USAGE)
    if arguments.metadata is None:
        return None
    try:
        return msgspec.json.decode(arguments.metadata.encode(), type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise CliError(
            f'--metadata must be a JSON object, such as {{"exit": 0}}: {error}', code=USAGE
        ) from error


async def _read_outcome(runtime: Runtime, pending_call: PendingToolCall, *, before: bool) -> SubmitOutcome:
    root = await runtime.session(await runtime.root_of(pending_call.session_id))
    waits = [
        each
        for each in await runtime.open_calls(pending_call.session_id)
        if each.message_id == pending_call.message_id
    ]
    is_run = await is_tree_running(runtime, root.id)
    return SubmitOutcome(pending_call, before, len(waits), TreeState(root.id, Path(root.directory), is_run))


def print_outcome(outcome: SubmitOutcome, *, as_json: bool) -> None:
    if as_json:
        click.echo(encode(outcome.call))
    else:
        click.echo(outcome.text(), err=True)


def continue_session(outcome: SubmitOutcome, form: str, data_dir: Path | None) -> int:
    return work_on(outcome.root, form, data_dir)
