"""`asyncagents show`: print a session's transcript, or its messages as JSON."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import click
from msgspec import Struct

from asyncagents.cli.exit import USAGE, CliError
from asyncagents.cli.inspect.sessions import status_word
from asyncagents.cli.options import (
    data_dir_option,
    data_directory,
    directory_option,
    json_option,
    project_folder,
)
from asyncagents.cli.run.result import OpenWait, failure_text, is_by_person, wait_of
from asyncagents.cli.terminal.screen import dollars, one_line, plain, token_text
from asyncagents.cli.terminal.tool_line import todo_lines, tool_lines
from asyncagents.domain.call.waiting import describe_open_call
from asyncagents.domain.conversation.codec import UnknownPart
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.conversation.part import (
    CompactionPart,
    FilePart,
    Part,
    ReasoningPart,
    SubtaskPart,
    TextPart,
    ToolPart,
    ToolPending,
)
from asyncagents.domain.conversation.session import Session
from asyncagents.domain.conversation.todo import Todo
from asyncagents.domain.shape import encode
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.errors import NotFound


@click.command()
@click.argument("session", required=False)
@json_option
@directory_option
@data_dir_option
def show(*, session: str | None, as_json: bool, directory: Path, data_dir: Path | None) -> None:
    """Print the transcript of a session.

    SESSION is an id, or a unique prefix of one; without it, the newest session of the directory is shown.
    With --json the messages are printed as they are stored.
    """
    import asyncio

    from asyncagents.cli.lookup import with_runtime

    where = project_folder(directory)
    transcript = asyncio.run(
        with_runtime(
            data_directory(data_dir), lambda runtime: read_transcript(runtime, session, where), nothing=None
        )
    )
    if transcript is None:
        raise no_session(session, where)
    print_json(transcript) if as_json else print_transcript(transcript)


MAX_ASIDE_LINES = 6
"""Lines shown of a text that only the model reads; --json has all."""


SUMMARISED = "[the conversation is too long for the model and is summarised]"


class SessionTranscript(Struct, frozen=True, kw_only=True):
    session: Session
    status: str
    entries: tuple[MessageWithParts, ...]
    waits: tuple[OpenWait, ...]
    children: tuple[Session, ...]
    todos: tuple[Todo, ...]


async def read_transcript(runtime: Runtime, start: str | None, directory: Path) -> SessionTranscript | None:
    if start is not None:
        session = await runtime.find_session(start)
    else:
        newest = await runtime.roots(directory, limit=1)
        if not newest:
            return None
        session = newest[0]
    return SessionTranscript(
        session=session,
        status=await status_word(
            runtime,
            session.id,
            await runtime.status(session.id),
            launched=(await runtime.tasks.why(session.id)).code == "tasks",
        ),
        entries=await runtime.messages(session.id),
        waits=tuple([wait_of(describe_open_call(call)) for call in await runtime.open_calls(session.id)]),
        children=await runtime.children(session.id),
        todos=await runtime.todos(session.id),
    )


def no_session(start: str | None, directory: Path) -> CliError:
    hint = "`asyncagents sessions --all` lists them"
    if start is not None:
        return CliError(str(NotFound("session", start)), hint=hint, code=USAGE)
    return CliError(f"there is no session of {directory}", hint=hint, code=USAGE)


def print_json(transcript: SessionTranscript) -> None:
    click.echo(encode(transcript.entries))


def print_transcript(transcript: SessionTranscript) -> None:
    session = transcript.session
    click.echo(one_line(session.title))
    about = (session.id, session.directory, transcript.status, f"{token_text(session.tokens)} tokens")
    click.echo("  ".join((*about, dollars(session.cost))))
    for entry in transcript.entries:
        click.echo()
        click.echo(_speaker(entry))
        for line in _lines(entry):
            click.echo(f"  {line}".rstrip())
    if transcript.todos:
        click.echo()
        for todo in todo_lines(transcript.todos):
            click.echo(plain(todo.text))
    for wait in transcript.waits:
        click.echo(f"\nwaiting: {one_line(wait.what)}, {wait.ask or wait.call}")
    for child in transcript.children:
        click.echo(f"\nstarted: {child.id}  {one_line(child.title)}")


def _speaker(entry: MessageWithParts) -> str:
    info = entry.info
    at = datetime.fromtimestamp(info.time.created / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    if isinstance(info, AssistantMessage):
        name = "summary" if info.summary else info.agent
        return f"{name} ({info.provider_id}/{info.model_id}), {at}"
    return f"you, {at}" if is_by_person(entry) else f"asyncagents, {at}"


def _lines(entry: MessageWithParts) -> Iterator[str]:
    for part in entry.parts:
        yield from _part_lines(part)
    if isinstance(entry.info, AssistantMessage) and entry.info.error is not None:
        yield f"error: {failure_text(entry.info.error)}"


def _system_lines(lines: list[str]) -> Iterator[str]:
    """Render the first lines of a text that only the model reads, such as an attached file."""
    yield from (f"[{line}]" for line in lines[:MAX_ASIDE_LINES])
    if len(lines) > MAX_ASIDE_LINES:
        yield f"[… {len(lines) - MAX_ASIDE_LINES} more lines]"


def _part_lines(part: Part | UnknownPart) -> Iterator[str]:
    match part:
        case TextPart(text=text, synthetic=True) if text:
            yield from _system_lines(plain(text).splitlines())
        case TextPart(text=text) if text:
            yield from plain(text).splitlines()
        case CompactionPart() | SubtaskPart() | FilePart():
            yield _marker_line(part)
        case ReasoningPart(text=text) if text:
            yield from (f"| {line}" for line in plain(text).splitlines())
        case ToolPart(state=ToolPending()):
            yield f"> {part.tool}, not started"
        case ToolPart():
            yield from (f"> {plain(line.text)}" for line in tool_lines(part))
        case _:
            pass


def _marker_line(part: CompactionPart | SubtaskPart | FilePart) -> str:
    match part:
        case CompactionPart(auto=auto):
            return SUMMARISED if auto else "/compact"
        case SubtaskPart():
            return f"[task for {one_line(part.agent)}: {one_line(part.description)}]"
        case FilePart(filename=name, mime=mime):
            return f"[file {one_line(name or 'without a name')}, {mime}]"
