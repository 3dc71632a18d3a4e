"""`asyncagents answer`: answer an ask by its id, then continue its session."""

from pathlib import Path
from typing import cast

import click
from msgspec import Struct
from msgspec.structs import replace

from asyncagents.cli.ask.reply import parse_reply
from asyncagents.cli.exit import USAGE, CliError
from asyncagents.cli.inspect.read_task_tree import is_tree_running
from asyncagents.cli.lookup import with_runtime
from asyncagents.cli.options import data_dir_option, data_directory, form_option
from asyncagents.cli.run.arguments import Format, RunArguments
from asyncagents.cli.run.command import execute_run
from asyncagents.cli.terminal.screen import Screen, log_to_screen
from asyncagents.domain.call.call import Always, Call, Once, Reject, Reply
from asyncagents.domain.call.pending_tool import PendingToolCall
from asyncagents.domain.call.reply import APPROVE
from asyncagents.domain.id import SessionId
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.errors import Conflict, InvalidInput, NotFound
from asyncagents.server.discovery import find_worker


@click.command()
@click.argument("id")
@click.argument("words", metavar="once|always|approve|reject|TEXT...", nargs=-1, required=True)
@click.option(
    "--message", metavar="TEXT", default="", help="With reject: tell the model why; its turn goes on."
)
@click.option("--by", metavar="NAME", default="", help="Who answers; stored with the answer.")
@click.option("--input", "given", metavar="JSON", help="With once: approve these arguments instead.")
@click.option("--detach", is_flag=True, help="Store the answer; do not run the session.")
@form_option
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@data_dir_option
@click.pass_context
def answer(  # noqa: PLR0913  its options
    context: click.Context,
    /,
    *,
    id: str,
    words: tuple[str, ...],
    message: str,
    by: str,
    given: str | None,
    detach: bool,
    form: str,
    as_json: bool,
    data_dir: Path | None,
) -> None:
    """Answer an open ask and continue its session.

    ID is an id that `asyncagents asks` lists, or a unique prefix of one. A permission takes once, always or
    reject. A question takes its answer, the number of an option or a text, one argument for each question;
    reject refuses to answer. An approval takes approve or reject, either with a --message.

    If no process runs the session, this one runs its tree until it rests, as `asyncagents run --session`
    does, with the same exit codes; if a server works on this data, its progress is shown.
    Exit code 2: the id is unknown, or has another answer already.
    """
    import asyncio

    reply = AnswerArguments(id, words, message=message, input=given, by=by)
    done = asyncio.run(give_answer(data_directory(data_dir), reply))
    if detach or done.is_left_to_others:
        click.echo(done.text(detach=detach), err=True)
        context.exit(0)
    context.exit(continue_tree(done, "json" if as_json else form, data_dir))


PREFIXES = ("per_", "que_", "tool_")
ASKS_HINT = "`asyncagents asks --all` lists what is open"


class AnswerArguments(Struct, frozen=True):
    """The arguments of `asyncagents answer`."""

    id: str
    words: tuple[str, ...]
    message: str = ""
    input: str | None = None
    by: str = ""


class TreeState(Struct, frozen=True):
    """The tree of a session that was answered, and which process runs it."""

    session_id: SessionId
    """The root of the tree."""
    directory: Path
    is_run: bool
    server: str = ""
    """URL of the server that runs all sessions of this data directory; empty if there is none."""

    @property
    def is_left_to_others(self) -> bool:
        """Return whether a process runs the tree that is not a server and cannot show its progress."""
        return self.is_run and not self.server

    def text(self, *, detach: bool) -> str:
        if self.server:
            return f"answered; the server at {self.server} runs session {self.session_id}"
        if self.is_run:
            return f"answered; another process runs session {self.session_id}"
        assert detach, "without --detach this process runs the tree"
        return f"answered; `asyncagents run --session {self.session_id}` continues it"


async def give_answer(data: Path, arguments: AnswerArguments) -> TreeState:
    """Store the answer. Raises `CliError` if the id is unknown, answered differently, or not an ask."""
    found = await with_runtime(data, lambda runtime: _give_answer(runtime, arguments), nothing=None)
    if found is None:
        raise _unknown_ask(arguments.id)
    return replace(found, server=server_url(data))


def server_url(data: Path) -> str:
    """Return the URL of the server that runs all sessions of this data; empty if there is none."""
    worker = find_worker(data)
    return worker.url if worker is not None else ""


async def _give_answer(runtime: Runtime, arguments: AnswerArguments) -> TreeState | None:
    call = await _find_ask(runtime, arguments.id)
    try:
        if call is not None and call.open is not None:
            reply = parse_reply(call.open, arguments.words, message=arguments.message, given=arguments.input)
            call = await runtime.answer(call.ask_id or "", reply, by=arguments.by)
        else:  # it may have been answered before: repeating the same answer is not an error
            call = await runtime.answer(arguments.id, _reply_from_words(arguments), by=arguments.by)
    except NotFound as error:
        raise _unknown_ask(arguments.id) from error
    except (Conflict, InvalidInput) as error:
        raise CliError(
            str(error), hint=ASKS_HINT if isinstance(error, Conflict) else "", code=USAGE
        ) from error
    root = await runtime.session(await runtime.root_of(call.session_id))
    return TreeState(root.id, Path(root.directory), await is_tree_running(runtime, root.id))


async def _find_ask(runtime: Runtime, start: str) -> Call | None:
    """Find an open ask by its id or a prefix; if its call also takes a result, by the pending id too."""
    asks = [each.call for each in await runtime.asks()]
    found = [call for call in asks if call.ask_id and _begins(call.ask_id, start)]
    found = found or [call for call in asks if not call.only_asks and _begins(call.id, start)]
    if len(found) > 1 and all(start not in (call.ask_id, call.id) for call in found):
        raise CliError(f"several asks begin with {start!r}: write more of the id", hint=ASKS_HINT, code=USAGE)
    if found:
        return next((call for call in found if start in (call.ask_id, call.id)), found[0])
    if start not in PREFIXES and start and (waits := await _find_pending(runtime, start)) is not None:
        raise CliError(f"{waits.id} waits for a result of {waits.tool}, not for a person", code=USAGE)
    return None


async def _find_pending(runtime: Runtime, start: str) -> PendingToolCall | None:
    """Find a waiting call by its id or a prefix, with one indexed read: there may be a million."""
    found: tuple[PendingToolCall, ...]
    try:
        found = (await runtime.async_tools.get(start),)
    except NotFound:
        found = await runtime.async_tools.waiting_calls(after=start, limit=1)
    return next((call for call in found if call.status == "waiting" and call.id.startswith(start)), None)


def _begins(ask_id: str, start: str) -> bool:
    """Match an id with or without its type prefix; a bare type prefix matches no id."""
    if any(prefix.startswith(start) for prefix in PREFIXES):
        return False
    return ask_id.startswith(start) or ask_id.partition("_")[2].startswith(start)


def _reply_from_words(arguments: AnswerArguments) -> Reply | list[list[str]]:
    match arguments.words:
        case ("once",) if arguments.input is None:
            return Once()
        case ("always",):
            return Always()
        case ("reject",):
            return Reject(arguments.message)
        case ("approve",):
            return [[APPROVE, arguments.message] if arguments.message else [APPROVE]]
        case _:
            return [[word] for word in arguments.words]


def _unknown_ask(start: str) -> CliError:
    return CliError(str(NotFound("ask", start)), hint=ASKS_HINT, code=USAGE)


def continue_tree(done: TreeState, form: str, data_dir: Path | None) -> int:
    """Do what `run --session` does, in the session's own directory. Returns the exit code."""
    screen = Screen()
    log_to_screen(screen)
    directory = done.directory if done.directory.is_dir() else Path.cwd()
    arguments = RunArguments(
        session=done.session_id, directory=directory, data_dir=data_dir, format=cast("Format", form)
    )
    return execute_run(arguments, screen)
