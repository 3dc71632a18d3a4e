"""Approvals ("always" answers) of a project, to list and to withdraw."""

from pathlib import Path

from asyncagents.domain.agent.approval import Approval
from asyncagents.domain.conversation.session import project_id
from asyncagents.errors import InvalidInput
from asyncagents.store.facade import ApprovalStore

MAX_LIMIT = 1_000


class Approvals:
    """List and withdraw approvals. What was withdrawn is asked for again at the next call."""

    def __init__(self, store: ApprovalStore) -> None:
        self._store = store

    async def list(
        self, directory: str | Path | None = ".", *, limit: int = MAX_LIMIT
    ) -> tuple[Approval, ...]:
        """List the approvals of a directory's project, or (None) of all, the newest first."""
        if not 0 < limit <= MAX_LIMIT:
            raise InvalidInput(f"limit must be from 1 to {MAX_LIMIT}")
        return await self._store.list(None if directory is None else _project_of(directory), limit=limit)

    async def withdraw(self, approval_id: str) -> None:
        """Delete an approval. Raises `NotFound` if it does not exist (any more)."""
        await self._store.withdraw(approval_id)

    async def withdraw_all(self, directory: str | Path = ".", permission: str | None = None) -> int:
        """Delete a project's approvals, for one permission or all; return how many there were."""
        return await self._store.withdraw_all(_project_of(directory), permission)


def _project_of(directory: str | Path) -> str:
    return project_id(str(Path(directory).absolute()))
