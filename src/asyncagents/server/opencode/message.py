"""`/session/{id}/message`: paging through messages; changing and deleting messages and parts."""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any
from urllib.parse import urlencode

import msgspec

from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.part import Part
from asyncagents.domain.id import MessageId, PartId
from asyncagents.domain.shape import Shape, encode
from asyncagents.server.auth import AUTH_TOKEN
from asyncagents.server.errors import InconsistentInput
from asyncagents.server.http.body import MOST_PROMPT_BYTES, read_body
from asyncagents.server.http.messages import Pairs, Request, Response, json_response
from asyncagents.server.params import message_id, path_id, query_number, query_text, session_id
from asyncagents.server.route import Param, Routes, ServerContext

routes = Routes()

MOST_MESSAGES = 1_000_000
LARGE_PAGE = 200
"""Larger pages are read one at a time."""
EXPOSED_HEADERS = "Link, X-Next-Cursor"


class MessageCursor(Shape, frozen=True, kw_only=True):
    """Where a page ended."""

    id: MessageId
    time: float = 0


@routes.get(
    "/session/{id}/message",
    access="token",
    query=(
        Param("limit", "Max messages; 0: all", "integer", least=0),
        Param("before", "X-Next-Cursor of the previous page"),
    ),
    response=tuple[MessageWithParts, ...],
)
async def messages(server: ServerContext, request: Request) -> Response:
    """List messages, oldest first; with a limit the newest, and X-Next-Cursor for older ones.

    Without a limit, or with 0, returns all messages."""
    limit = _limit(request)
    cursor = _parse_before(request)
    if cursor is not None and query_text(request, "limit") is None:
        raise InconsistentInput("before requires limit: say how many messages a page has")
    before = cursor.id if cursor else None
    at = session_id(request)
    if limit is None or limit > LARGE_PAGE:
        async with server.heavy_reads:
            page = await server.runtime.conversations.page(at, before=before, limit=limit)
    else:
        page = await server.runtime.conversations.page(at, before=before, limit=limit)
    if page.first is None:
        return Response(200, page.body)
    named = urlsafe_b64encode(encode({"id": page.first, "time": page.created})).decode().rstrip("=")
    return Response(200, page.body, _next_page_headers(request, named))


def _limit(request: Request) -> int | None:
    if query_text(request, "limit") in (None, "0"):
        return None
    return query_number(request, "limit", default=1, most=MOST_MESSAGES)


def _parse_before(request: Request) -> MessageCursor | None:
    text = query_text(request, "before")
    if not text:
        return None
    try:
        raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        return msgspec.json.decode(raw, type=MessageCursor)
    except (binascii.Error, ValueError, msgspec.DecodeError):
        raise InconsistentInput(
            "before is not a valid cursor: use X-Next-Cursor of the previous page"
        ) from None


def _next_page_headers(request: Request, cursor: str) -> Pairs:
    parameters = {name: value for name, value in request.query if name != AUTH_TOKEN}
    query = {**parameters, "before": cursor}
    where = f"http://{request.header('host')}{request.path}?{urlencode(query)}"
    return (
        ("x-next-cursor", cursor),
        ("link", f'<{where}>; rel="next"'),
        ("access-control-expose-headers", EXPOSED_HEADERS),
    )


@routes.get("/session/{id}/message/{messageID}", access="token", response=MessageWithParts)
async def message(server: ServerContext, request: Request) -> Response:
    """Get a message with its parts."""
    wanted = message_id(request)
    return Response(200, await server.runtime.conversations.message(session_id(request), wanted))


@routes.delete("/session/{id}/message/{messageID}", access="token", response=bool, statuses=(409,))
async def remove(server: ServerContext, request: Request) -> Response:
    """Delete a message of a resting session."""
    await server.runtime.conversations.remove_message(session_id(request), message_id(request))
    return json_response(True)


@routes.patch(
    "/session/{id}/message/{messageID}/part/{partID}",
    access="token",
    body=Part,
    response=Part,
    statuses=(409,),
    most_bytes=MOST_PROMPT_BYTES,
)
async def change_part(server: ServerContext, request: Request) -> Response:
    """Replace a part of a resting session."""
    union: Any = Part
    part: Part = read_body(request, union)
    named = session_id(request), message_id(request), _part_id(request)
    if named != (part.session_id, part.message_id, part.id):
        raise InconsistentInput("sessionID, messageID and id of the part must equal those of the path")
    return json_response(await server.runtime.conversations.change_part(part))


@routes.delete(
    "/session/{id}/message/{messageID}/part/{partID}", access="token", response=bool, statuses=(409,)
)
async def remove_part(server: ServerContext, request: Request) -> Response:
    """Delete a part of a resting session."""
    await server.runtime.conversations.remove_part(
        session_id(request), message_id(request), _part_id(request)
    )
    return json_response(True)


def _part_id(request: Request) -> PartId:
    return PartId(path_id(request, "partID", "part"))
