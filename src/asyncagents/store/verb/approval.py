"""What was approved for good, by project: it answers asks, and lifts no denial."""

from asyncagents.domain.permission import decide
from asyncagents.domain.session import Rule
from asyncagents.store.tx import Tx


async def approve(tx: Tx, project_id: str, permission: str, patterns: tuple[str, ...]) -> None:
    for pattern in patterns:
        await tx.one("approve", project_id, permission, pattern, tx.now)


async def approvals(tx: Tx, project_id: str) -> tuple[Rule, ...]:
    rows = await tx.all("approvals", project_id)
    return tuple(Rule(permission=permission, pattern=pattern, action="allow") for permission, pattern in rows)


async def withdraw(tx: Tx, project_id: str, permission: str | None) -> int:
    """Of one permission, or of all; returns how many there were."""
    await tx.rev()  # else a commit that fails would pass for a read
    return await tx.run("withdraw", project_id, permission)


def covers(approved: tuple[Rule, ...], permission: str, patterns: tuple[str, ...]) -> bool:
    return decide(approved, permission, patterns) == "allow"
