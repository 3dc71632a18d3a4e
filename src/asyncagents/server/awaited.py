"""What whoever follows a session needs besides: where the feed stands, and what its tree waits for."""

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
        summary="From where a stream that is opened later goes on with what happens now",
        answer=Stands,
    ),
    Route(
        method="GET",
        path="/v1/sessions/{id}/awaited",
        handler=awaited,
        access="token",
        summary="What its tree waits for outside: people, and results",
        query=(
            Param("asks", "Only what people are asked, the oldest first, with the sessions above", "boolean"),
        ),
        answer=tuple[Awaited, ...],
        statuses=(400, 404),
    ),
)
