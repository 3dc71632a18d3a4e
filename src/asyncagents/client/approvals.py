"""Listing and withdrawing approvals over HTTP, like `runtime.approvals`."""

from pathlib import Path

from asyncagents.client.decode import decode_body
from asyncagents.client.json_client import JsonClient, build_path
from asyncagents.domain.agent.approval import Approval
from asyncagents.domain.http_shapes import WithdrawResult


class ClientApprovals:
    """`client.approvals`: asks that were answered with "always"."""

    def __init__(self, client: JsonClient) -> None:
        self._http = client

    async def list(self, directory: str | Path | None = None, *, limit: int = 1_000) -> tuple[Approval, ...]:
        """List approvals of the project in a directory (None: of all projects), newest first."""
        where = {} if directory is None else {"directory": _absolute(directory)}
        return await self._http.get("/v1/approvals", tuple[Approval, ...], {**where, "limit": str(limit)})

    async def withdraw(self, approval_id: str) -> None:
        """Withdraw an approval, so that it asks again. Raises `NotFound` if there is none with this id."""
        await self._http.delete(build_path("v1", "approvals", approval_id), gone=b"true")

    async def withdraw_all(self, directory: str | Path, permission: str | None = None) -> int:
        """Withdraw the approvals of a project, for one permission or all; return how many there were."""
        named = {} if permission is None else {"permission": permission}
        query = {"directory": _absolute(directory), **named}
        return decode_body(await self._http.delete("/v1/approvals", query), WithdrawResult).withdrawn


def _absolute(directory: str | Path) -> str:
    return str(Path(directory).absolute())
