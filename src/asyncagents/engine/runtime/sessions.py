"""Create, list, change and delete sessions: what `runtime.conversations` does."""

import re
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from asyncagents.domain.clock import Clock, Rng
from asyncagents.domain.conversation.copy import copy_conversation
from asyncagents.domain.conversation.entry import MessagePage
from asyncagents.domain.conversation.mcp_server import NewMcpServer
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.domain.conversation.part import Part
from asyncagents.domain.conversation.session import (
    NewSession,
    Rule,
    Session,
    SessionChanges,
    SessionModel,
    SessionQuery,
    SessionTime,
    Tokens,
    default_title,
    project_id,
    random_slug,
)
from asyncagents.domain.id import Ids, MessageId, PartId, SessionId
from asyncagents.engine.input.content_hash import content_hash
from asyncagents.engine.input.intake import Intake
from asyncagents.engine.input.message import PromptOptions, require_text, validate_rules
from asyncagents.engine.runtime.mcp_servers import GivenMcpServers
from asyncagents.engine.workplace.workplace import Workplace, Workplaces, workplace_at
from asyncagents.errors import InvalidInput
from asyncagents.store.store import Store


class SessionFactory:
    """Builds the `Session` value of a new session."""

    def __init__(self, *, clock: Clock, rng: Rng, ids: Ids, version: str) -> None:
        self._clock = clock
        self._rng = rng
        self.ids = ids
        self._version = version

    def __call__(
        self, title: str | None, parent_id: SessionId | None, directory: str, permission: Sequence[Rule]
    ) -> Session:
        now = self._clock.now()
        title = require_text(title, "a title") if title is not None else None
        return Session(
            id=self.ids.session(),
            slug=random_slug(self._rng),
            project_id=project_id(directory),
            directory=directory,
            parent_id=parent_id,
            title=title or default_title(now, child=parent_id is not None),
            version=self._version,
            time=SessionTime(created=now, updated=now),
            cost=0,
            tokens=Tokens.zero(),
            permission=validate_rules(permission) or None,
        )


_FORK_TITLE = re.compile(r"(.+) \(fork #(\d{1,9})\)", re.DOTALL)


class SessionOptions(Struct, frozen=True, kw_only=True):
    """Options of a new session."""

    directory: str
    title: str | None = None
    parent_id: SessionId | None = None
    agent: str | None = None
    """The agent that answers, until a prompt names another."""
    model: SessionModel | None = None
    metadata: dict[str, Any] | None = None
    permission: Sequence[Rule] = ()
    mcp_servers: Sequence[NewMcpServer] = ()
    """Servers besides those of the directory; only for a session without a parent."""
    key: str | None = None


class Conversations:
    """Get it from a runtime: `runtime.conversations`."""

    def __init__(
        self,
        store: Store,
        workplaces: Workplaces,
        factory: SessionFactory,
        intake: Intake,
        *,
        check: Callable[[ModelRef], None],
        pool: str,
    ) -> None:
        self.mcp_servers = GivenMcpServers(store, workplaces)
        self._store = store
        self._workplaces = workplaces
        self._session_factory = factory
        self._intake = intake
        self._check_model = check
        self._pool = pool

    async def create(self, new: SessionOptions) -> Session:
        """Create a session. Raises `InvalidInput` for an unknown agent or model."""
        servers = self.mcp_servers.check(new.mcp_servers, parent_id=new.parent_id)
        workplace = await workplace_at(self._workplaces, new.directory)
        if new.agent is not None:
            workplace.model(new.agent)
        if new.model is not None:
            self._check_model(_model_ref(new.model))
        info = replace(
            self._session_factory(new.title, new.parent_id, new.directory, new.permission),
            agent=new.agent,
            model=new.model,
            metadata=new.metadata,
            path=_path_in_project(workplace, new.directory),
            mcp_servers=servers,
        )
        given = content_hash(**{**asdict(new), "key": None, "mcp_servers": servers})
        session = await self._store.create_session(
            NewSession(info=info, pool=self._pool, key=new.key, hash=given)
        )
        if servers:
            self.mcp_servers.keep_values(session, new.mcp_servers)
        return session

    async def begin(
        self, new: SessionOptions, text: str, options: PromptOptions
    ) -> tuple[Session, MessageId]:
        """Create a session and admit its first prompt, in one transaction; return at once.

        The same key again, in the same directory, returns the same session and message. With `new.agent` the
        session is that agent's own, also a subagent's. `new.model`, `parent_id` and servers are not used.
        """
        if new.agent is not None:
            (await workplace_at(self._workplaces, new.directory)).model(new.agent)
        info = replace(
            self._session_factory(new.title, None, new.directory, new.permission),
            agent=new.agent,
            metadata=new.metadata,
        )
        first = NewSession(
            info=info,
            pool=self._pool,
            key=f"begin:{info.project_id}:{new.key}" if new.key is not None else None,
            hash=content_hash(title=new.title, permission=tuple(new.permission), agent=new.agent),
        )
        async with self._intake.lock_key(info.project_id, new.key):
            fact = await self._intake.prepare_first_prompt(first, text, key=new.key, options=options)
            session, admitted = await self._store.begin_session(first, fact)
        return session, admitted.message_id

    async def delete(self, session_id: SessionId) -> None:
        """Delete a session and all its descendants."""
        await self._store.delete_session(session_id)
        self.mcp_servers.forget(session_id)

    async def list(self, query: SessionQuery) -> tuple[Session, ...]:
        """List sessions, the last used first."""
        return await self._store.conversation.list_sessions(query)

    async def worktree(self, directory: str) -> str:
        """Return the root of the project that a directory is in."""
        return (await workplace_at(self._workplaces, directory)).worktree or directory

    async def page(
        self, session_id: SessionId, *, before: str | None = None, limit: int | None = None
    ) -> MessagePage:
        """Return the newest `limit` messages before an id, or all of them, as JSON."""
        return await self._store.conversation.page(session_id, before=before, limit=limit)

    async def message(self, session_id: SessionId, message_id: MessageId) -> bytes:
        """Return one message with its parts, as JSON."""
        return await self._store.conversation.message(session_id, message_id)

    async def change(self, session_id: SessionId, new: SessionChanges) -> Session:
        return await self._store.conversation.update_session(session_id, new)

    async def fork(
        self, session_id: SessionId, *, before: MessageId | None = None, key: str | None = None
    ) -> Session:
        """Create a session with a copy of the messages before one, or of all; also while the session works.

        The copy has the session's own rules; its open calls are closed.
        """
        own_key, given = f"fork:{session_id}:{key}" if key is not None else None, content_hash(before=before)
        if own_key is not None:  # a repeat does not read the source, which may be gone by now
            known = await self._store.conversation.session_by_key(own_key, hash=given)
            if known is not None:
                return known
        source = await self._store.conversation.copy_source(session_id, before=before)
        was = source.info
        title = fork_title(was.title)
        info = replace(
            self._session_factory(title, None, was.directory, was.permission or ()),
            agent=was.agent,
            model=was.model,
            metadata=was.metadata,
            tools=was.tools,
            path=was.path,
            mcp_servers=was.mcp_servers,
        )
        copy = copy_conversation(
            source.messages, to=info.id, ids=self._session_factory.ids, now=info.time.created
        )
        pool = (await self._store.control(session_id)).pool  # the same pool: it has the same directory
        new = NewSession(info=info, pool=pool, key=own_key, hash=given)
        fork = await self._store.conversation.copy_session(new, copy)
        self.mcp_servers.share_values(was, fork)
        return fork

    async def remove_message(self, session_id: SessionId, message_id: MessageId) -> None:
        """Remove a message. This and the next two raise `SessionBusy` unless the session rests."""
        await self._store.conversation.remove_message(session_id, message_id)

    async def remove_part(self, session_id: SessionId, message_id: MessageId, part_id: PartId) -> None:
        await self._store.conversation.remove_part(session_id, message_id, part_id)

    async def change_part(self, part: Part) -> Part:
        return await self._store.conversation.update_part(part)


async def complete_session_id(store: Store, start: str) -> SessionId:
    """Return the session id that begins with `start`; `start` itself, as an id, if there is none.

    Raises `InvalidInput` if several ids begin with it.
    """
    start = start if start.startswith("ses_") else f"ses_{start}"
    found = await store.session_ids_with_prefix(start)
    if len(found) > 1 and start not in found:
        raise InvalidInput(f"several sessions begin with {start!r}: write more of the id")
    return SessionId(start) if start in found or not found else found[0]


def fork_title(title: str) -> str:
    """Number a fork's title: `Bees` becomes `Bees (fork #1)`, which becomes `Bees (fork #2)`."""
    before = _FORK_TITLE.fullmatch(require_text(title, "a title"))
    return f"{before[1]} (fork #{int(before[2]) + 1})" if before else f"{title} (fork #1)"


def _model_ref(model: SessionModel) -> ModelRef:
    return ModelRef(provider_id=model.provider_id, model_id=model.id, variant=model.variant)


def _path_in_project(workplace: Workplace, directory: str) -> str:
    """Return a directory's path in its project; empty for the root."""
    here, root = PurePosixPath(directory), PurePosixPath(workplace.worktree or directory)
    return str(here.relative_to(root)) if here != root and here.is_relative_to(root) else ""
