"""The tasks of one MCP client: sessions of one project, which run in the server of the data directory."""

from collections.abc import Sequence
from os.path import realpath

from msgspec import Struct

from asyncagents.client.client import Client
from asyncagents.client.json_client import fresh_key
from asyncagents.client.server_link import ServerLink
from asyncagents.domain.call.call import Reply
from asyncagents.domain.call.waiting import WaitingCall
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.conversation.session import Session
from asyncagents.domain.id import SessionId
from asyncagents.errors import InvalidInput, NotFound
from asyncagents.mcp_server.view import AT_REST, TaskView, ViewStatus, describe_task

METADATA_KEY = "mcp"
READ_MESSAGES = 20
"""The newest messages, among which the last answer is looked for."""
MOST_KEY = 180
MOST_SCANNED = 500
"""Sessions that are looked through for those of one status."""


class Launch(Struct, frozen=True, kw_only=True):
    """A new task. The same `key` again launches nothing, and returns the first task."""

    prompt: str
    agent: str | None = None
    description: str | None = None
    key: str | None = None


class FoundTask(Struct, frozen=True):
    session: Session
    root: Session


class AgentTasks:
    """Launches, reads and changes tasks; a method returns when its effect is durable.

    Only sessions of trees that began in `directory` are visible.
    """

    def __init__(
        self, server: ServerLink, directory: str, *, client_name: str = "mcp", may_allow: bool = False
    ) -> None:
        """`may_allow`: the client's model may answer requests for permission."""
        self.server = server
        self.directory = realpath(directory)  # as the server names it
        self.client_name = client_name
        self.may_allow = may_allow

    async def launch(self, new: Launch) -> TaskView:
        key = check_key(new.key)

        async def begin(client: Client) -> Session:
            if new.agent is not None:
                await self._check_agent(client, new.agent)
            return await client.conversations.begin(
                new.prompt,
                agent=new.agent,
                directory=self.directory,
                title=new.description or None,
                metadata={METADATA_KEY: {"client": self.client_name}},
                key=key,
            )

        session = await self.server.call(begin)
        return await self.view(session.id)

    async def _check_agent(self, client: Client, name: str) -> None:
        agents = await client.catalog.agents(self.directory)
        known = [each.name for each in agents if not each.hidden]
        if name not in known:
            raise InvalidInput(f"there is no agent {name!r} here: use one of {', '.join(known)}")

    async def find(self, start: str) -> FoundTask:
        """Find a task by its id or an unambiguous beginning of it. Raises `NotFound` for those of others."""
        if not start or not start.isprintable() or "/" in start:
            raise InvalidInput(f"{start[:80]!r} is not the id of a task: use one that a tool has returned")

        async def read(client: Client) -> FoundTask:
            state = await client.conversations.find(start)
            session = state.session
            root = session if state.root_id == session.id else await client.session(state.root_id)
            return FoundTask(session, root)

        found = await self.server.call(read)
        if found.root.directory != self.directory:
            raise NotFound("task of this project", start)
        return found

    async def view(self, start: str) -> TaskView:
        return await self.read_view(await self.find(start))

    async def read_view(self, found: FoundTask) -> TaskView:
        return await self.server.call(lambda client: _read_view(client, found))

    async def list(self, *, limit: int, status: ViewStatus | None = None) -> tuple[TaskView, ...]:
        """List the newest root sessions of the project, newest first, without results."""

        async def read(client: Client) -> tuple[TaskView, ...]:
            found: list[TaskView] = []
            roots = await client.roots(self.directory, limit=limit if status is None else MOST_SCANNED)
            waiting = await client.asks() if roots else ()
            for root in roots:
                view = describe_task(root, await client.tasks.why(root.id), _below(waiting, root.id), None)
                if status in (None, view.status):
                    found.append(view)
                if len(found) == limit:
                    break
            return tuple(found)

        return await self.server.call(read)

    async def asks(self, start: str) -> tuple[WaitingCall, ...]:
        """List the open asks of a task and of all tasks below it, oldest first."""
        found = await self.find(start)
        return await self.server.call(lambda client: _read_asks(client, found))

    async def find_ask(self, ask_id: str) -> WaitingCall:
        """Find an open ask of a task of this project."""
        for waiting in await self.server.call(lambda client: client.asks()):
            if waiting.call.ask_id == ask_id and waiting.lineage[0].directory == self.directory:
                return waiting
        raise NotFound("open ask", ask_id)

    async def answer(self, ask_id: str, reply: Reply | str | Sequence[Sequence[str]]) -> None:
        await self.server.call(lambda client: client.answer(ask_id, reply, by=self.client_name))

    async def resume(self, start: str, prompt: str, *, key: str | None = None) -> TaskView:
        """Send a follow-up: an ended task works again, a live one reads it before its next step."""
        found, key = await self.find(start), check_key(key)

        async def send(client: Client) -> None:
            if found.session.parent_id is None:
                await client.send(found.session.id, prompt, key=key)
            else:
                await client.tasks.resume(found.session.id, prompt, key=key)

        await self.server.call(send)
        return await self.view(found.session.id)

    async def fork(self, start: str, prompt: str, *, key: str | None = None) -> TaskView:
        """Launch a task that begins with a copy of the conversation of another one."""
        found, key = await self.find(start), check_key(key)

        async def copy(client: Client) -> SessionId:
            session = await client.conversations.fork(found.session.id, key=f"{key}:fork")
            await client.send(session.id, prompt, key=f"{key}:prompt")
            return session.id

        return await self.view(await self.server.call(copy))

    async def cancel(self, start: str, *, key: str | None = None) -> TaskView:
        """Cancel a task with everything that it launched."""
        found, key = await self.find(start), check_key(key)

        async def stop(client: Client) -> bool:
            if found.session.parent_id is None:
                return await client.abort(found.session.id, key=key)
            return await client.tasks.cancel(found.session.id, key=key)

        await self.server.call(stop)
        return await self.view(found.session.id)

    async def messages(self, start: str, *, limit: int) -> tuple[MessageWithParts, ...]:
        """List the newest messages of a task, oldest first."""
        found = await self.find(start)
        return await self.server.call(lambda client: client.messages(found.session.id, limit=limit))


def check_key(key: str | None) -> str:
    """Return the key, or a fresh one. Raises `InvalidInput` for one that HTTP cannot carry."""
    if key is None:
        return fresh_key()
    if not key or len(key) > MOST_KEY or not (key.isascii() and key.isprintable()):
        raise InvalidInput(f"key must have 1 to {MOST_KEY} printable ASCII characters")
    return key


async def _read_view(client: Client, found: FoundTask) -> TaskView:
    """Read the view. The reason is read again after the messages, as a prompt may have come meanwhile."""
    session_id = found.session.id
    why, before = await client.tasks.why(session_id), None
    answer: MessageWithParts | None = None
    while why.code in AT_REST and why.code != before:
        before = why.code
        messages = await client.messages(session_id, limit=READ_MESSAGES)
        answers = [each for each in messages if isinstance(each.info, AssistantMessage)]
        answer = answers[-1] if answers else None
        why = await client.tasks.why(session_id)
    return describe_task(found.session, why, await _read_asks(client, found), answer)


async def _read_asks(client: Client, found: FoundTask) -> tuple[WaitingCall, ...]:
    return _below(await client.asks(found.root.id), found.session.id)


def _below(waiting: tuple[WaitingCall, ...], session_id: SessionId) -> tuple[WaitingCall, ...]:
    """Return the asks of a session and of those below it."""
    return tuple(each for each in waiting if any(above.id == session_id for above in each.lineage))
