"""Stored approvals of a project: they answer asks and never override a denial."""

from asyncagents.domain.agent.approval import Approval, approval_of, time_in_id
from asyncagents.domain.agent.permission import approved_exactly, decide, exact_permission
from asyncagents.domain.call.ask import PermissionRequest
from asyncagents.domain.conversation.session import Rule
from asyncagents.errors import NotFound
from asyncagents.store.tx import Tx


async def approve(tx: Tx, project_id: str, permission: str, patterns: tuple[str, ...]) -> None:
    for pattern in patterns:
        await tx.one("approve", project_id, permission, pattern, tx.now)


async def approvals(tx: Tx, project_id: str) -> tuple[Rule, ...]:
    """Read the stored approvals of a project as rules."""
    rows = await tx.all("approvals", project_id)
    return tuple(Rule(permission=permission, pattern=pattern, action="allow") for permission, pattern in rows)


async def list_approvals(tx: Tx, project_id: str | None, *, limit: int) -> tuple[Approval, ...]:
    """List the approvals of one project, or of all (None), newest first."""
    rows = await tx.all("approval_rows", project_id, limit)
    return tuple(approval_of(*row[:3], at=row[3], directory=row[4]) for row in rows)


async def withdraw_approval(tx: Tx, approval_id: str) -> None:
    """Withdraw one approval: what it covers is asked again. Others of the same millisecond stay."""
    await tx.rev()  # without a revision a failed commit would pass as a read
    at = time_in_id(approval_id)
    for project_id, permission, pattern in await tx.all("approvals_at", at) if at is not None else ():
        if approval_of(project_id, permission, pattern, at=at or 0).id == approval_id:
            await tx.run("withdraw_one", project_id, permission, pattern)
            return
    raise NotFound("approval", approval_id)


async def withdraw_approvals(tx: Tx, project_id: str, permission: str | None = None) -> int:
    """Withdraw all approvals of a project, or those of one permission, exact ones too; returns how many."""
    await tx.rev()
    count = await tx.run("withdraw", project_id, permission)
    if permission is None:
        return count
    return count + await tx.run("withdraw", project_id, exact_permission(permission))


def approved_as(ask: PermissionRequest) -> str:
    """The permission under which an `always` is stored."""
    return exact_permission(ask.permission) if ask.exact else ask.permission


def covers(approved: tuple[Rule, ...], ask: PermissionRequest) -> bool:
    """Whether stored approvals allow all that an ask is about."""
    if ask.exact:
        return approved_exactly(approved, ask.permission, ask.always)
    fitting = [rule for rule in approved if rule.pattern in ask.always]
    return decide(fitting, ask.permission, ask.patterns) == "allow"
