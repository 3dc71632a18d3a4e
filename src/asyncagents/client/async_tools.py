"""Submitting results of pending calls over HTTP, like `runtime.async_tools`."""

from typing import Any

from asyncagents.client.decode import decode_body
from asyncagents.client.json_client import JsonClient, build_path
from asyncagents.domain.call.pending_tool import PendingStatus, PendingToolCall
from asyncagents.domain.id import SessionId


class ClientAsyncTools:
    """`client.async_tools`. Every result is durable before its method returns."""

    def __init__(self, client: JsonClient) -> None:
        self._http = client

    async def submit_result(
        self, pending_id: str, output: str, *, title: str = "", metadata: dict[str, Any] | None = None
    ) -> PendingToolCall:
        """Submit the result of a pending call. The same result again is accepted, another raises `Conflict`.

        A result that the tool refuses raises `ResultRefused`, and the call still waits.
        """
        result = {"output": output, "title": title, "metadata": metadata or {}}
        return await self._http.post(
            "/async-tool/result", PendingToolCall, {"pendingID": pending_id, "result": result}
        )

    async def submit_error(self, pending_id: str, error: str) -> PendingToolCall:
        """Submit the error of a pending call; its session continues with the error."""
        return await self._http.post(
            "/async-tool/error", PendingToolCall, {"pendingID": pending_id, "error": error}
        )

    async def get(self, pending_id: str) -> PendingToolCall:
        return await self._http.get(build_path("async-tool", "pending", pending_id), PendingToolCall)

    async def list(
        self,
        status: PendingStatus = "waiting",
        session_id: SessionId | None = None,
        *,
        after: str = "",
        limit: int = 100,
    ) -> tuple[PendingToolCall, ...]:
        """List pending calls of one session or all, oldest first; `after`: last id of the previous page."""
        query = {"status": status, "after": after, "limit": str(limit)}
        if session_id is not None:
            query["sessionID"] = session_id
        return await self._http.get("/async-tool/pending", tuple[PendingToolCall, ...], query)

    async def cancel(self, pending_id: str) -> PendingToolCall:
        """Cancel a pending call: it fails with `cancelled`, and its session continues."""
        return decode_body(
            await self._http.delete(build_path("async-tool", "pending", pending_id)), PendingToolCall
        )
