"""Reads sessions and the tasks below them as a tree."""

import logging
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from asyncagents.cli.lookup import find_session
from asyncagents.domain.conversation.session import Session, Tokens
from asyncagents.domain.id import SessionId
from asyncagents.domain.shape import encode
from asyncagents.domain.task.task import LIVE
from asyncagents.domain.task.view import BackgroundTask
from asyncagents.domain.why import Why, WhyCode
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.errors import Damaged, NotFound

RESTING: frozenset[WhyCode] = frozenset(
    {"idle", "held", "aborted", "blocked", "crash_loop", "failed", "unreadable"}
)
STATES: dict[WhyCode, str] = {
    "working": "streaming",
    "no_worker": "left",
    "permission": "asks",
    "question": "asks",
    "task": "waiting",
    "tasks": "waiting",
    "async": "waiting",
    "wait": "waiting",
}
"""States of a tree for why codes that people read under another word."""


logger = logging.getLogger(__name__)


class TaskScope(Struct, frozen=True):
    """One session; or (`session` None) those of a directory, (both None) of all directories."""

    session: str | None
    directory: Path | None
    limit: int


class TaskNode(Struct, frozen=True, kw_only=True):
    """A session; `task` if another session launched it; `why` unless it has ended."""

    session: Session
    task: BackgroundTask | None = None
    why: Why | None = None
    below: tuple["TaskNode", ...] = ()

    @property
    def has_ended(self) -> bool:
        """Return whether the task itself has ended; tasks below it may still work."""
        return self.task is not None and self.task.status not in LIVE

    @property
    def state(self) -> str:
        """Return the task's final status, or what the session does, in one word."""
        if self.task is not None and self.has_ended:
            return self.task.status
        assert self.why is not None, "a node that has not ended has a reason"
        return STATES.get(self.why.code, self.why.code)

    @property
    def at_work(self) -> bool:
        """Return whether the session, or any below it, has work left."""
        mine = self.why is not None and (self.task is not None or self.why.code not in RESTING)
        return mine or any(each.at_work for each in self.below)


NONE: tuple[TaskNode, ...] = ()


async def read_forest(runtime: Runtime, scope: TaskScope) -> tuple[TaskNode, ...]:
    """Read the trees that have tasks, the newest last."""
    if scope.session is not None:
        return (await read_tree(runtime, await find_session(runtime, scope.session)),)
    found = {root.id: root for root in await runtime.roots(scope.directory, limit=scope.limit)}
    live = await runtime.tasks.list(live=True)  # however old their trees are
    for root_id in {
        await runtime.root_of(parent_id) for parent_id in {task.parent_session_id for task in live}
    }:
        root = await runtime.session(root_id)
        if scope.directory is None or root.directory == str(scope.directory):
            found[root.id] = root
    roots = sorted(found.values(), key=lambda root: root.time.updated)
    trees = [await read_tree(runtime, root) for root in roots]
    return tuple(each for each in trees if each.below)


async def read_tree(runtime: Runtime, session: Session) -> TaskNode:
    """Read a session with all below it; `why` is not read for ended tasks."""
    tasks = {task.session_id: task for task in await runtime.tasks.list(session.id)}
    below: dict[SessionId, list[SessionId]] = {}
    for task in tasks.values():
        below.setdefault(task.parent_session_id, []).append(task.session_id)
    return await _read_node(runtime, session, tasks, below)


async def _read_node(
    runtime: Runtime,
    session: Session,
    tasks: dict[SessionId, BackgroundTask],
    below: dict[SessionId, list[SessionId]],
) -> TaskNode:
    children = []
    for child_id in below.get(session.id, ()):
        try:
            child = await runtime.session(child_id)
        except NotFound:  # it was deleted just now
            continue
        except Damaged as error:  # it hides no other
            logger.warning("task=%s action=show is damaged: %s", child_id, error)
            continue
        children.append(await _read_node(runtime, child, tasks, below))
    task = tasks.get(session.id)
    ended = task is not None and task.status not in LIVE
    why = None if ended else await runtime.tasks.why(session.id)
    return TaskNode(session=session, task=task, why=why, below=tuple(children))


async def is_tree_running(runtime: Runtime, root_id: SessionId) -> bool:
    """Return whether a living process runs any session of the tree: that process serves all of it."""
    return any([await runtime.is_running(each) for each in await runtime.statuses(root_id)])


def as_builtins(node: TaskNode) -> dict[str, Any]:
    """Return the JSON form of a tree; equal as long as nothing has changed."""
    session = node.session
    return {
        "session": session.id,
        "title": session.title,
        "agent": session.agent,
        "state": node.state,
        "why": node.why.code if node.why else None,
        "tokens": msgspec.json.decode(encode(session.tokens or Tokens.zero())),
        "cost": session.cost or 0,
        "task": msgspec.json.decode(encode(node.task)) if node.task else None,
        "tasks": [as_builtins(each) for each in node.below],
    }
