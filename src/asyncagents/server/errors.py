"""Error responses in the shapes of OpenCode's server."""

from asyncagents.domain.shape import encode
from asyncagents.errors import Conflict, InvalidInput, NotFound, RequestError, SessionBusy
from asyncagents.server.http.messages import NAMES, Answer, Request, status_of

OURS = ("/v1/", "/async-tool/")
"""Prefixes of the routes that OpenCode does not have; they use the plain error shape."""

_CALLED = {
    "session": "Session",
    "parent session": "Session",
    "message": "Message",
    "part": "Part",
}
_READ_LATE = {"/session", "/session/{id}/fork"}
"""Routes of OpenCode that decode their bodies in the handler: their 400 has a `_tag`."""


class Unfit(InvalidInput):
    """Values that are valid one by one, but not together."""


def told(error: RequestError, route: str, request: Request) -> Answer:
    """Encode an error: most routes of OpenCode use `name` and `data`, some `_tag` with fields beside it."""
    status = status_of(error)
    match error:
        case NotFound(kind="ask", id=asked):
            return _tagged(status, *_no_ask(route, asked), {"requestID": asked})
        case NotFound(kind="MCP server", id=named):
            said = f"MCP server not found: {named}"
            return _tagged(status, "McpServerNotFoundError", said, {}, name=named)
        case NotFound(kind="project", id=named):
            said = f"Project not found: {named}"
            return _tagged(status, "ProjectNotFoundError", said, {"projectID": named})
        case NotFound(kind=kind, id=named) if kind in _CALLED:
            return _named(status, NAMES[status], f"{_CALLED[kind]} not found: {named}")
        case SessionBusy(session_id=session_id):
            said = f"Session is busy: {session_id}"
            return _tagged(status, "SessionBusyError", said, {"sessionID": session_id})
        case Conflict():
            return _tagged(status, "ConflictError", str(error), {})
        case _ if status == 400:
            return _unread(error, route, request)
        case _:
            return _named(status, NAMES[status], str(error))


def _unread(error: RequestError, route: str, request: Request) -> Answer:
    kind = "Query" if request.method == "GET" else "Payload"
    said = {"name": NAMES[400], "data": {"message": str(error), "kind": kind}}
    late = isinstance(error, Unfit) or (route in _READ_LATE and request.method == "POST")
    return Answer(400, encode({"_tag": NAMES[400], **said} if late else said))


def _no_ask(route: str, asked: str) -> tuple[str, str]:
    if route.startswith("/question"):
        return "QuestionNotFoundError", f"Question request not found: {asked}"
    return "PermissionNotFoundError", f"Permission request not found: {asked}"


def _named(status: int, name: str, message: str) -> Answer:
    return Answer(status, encode({"name": name, "data": {"message": message}}))


def _tagged(status: int, tag: str, message: str, more: dict[str, str], *, name: str = "") -> Answer:
    plain = {"name": name or tag, "data": {"message": message, **more}}
    return Answer(status, encode({"_tag": tag, "message": message, **more, **plain}))
