"""Error responses in the shapes of OpenCode's server."""

from asyncagents.domain.shape import encode
from asyncagents.errors import Conflict, InvalidInput, NotFound, RequestError, SessionBusy
from asyncagents.server.http.messages import ERROR_NAMES, Request, Response, status_of

OWN_PREFIXES = ("/v1/", "/async-tool/")
"""Prefixes of the routes that OpenCode does not have; they use the plain error shape."""

_LABELS = {
    "session": "Session",
    "parent session": "Session",
    "message": "Message",
    "part": "Part",
}
_TAGGED_ROUTES = {"/session", "/session/{id}/fork"}
"""Routes of OpenCode that decode their bodies in the handler: their 400 has a `_tag`."""


class InconsistentInput(InvalidInput):
    """Values that are valid one by one, but not together."""


def opencode_error(error: RequestError, route: str, request: Request) -> Response:
    """Encode an error: most routes of OpenCode use `name` and `data`, some `_tag` with fields beside it."""
    status = status_of(error)
    match error:
        case NotFound(kind="ask", id=asked):
            return _tagged_error(status, *_ask_not_found(route, asked), {"requestID": asked})
        case NotFound(kind="MCP server", id=named):
            message = f"MCP server not found: {named}"
            return _tagged_error(status, "McpServerNotFoundError", message, {}, name=named)
        case NotFound(kind="project", id=named):
            message = f"Project not found: {named}"
            return _tagged_error(status, "ProjectNotFoundError", message, {"projectID": named})
        case NotFound(kind=kind, id=named) if kind in _LABELS:
            return _named_error(status, ERROR_NAMES[status], f"{_LABELS[kind]} not found: {named}")
        case SessionBusy(session_id=session_id):
            message = f"Session is busy: {session_id}"
            return _tagged_error(status, "SessionBusyError", message, {"sessionID": session_id})
        case Conflict():
            return _tagged_error(status, "ConflictError", str(error), {})
        case _ if status == 400:
            return _invalid_input(error, route, request)
        case _:
            return _named_error(status, ERROR_NAMES[status], str(error))


def _invalid_input(error: RequestError, route: str, request: Request) -> Response:
    kind = "Query" if request.method == "GET" else "Payload"
    body = {"name": ERROR_NAMES[400], "data": {"message": str(error), "kind": kind}}
    late = isinstance(error, InconsistentInput) or (route in _TAGGED_ROUTES and request.method == "POST")
    return Response(400, encode({"_tag": ERROR_NAMES[400], **body} if late else body))


def _ask_not_found(route: str, asked: str) -> tuple[str, str]:
    if route.startswith("/question"):
        return "QuestionNotFoundError", f"Question request not found: {asked}"
    return "PermissionNotFoundError", f"Permission request not found: {asked}"


def _named_error(status: int, name: str, message: str) -> Response:
    return Response(status, encode({"name": name, "data": {"message": message}}))


def _tagged_error(status: int, tag: str, message: str, more: dict[str, str], *, name: str = "") -> Response:
    plain = {"name": name or tag, "data": {"message": message, **more}}
    return Response(status, encode({"_tag": tag, "message": message, **more, **plain}))
