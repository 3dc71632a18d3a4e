"""What was answered with "always", as people look at it and take it back."""

from pathlib import Path

from asyncagents.domain.approval import Approval
from asyncagents.domain.session import project_id
from asyncagents.errors import InvalidInput
from asyncagents.store.approval import ApprovalStore

MOST = 1_000


class Approvals:
    """Of a runtime: `runtime.approvals`. What is withdrawn is asked for again at the next call."""

    def __init__(self, store: ApprovalStore) -> None:
        self._store = store

    async def list(self, directory: str | Path | None = ".", *, limit: int = MOST) -> tuple[Approval, ...]:
        """Of the project in a directory or (None) of all, the newest first."""
        if not 0 < limit <= MOST:
            raise InvalidInput(f"limit is from 1 to {MOST}")
        return await self._store.list(None if directory is None else _project(directory), limit=limit)

    async def withdraw(self, approval_id: str) -> None:
        """Ask again from now on. Raises `NotFound` if it is not there, or not any more."""
        await self._store.withdraw(approval_id)

    async def withdraw_all(self, directory: str | Path = ".", permission: str | None = None) -> int:
        """Of a project, for one permission or all; returns how many there were."""
        return await self._store.withdraw_all(_project(directory), permission)


def _project(directory: str | Path) -> str:
    return project_id(str(Path(directory).absolute()))
