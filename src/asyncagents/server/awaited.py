"""The cursor of the event feed, and the calls that a session tree waits for."""

from asyncagents.domain.awaited import Awaited
from asyncagents.domain.served import Stands
from asyncagents.server.given import flag, session_id
from asyncagents.server.http import Answer, Request, shown
from asyncagents.server.route import Param, Route, Site


async def cursor(site: Site, request: Request) -> Answer:
    return shown(Stands(cursor=await site.runtime.cursor()))


async def awaited(site: Site, request: Request) -> Answer:
    return shown(await site.runtime.tasks.awaited(session_id(request), asks=flag(request, "asks")))


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/v1/cursor",
        handler=cursor,
        access="token",
        summary="Get the current event cursor, to resume a stream from later",
        answer=Stands,
    ),
    Route(
        method="GET",
        path="/v1/sessions/{id}/awaited",
        handler=awaited,
        access="token",
        summary="List the calls of a session tree that wait for people or results",
        query=(Param("asks", "Only asks, oldest first, each with its lineage", "boolean"),),
        answer=tuple[Awaited, ...],
        statuses=(400, 404),
    ),
)
