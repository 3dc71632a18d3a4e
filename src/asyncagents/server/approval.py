"""`/v1/approvals`: what people have allowed for good, and how that is taken back."""

from asyncagents.domain.approval import Approval
from asyncagents.domain.served import Withdrawn
from asyncagents.engine.approvals import MOST
from asyncagents.errors import InvalidInput
from asyncagents.server.given import LONGEST, named_directory, number, one, path_id
from asyncagents.server.http import Answer, Request, shown
from asyncagents.server.route import Param, Route, Site

APPROVALS = "/v1/approvals"


async def list_approvals(site: Site, request: Request) -> Answer:
    where = named_directory(request, beneath=site.directory)
    limit = number(request, "limit", default=MOST, most=MOST)
    async with site.looks:
        return shown(await site.runtime.approvals.list(where, limit=limit))


async def withdraw(site: Site, request: Request) -> Answer:
    await site.runtime.approvals.withdraw(path_id(request, "id", "approval"))
    return shown(True)


async def withdraw_all(site: Site, request: Request) -> Answer:
    """All of a project, or those of a permission; the project must be named."""
    where = named_directory(request, beneath=site.directory)
    if where is None:
        raise InvalidInput("directory says whose approvals are withdrawn")
    count = await site.runtime.approvals.withdraw_all(where, one(request, "permission"))
    return shown(Withdrawn(withdrawn=count))


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path=APPROVALS,
        handler=list_approvals,
        access="token",
        summary="What was answered with `always`, the newest first",
        query=(
            Param("directory", "Of the project in this directory; of all, unless given"),
            Param("limit", "How many at most; 1000, unless given", "integer", least=1, most=MOST),
        ),
        answer=tuple[Approval, ...],
        statuses=(400,),
    ),
    Route(
        method="DELETE",
        path=APPROVALS,
        handler=withdraw_all,
        access="token",
        summary="Withdraw all approvals of a project, or those of a permission: it asks again from now on",
        query=(
            Param("directory", "The project's directory; it must be given"),
            Param("permission", "Approvals of this permission alone", most=LONGEST),
        ),
        answer=Withdrawn,
        statuses=(400,),
    ),
    Route(
        method="DELETE",
        path=f"{APPROVALS}/{{id}}",
        handler=withdraw,
        access="token",
        summary="Withdraw one approval: what it covers is asked for again from now on",
        answer=bool,
        statuses=(404,),
    ),
)
