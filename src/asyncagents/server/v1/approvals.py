"""`/v1/approvals`: listing and withdrawing answers "always"."""

from asyncagents.domain.agent.approval import Approval
from asyncagents.domain.http_shapes import Withdrawn
from asyncagents.engine.runtime.approvals import MOST
from asyncagents.errors import InvalidInput
from asyncagents.server.http.messages import Answer, Request, shown
from asyncagents.server.params import LONGEST, named_directory, number, one, path_id
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
    """The project's directory must be given."""
    where = named_directory(request, beneath=site.directory)
    if where is None:
        raise InvalidInput("directory is required: the project whose approvals are withdrawn")
    count = await site.runtime.approvals.withdraw_all(where, one(request, "permission"))
    return shown(Withdrawn(withdrawn=count))


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path=APPROVALS,
        handler=list_approvals,
        access="token",
        summary="List approvals (asks answered with `always`), newest first",
        query=(
            Param("directory", "Only the project in this directory; default: all projects"),
            Param("limit", "Max approvals; default 1000", "integer", least=1, most=MOST),
        ),
        answer=tuple[Approval, ...],
        statuses=(400,),
    ),
    Route(
        method="DELETE",
        path=APPROVALS,
        handler=withdraw_all,
        access="token",
        summary="Withdraw all approvals of a project, or those of one permission",
        query=(
            Param("directory", "Directory of the project; required"),
            Param("permission", "Only approvals of this permission", most=LONGEST),
        ),
        answer=Withdrawn,
        statuses=(400,),
    ),
    Route(
        method="DELETE",
        path=f"{APPROVALS}/{{id}}",
        handler=withdraw,
        access="token",
        summary="Withdraw an approval",
        answer=bool,
        statuses=(404,),
    ),
)
