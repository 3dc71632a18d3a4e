"""Results that come from outside, given over HTTP as `runtime.async_tools` takes them."""

from typing import Any

from asyncagents.client.call import Calls, at
from asyncagents.client.read import read
from asyncagents.domain.id import SessionId
from asyncagents.domain.pending_tool import PendingStatus, PendingToolCall


class AsyncTools:
    """Of a client: `client.async_tools`. Every result is durable before its method returns."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def submit_result(
        self, pending_id: str, output: str, *, title: str = "", metadata: dict[str, Any] | None = None
    ) -> PendingToolCall:
        """Give a call its result, once; the same again is answered alike, another raises `Conflict`.

        What the tool does not take raises `ResultRefused`, and the call still waits.
        """
        result = {"output": output, "title": title, "metadata": metadata or {}}
        return await self._calls.post(
            "/async-tool/result", PendingToolCall, {"pendingID": pending_id, "result": result}
        )

    async def submit_error(self, pending_id: str, error: str) -> PendingToolCall:
        """Tell that what a call waits for has failed; the session goes on with that."""
        return await self._calls.post(
            "/async-tool/error", PendingToolCall, {"pendingID": pending_id, "error": error}
        )

    async def get(self, pending_id: str) -> PendingToolCall:
        return await self._calls.get(at("async-tool", "pending", pending_id), PendingToolCall)

    async def list(
        self,
        status: PendingStatus = "waiting",
        session_id: SessionId | None = None,
        *,
        after: str = "",
        limit: int = 100,
    ) -> tuple[PendingToolCall, ...]:
        """Of one session or of all, the oldest first; `after` an id."""
        query = {"status": status, "after": after, "limit": str(limit)}
        if session_id is not None:
            query["sessionID"] = session_id
        return await self._calls.get("/async-tool/pending", tuple[PendingToolCall, ...], query)

    async def cancel(self, pending_id: str) -> PendingToolCall:
        """Wait no longer: the call has failed with `cancelled`, and the session goes on."""
        return read(await self._calls.delete(at("async-tool", "pending", pending_id)), PendingToolCall)
