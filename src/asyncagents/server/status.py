"""`/v1`: what tasks do, for dashboards and other programs that only look."""

from asyncagents.domain.shape import Shape
from asyncagents.engine.runtime import VERSION
from asyncagents.server.http import Answer, Request, shown
from asyncagents.server.route import Route, Site


class Health(Shape, frozen=True, kw_only=True):
    """`uptime` in seconds."""

    status: str
    uptime: float
    version: str


async def health(site: Site, request: Request) -> Answer:
    uptime = (site.clock.now() - site.started) / 1000
    return shown(Health(status="ok", uptime=uptime, version=VERSION))


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/v1/health",
        handler=health,
        access="open",
        summary="Whether the server lives",
        answer=Health,
    ),
)
