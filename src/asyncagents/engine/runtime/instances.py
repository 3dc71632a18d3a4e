"""Dispose of the cached state of directories, so that their files are read again."""

from typing import ClassVar

from asyncagents.domain.conversation.session import project_id
from asyncagents.domain.shape import Shape
from asyncagents.engine.event.global_stream import Broadcast, SessionLocation
from asyncagents.engine.workplace.workplace import Workplaces

DISPOSED, ALL_DISPOSED = "server.instance.disposed", "global.disposed"
GLOBAL_DIRECTORY = "global"
"""Directory of events that belong to none."""


class InstanceDisposed(Shape, frozen=True, kw_only=True):
    schema_name: ClassVar[str] = "Disposed"
    directory: str


class Instances:
    """Get it from a runtime: `runtime.instances`. Running sessions are not affected."""

    def __init__(self, workplaces: Workplaces, broadcast: Broadcast) -> None:
        self._workplaces = workplaces
        self._broadcast = broadcast

    def dispose(self, directory: str) -> None:
        self._workplaces.forget(directory)
        where = SessionLocation(directory, project_id(directory))
        self._broadcast.announce(DISPOSED, InstanceDisposed(directory=directory), location=where)

    def dispose_all(self) -> None:
        for directory in sorted({*self._workplaces.known_directories, *self._broadcast.directories}):
            self.dispose(directory)
        self._broadcast.announce(ALL_DISPOSED, {}, location=SessionLocation(GLOBAL_DIRECTORY, ""))
