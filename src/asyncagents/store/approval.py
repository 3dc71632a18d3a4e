"""The door to what was approved for good, as people look at it."""

from asyncagents.domain.approval import Approval
from asyncagents.store.door import Door
from asyncagents.store.verb import approval


class ApprovalStore(Door):
    async def list(self, project_id: str | None, *, limit: int) -> tuple[Approval, ...]:
        """Of one project or (None) of all, the newest first."""
        return await self._read(lambda tx: approval.list_approvals(tx, project_id, limit))

    async def withdraw(self, approval_id: str) -> None:
        """Ask again from now on for what one approval covers."""
        await self._write(lambda tx: approval.withdraw_one(tx, approval_id))

    async def withdraw_all(self, project_id: str, permission: str | None = None) -> int:
        """The same for all approvals of a project, or those of a permission; returns how many there were."""
        return await self._write(lambda tx: approval.withdraw_all(tx, project_id, permission))
