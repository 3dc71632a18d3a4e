"""What is posted when a call is settled."""

from asyncagents.domain.call import Call
from asyncagents.domain.id import CallId
from asyncagents.domain.pending_tool import ToolResult, pending_tool
from asyncagents.domain.shape import Shape


class Told(Shape, frozen=True, kw_only=True):
    pending_id: CallId
    result: ToolResult | None = None
    error: str | None = None


def told(call: Call) -> Told:
    settled = pending_tool(call)
    return Told(pending_id=call.id, result=settled.result, error=settled.error)
