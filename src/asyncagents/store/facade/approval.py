"""Store facade for stored approvals: list and withdraw them."""

from asyncagents.domain.agent.approval import Approval
from asyncagents.store.verb import approval
from asyncagents.store.verb_runner import VerbRunner


class ApprovalStore(VerbRunner):
    async def list(self, project_id: str | None, *, limit: int) -> tuple[Approval, ...]:
        """List the approvals of one project, or of all (None), newest first."""
        return await self._read(lambda tx: approval.list_approvals(tx, project_id, limit))

    async def withdraw(self, approval_id: str) -> None:
        """Withdraw one approval: what it covers is asked again from now on."""
        await self._write(lambda tx: approval.withdraw_approval(tx, approval_id))

    async def withdraw_all(self, project_id: str, permission: str | None = None) -> int:
        """Withdraw all approvals of a project, or those of one permission; returns how many there were."""
        return await self._write(lambda tx: approval.withdraw_approvals(tx, project_id, permission))
