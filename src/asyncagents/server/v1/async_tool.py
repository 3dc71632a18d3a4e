"""`/async-tool`: submitting results of pending calls, and listing those calls.

A webhook is authorized by its signature; the other routes by the token, before their handlers run.
"""

from typing import Annotated, Any, ClassVar, TypeAlias, get_args

from msgspec import Meta

from asyncagents.domain.call.call import Completed, Failed
from asyncagents.domain.call.incoming_result import MOST_BYTES, read_incoming_result
from asyncagents.domain.call.pending_tool import PendingStatus, PendingToolCall
from asyncagents.domain.id import CallId, SessionId
from asyncagents.domain.shape import Shape
from asyncagents.engine.runtime.async_tools import MAX_LIMIT
from asyncagents.errors import InvalidInput, NotFound
from asyncagents.server.http.messages import Request, Response, json_response
from asyncagents.server.params import path_id, query_number
from asyncagents.server.route import LONGEST_ID, Param, Routes, ServerContext

routes = Routes()

PendingIdText: TypeAlias = Annotated[str, Meta(min_length=1, max_length=LONGEST_ID)]

_FILTERS = ("status", "sessionID", "after", "limit")
_IGNORED_PARAMS = ("directory", "workspace")
"""Parameters that OpenCode's clients add to every query."""
_STATUSES: tuple[PendingStatus, ...] = get_args(PendingStatus)
_QUERY = (
    Param("status", "Calls in this state; default: waiting", choices=_STATUSES),
    Param("sessionID", "Only calls of this session", least=1, most=LONGEST_ID),
    Param("after", "Only calls after this id: the last of the previous page", most=LONGEST_ID),
    Param("limit", "Max calls; default 100", "integer", least=1, most=1000),
)


class WebhookReceipt(Shape, frozen=True, kw_only=True):
    """Response to a webhook; the input of the call is not revealed to its sender."""

    schema_name: ClassVar[str] = "Taken"

    pending_id: CallId
    status: PendingStatus


class SentResult(Shape, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The result of the tool."""

    output: str
    title: str | None = None
    metadata: dict[str, Any] | None = None


class ResultSubmission(Shape, frozen=True, kw_only=True):
    """`pendingID`: the id that the tool received."""

    schema_name: ClassVar[str] = "SentCompleted"

    pending_id: PendingIdText
    result: SentResult


class ErrorSubmission(Shape, frozen=True, kw_only=True):
    """`error`: what went wrong, for the model."""

    schema_name: ClassVar[str] = "SentFailed"

    pending_id: PendingIdText
    error: Annotated[str, Meta(pattern=r"\S")]


@routes.post(
    "/async-tool/result",
    access="token",
    body=ResultSubmission,
    response=PendingToolCall,
    statuses=(404, 409, 422),
    most_bytes=MOST_BYTES,
)
async def post_result(server: ServerContext, request: Request) -> Response:
    """Submit the result of a pending call.

    `{"pendingID", "result": {"title"?, "output", "metadata"?}}`"""
    result = read_incoming_result(request.body)
    if not isinstance(result.result, Completed):
        raise InvalidInput("the body is an error, not a result: send it to /async-tool/error")
    return json_response(await server.runtime.async_tools.submit(result))


@routes.post(
    "/async-tool/error",
    access="token",
    body=ErrorSubmission,
    response=PendingToolCall,
    statuses=(404, 409),
    most_bytes=MOST_BYTES,
)
async def post_error(server: ServerContext, request: Request) -> Response:
    """Submit the error of a pending call.

    `{"pendingID", "error"}`"""
    result = read_incoming_result(request.body)
    if not isinstance(result.result, Failed):
        raise InvalidInput("the body is a result, not an error: send it to /async-tool/result")
    return json_response(await server.runtime.async_tools.submit(result))


@routes.post(
    "/async-tool/webhook",
    access="signature",
    body=ResultSubmission | ErrorSubmission,
    response=WebhookReceipt,
    statuses=(404, 409, 422),
    most_bytes=MOST_BYTES,
)
async def post_webhook(server: ServerContext, request: Request) -> Response:
    """Submit a result or error by signed webhook, without a token.

    Takes the body of either route, signed, with any content type."""
    call = await server.runtime.async_tools.receive(request.headers, request.body)
    return json_response(WebhookReceipt(pending_id=call.id, status=call.status))


@routes.get(
    "/async-tool/pending", access="token", query=_QUERY, response=tuple[PendingToolCall, ...], statuses=(404,)
)
async def list_pending(server: ServerContext, request: Request) -> Response:
    """List pending calls, oldest first.

    Pass the last id as `after` to get the next page, until a page is empty."""
    given = _filters(request)
    status = given.get("status", "waiting")
    if status not in _STATUSES:
        raise InvalidInput(f"status must be one of {', '.join(_STATUSES)}")
    session_id = SessionId(given["sessionID"]) if "sessionID" in given else None
    if session_id == "":
        raise NotFound("session", session_id)
    found = await server.runtime.async_tools.list(
        _STATUSES[_STATUSES.index(status)],
        session_id,
        after=given.get("after", ""),
        limit=query_number(request, "limit", default=100, most=MAX_LIMIT),
    )
    return json_response(found)


@routes.get("/async-tool/pending/{id}", access="token", response=PendingToolCall)
async def get_pending(server: ServerContext, request: Request) -> Response:
    """Get a pending call."""
    return json_response(await server.runtime.async_tools.get(path_id(request, "id", "pending call")))


@routes.delete("/async-tool/pending/{id}", access="token", response=PendingToolCall, statuses=(409,))
async def delete_pending(server: ServerContext, request: Request) -> Response:
    """Cancel a pending call.

    The call fails with `cancelled`, and its session continues."""
    return json_response(await server.runtime.async_tools.cancel(path_id(request, "id", "pending call")))


def _filters(request: Request) -> dict[str, str]:
    given = [(name, value) for name, value in request.query if name not in _IGNORED_PARAMS]
    for name, value in given:
        if name not in _FILTERS or len(value) > LONGEST_ID or (value and not value.isprintable()):
            raise InvalidInput(f"unknown or invalid filter: the filters are {', '.join(_FILTERS)}")
    if len(dict(given)) < len(given):
        raise InvalidInput("a filter occurs more than once: give each once")
    return dict(given)
