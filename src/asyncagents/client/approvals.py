"""What was answered with "always", seen and withdrawn over HTTP as `runtime.approvals` does."""

from pathlib import Path

from asyncagents.client.call import Calls, at
from asyncagents.client.read import read
from asyncagents.domain.approval import Approval
from asyncagents.domain.served import Withdrawn


class Approvals:
    """Get it from a client: `client.approvals`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def list(self, directory: str | Path | None = None, *, limit: int = 1_000) -> tuple[Approval, ...]:
        """Of the project in a directory or (None) of all, the newest first."""
        where = {} if directory is None else {"directory": _absolute(directory)}
        return await self._calls.get("/v1/approvals", tuple[Approval, ...], {**where, "limit": str(limit)})

    async def withdraw(self, approval_id: str) -> None:
        """Ask again from now on. Raises `NotFound` if it is not there, or not any more."""
        await self._calls.delete(at("v1", "approvals", approval_id), gone=b"true")

    async def withdraw_all(self, directory: str | Path, permission: str | None = None) -> int:
        """Of a project, for one permission or all; returns how many there were."""
        named = {} if permission is None else {"permission": permission}
        query = {"directory": _absolute(directory), **named}
        return read(await self._calls.delete("/v1/approvals", query), Withdrawn).withdrawn


def _absolute(directory: str | Path) -> str:
    return str(Path(directory).absolute())
