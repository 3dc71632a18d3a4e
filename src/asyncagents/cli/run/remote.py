"""Runs a session in a server: the `Host` of a run, over HTTP."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Unpack

from asyncagents.cli.exit import USAGE, CliError, first_error
from asyncagents.cli.find_server import TOKEN_VARIABLE, TargetServer
from asyncagents.cli.run.arguments import RunArguments
from asyncagents.cli.run.choose import AgentChoice, parse_model
from asyncagents.cli.run.follow import deleted_error
from asyncagents.cli.run.job import RunJob, run_with_signals
from asyncagents.cli.run.result import RunLocation
from asyncagents.cli.terminal.screen import Screen
from asyncagents.cli.terminal.signals import Signals
from asyncagents.client.client import Client, ClientPromptOptions, open_client
from asyncagents.client.tasks import ClientTasks
from asyncagents.client.transport import ServerUnreachable
from asyncagents.domain.call.call import Reply
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.session import Rule, Session
from asyncagents.domain.conversation.status import Idle, Status
from asyncagents.domain.event import Event, SessionStatus
from asyncagents.domain.http_shapes import SentFile
from asyncagents.domain.id import MessageId, SessionId
from asyncagents.engine.input.compose import File
from asyncagents.engine.input.message import PromptOptions
from asyncagents.errors import NotFound, RequestError, StoreError, Unauthorized, Unavailable
from asyncagents.llm.model import Attachment
from asyncagents.tools.project.prompt_sources import detect_mime

MOST_BYTES = 7 * 1024 * 1024
"""Limit of all files together: base64 adds a third, and the server limits the request body."""


def read_attachments(paths: Iterable[Path]) -> list[Attachment]:
    """Read files as attachments. Raises `CliError` if they are too large or of an unsupported type."""
    found, size = [], 0
    for path in paths:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES - size + 1)
        size += len(data)
        if size > MOST_BYTES:
            raise CliError(
                f"{path}: files of more than {MOST_BYTES // 2**20} MiB in total cannot be sent",
                hint="attach a part of it, or a smaller file",
                code=USAGE,
            )
        found.append(_attachment(path, data))
    return found


def _attachment(path: Path, data: bytes) -> Attachment:
    mime = detect_mime(path.name, data)
    if mime is None:
        raise CliError(
            f"{path} is neither text nor an image nor a PDF",
            hint="if it is text, save it as UTF-8",
            code=USAGE,
        )
    return Attachment(mime, f"data:{mime};base64,{b64encode(data).decode()}", path.name)


EVENT_LAG_SECONDS = 10.0
"""Max wait for events to catch up with the stored state at the end; if none are lost it takes no time."""
SILENCE_NOTE_SECONDS = 4
"""After this much silence a note says that the server does not answer."""
UNSERVED_SECONDS = 3.0
"""A ready session may wait this long for a process before the reason is looked up."""


class RemoteHost:
    """A run's `Host` that is a server.

    `own`: the server works on this data directory, so on this machine, and can read its files.
    `placed`: --directory was given; otherwise a foreign server uses its own directory.
    """

    def __init__(self, client: Client, screen: Screen, *, own: bool, placed: bool) -> None:
        self._client = client
        self._screen = screen
        self._own = own
        self._placed = own or placed
        self._root = asyncio.get_running_loop().create_future()
        self._statuses: dict[SessionId, Status] = {}
        """The last status event of each session."""
        self._behind_since: float | None = None
        self._unserved_since: float | None = None
        self._prompted_id: SessionId | None = None
        """The session that was prompted: events of it will come."""
        self.session_id: SessionId | None = None
        """Set once there is a session to continue."""
        self.trouble: StoreError | None = None

    @property
    def tasks(self) -> ClientTasks:
        return self._client.tasks

    async def begin(
        self,
        text: str,
        *,
        title: str | None,
        directory: Path,
        key: str | None,
        permission: Sequence[Rule],
        **options: Unpack[PromptOptions],
    ) -> tuple[Session, MessageId]:
        session, message_id = await self._client.begin(
            text,
            title=title,
            directory=directory if self._placed else None,
            key=key,
            permission=permission,
            **self._client_options(options),
        )
        self.session_id = self._prompted_id = session.id
        return session, message_id

    async def send(
        self, session_id: SessionId, text: str, *, key: str | None, **options: Unpack[PromptOptions]
    ) -> MessageId:
        message_id = await self._client.send(session_id, text, key=key, **self._client_options(options))
        self.session_id = self._prompted_id = session_id
        return message_id

    def _client_options(self, options: PromptOptions) -> ClientPromptOptions:
        sent = ClientPromptOptions(agent=options.get("agent"), model=options.get("model"))
        files = options.get("files") or ()
        if files:
            sent["files"] = [str(file) for file in files] if self._own else _read_files(files)
        return sent

    def serve_tree(self, root_id: SessionId) -> None:
        self.session_id = self.session_id or root_id
        if not self._root.done():
            self._root.set_result(root_id)

    @asynccontextmanager
    async def events(self) -> AsyncIterator[AsyncIterator[Event]]:
        """Stream the events of the tree passed to `serve_tree`, from now on."""
        with self._note_if_silent():
            cursor = await self._client.cursor()
        async with aclosing(self._stream_events(cursor)) as events:
            yield events

    async def _stream_events(self, cursor: str) -> AsyncGenerator[Event, None]:
        root_id = await self._root
        async with self._client.events(root_id, tree=True, after=cursor) as events:
            async for event in events:
                if isinstance(event, SessionStatus):
                    self._statuses[event.session_id] = event.status
                yield event

    async def at_work(self, root_id: SessionId) -> bool:
        """Return whether the tree works, or its events still lag behind (for `EVENT_LAG_SECONDS` at most)."""
        try:
            return await self._is_at_work(root_id)
        except NotFound as error:
            if not self._root.done():
                raise
            raise deleted_error(root_id) from error  # the deletion event may come later

    async def _is_at_work(self, root_id: SessionId) -> bool:
        with self._note_if_silent():
            state = await self._client.state(root_id)
        self.trouble = StoreError(state.trouble) if state.trouble is not None else None
        if state.at_work or not self._root.done():
            await self._warn_unserved(root_id, waits=state.at_work and not state.is_run)
            self._behind_since = None
            return state.at_work
        return await self._events_lag(root_id)

    async def _warn_unserved(self, root_id: SessionId, *, waits: bool) -> None:
        """Warn if the session waits because no worker serves it or its server has no model."""
        now = asyncio.get_running_loop().time()
        since = self._unserved_since if waits else None
        self._unserved_since = since if since is not None else now
        if not waits or since is None or now - since < UNSERVED_SECONDS:
            return
        self._unserved_since = now
        why = await self._client.tasks.why(root_id)
        if why.code in ("no_worker", "no_model"):
            self._screen.warn(why.sentence)

    async def _events_lag(self, root_id: SessionId) -> bool:
        now = asyncio.get_running_loop().time()
        self._behind_since = self._behind_since or now
        if now - self._behind_since > EVENT_LAG_SECONDS:
            return False
        statuses = await self._client.statuses(root_id)
        return (self._prompted_id is not None and self._prompted_id not in self._statuses) or any(
            type(seen) is not type(statuses.get(session_id, Idle()))
            for session_id, seen in self._statuses.items()
        )

    @contextmanager
    def _note_if_silent(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        words = f"no answer from the server for {SILENCE_NOTE_SECONDS} s; waiting for it to come back"
        timer = loop.call_later(SILENCE_NOTE_SECONDS, self._screen.note, words)
        try:
            yield
        finally:
            timer.cancel()

    async def answer(self, ask_id: str, reply: Reply) -> object:
        return await self._client.answer(ask_id, reply)

    async def abort(self, session_id: SessionId, *, seconds: float) -> bool:
        return await self._client.abort(session_id, seconds=seconds)

    async def find_session(self, start: str) -> Session:
        found = await self._client.find_session(start)
        self.session_id = found.id
        return found

    async def roots(self, directory: Path, *, limit: int) -> tuple[Session, ...]:
        if self._placed:
            return await self._client.roots(directory, limit=limit)
        return await self._client.sessions(limit=limit, roots=True)

    async def session(self, session_id: SessionId) -> Session:
        return await self._client.session(session_id)

    async def root_of(self, session_id: SessionId) -> SessionId:
        return await self._client.root_of(session_id)

    async def children(self, session_id: SessionId) -> tuple[Session, ...]:
        return await self._client.children(session_id)

    async def messages(self, session_id: SessionId, *, limit: int) -> tuple[MessageWithParts, ...]:
        return await self._client.messages(session_id, limit=limit)

    async def answer_to(self, message_id: MessageId) -> MessageWithParts | None:
        return await self._client.answer_to(message_id)

    async def statuses(self, root_id: SessionId) -> dict[SessionId, Status]:
        return await self._client.statuses(root_id)

    async def is_running(self, session_id: SessionId) -> bool:
        return await self._client.is_run(session_id)


def _read_files(files: Sequence[File]) -> list[SentFile]:
    read = read_attachments(Path(str(file)) for file in files)
    return [SentFile(mime=each.mime, url=each.url, filename=each.filename) for each in read]


RECONNECT_SECONDS = 10.0
"""Time to reconnect before the server counts as lost."""


async def run_remotely(arguments: RunArguments, server: TargetServer, data: Path, screen: Screen) -> int:
    """Run in the server; return the exit code. Model and agent are checked by the server, not here."""
    choice = AgentChoice(arguments.agent, parse_model(arguments.model))
    location = RunLocation(server.url, far=not server.own)
    with Signals() as signals:
        if location.far:
            await _check_reachable(server)
        if arguments.format == "text":
            screen.note(f"working in the server at {server.url}")
        async with _open_client(server, data) as client:
            host = RemoteHost(client, screen, own=server.own, placed=arguments.placed)
            job = RunJob(host, arguments, lambda session: choice, screen=screen, location=location)
            try:
                return await run_with_signals(job, signals)
            except Exception as error:
                screen.end_line()
                raise _explain_error(first_error(error), location, host.session_id) from error


@asynccontextmanager
async def _open_client(server: TargetServer, data: Path) -> AsyncIterator[Client]:
    """Connect by data directory if the server is our own, so that it is found again at a new address."""
    if server.own:
        async with open_client(data=data, patience=RECONNECT_SECONDS) as client:
            yield client
    else:
        token = server.token.reveal() if server.token is not None else None
        async with open_client(server.url, token=token, patience=RECONNECT_SECONDS) as client:
            yield client


async def _check_reachable(server: TargetServer) -> None:
    """Fail at once, without reconnecting, if no server answers at the given address."""
    try:
        async with open_client(server.url, patience=0) as client:
            await client.health()
    except Unauthorized as error:  # for example a host name that the server does not accept
        raise CliError(f"the server at {server.url} refuses: {error}", code=USAGE) from error
    except (Unavailable, RequestError) as error:
        raise CliError(
            f"no asyncagents server answers at {server.url}: {error}",
            hint="`asyncagents serve` starts one, and prints its address",
        ) from error


def _explain_error(
    error: BaseException, location: RunLocation, session_id: SessionId | None
) -> BaseException:
    match error:
        case Unavailable() if not isinstance(error, ServerUnreachable):
            again = (
                f"`{location.resume_command(session_id)}` continues what was accepted" if session_id else ""
            )
            return CliError(f"the server at {location.url} refuses: {error}", hint=again)
        case Unavailable() if session_id is not None:
            return CliError(
                f"the server at {location.url} is lost: {error}",
                hint=f"what was accepted is stored; `{location.resume_command(session_id)}` continues it",
            )
        case Unavailable():
            hint = "`asyncagents sessions` shows whether the prompt was stored"
            return CliError(
                f"the server at {location.url} is lost: {error}", hint="" if location.far else hint
            )
        case NotFound() if location.far:
            return CliError(f"{error} at {location.url}", code=USAGE)
        case Unauthorized():
            return CliError(
                f"the server at {location.url} refuses: {error}",
                hint=f"give its token as --token, or in {TOKEN_VARIABLE}",
                code=USAGE,
            )
        case _:
            return error
