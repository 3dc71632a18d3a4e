"""`/v1/approvals`: listing and withdrawing answers "always"."""

from asyncagents.domain.agent.approval import Approval
from asyncagents.domain.http_shapes import WithdrawResult
from asyncagents.engine.runtime.approvals import MAX_LIMIT
from asyncagents.errors import InvalidInput
from asyncagents.server.http.messages import Request, Response, json_response
from asyncagents.server.params import named_directory, path_id, query_number, query_text
from asyncagents.server.route import LONGEST_ID, Param, Routes, ServerContext

routes = Routes()


@routes.get(
    "/v1/approvals",
    access="token",
    query=(
        Param("directory", "Only the project in this directory; default: all projects"),
        Param("limit", "Max approvals; default 1000", "integer", least=1, most=MAX_LIMIT),
    ),
    response=tuple[Approval, ...],
)
async def list_approvals(server: ServerContext, request: Request) -> Response:
    """List approvals (asks answered with `always`), newest first."""
    where = named_directory(request, beneath=server.directory)
    limit = query_number(request, "limit", default=MAX_LIMIT, most=MAX_LIMIT)
    async with server.heavy_reads:
        return json_response(await server.runtime.approvals.list(where, limit=limit))


@routes.delete(
    "/v1/approvals",
    access="token",
    query=(
        Param("directory", "Directory of the project; required"),
        Param("permission", "Only approvals of this permission", most=LONGEST_ID),
    ),
    response=WithdrawResult,
)
async def withdraw_all(server: ServerContext, request: Request) -> Response:
    """Withdraw all approvals of a project, or those of one permission.

    The project's directory must be given."""
    where = named_directory(request, beneath=server.directory)
    if where is None:
        raise InvalidInput("directory is required: the project whose approvals are withdrawn")
    count = await server.runtime.approvals.withdraw_all(where, query_text(request, "permission"))
    return json_response(WithdrawResult(withdrawn=count))


@routes.delete("/v1/approvals/{id}", access="token", response=bool)
async def withdraw(server: ServerContext, request: Request) -> Response:
    """Withdraw an approval."""
    await server.runtime.approvals.withdraw(path_id(request, "id", "approval"))
    return json_response(True)
