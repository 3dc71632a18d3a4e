"""What was approved for good, by project: it answers asks, and lifts no denial."""

from asyncagents.domain.ask import PermissionRequest
from asyncagents.domain.permission import approved_exactly, decide, exact_permission
from asyncagents.domain.session import Rule
from asyncagents.store.tx import Tx


async def approve(tx: Tx, project_id: str, permission: str, patterns: tuple[str, ...]) -> None:
    for pattern in patterns:
        await tx.one("approve", project_id, permission, pattern, tx.now)


async def approvals(tx: Tx, project_id: str) -> tuple[Rule, ...]:
    rows = await tx.all("approvals", project_id)
    return tuple(Rule(permission=permission, pattern=pattern, action="allow") for permission, pattern in rows)


async def withdraw(tx: Tx, project_id: str, permission: str | None) -> int:
    """Of one permission, exact ones too, or of all; returns how many there were."""
    await tx.rev()  # else a commit that fails would pass for a read
    count = await tx.run("withdraw", project_id, permission)
    if permission is None:
        return count
    return count + await tx.run("withdraw", project_id, exact_permission(permission))


def approved_as(ask: PermissionRequest) -> str:
    """Name the permission that an `always` is stored under."""
    return exact_permission(ask.permission) if ask.exact else ask.permission


def covers(approved: tuple[Rule, ...], ask: PermissionRequest) -> bool:
    """Say whether an ask need not wait for an answer: the same is approved for good."""
    if ask.exact:
        return approved_exactly(approved, ask.permission, ask.always)
    fitting = [rule for rule in approved if rule.pattern in ask.always]
    return decide(fitting, ask.permission, ask.patterns) == "allow"
