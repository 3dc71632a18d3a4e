"""Refusals in the forms of OpenCode's server: what its clients look for, and a sentence for people."""

from typing import Any

from asyncagents.domain.shape import encode
from asyncagents.errors import Conflict, NotFound, RequestError, SessionBusy
from asyncagents.server.http import NAMES, Answer, Request, status_of

OURS = ("/v1/", "/async-tool/")
"""Routes that OpenCode does not have say it in a plainer form."""

_CALLED = {
    "session": "Session",
    "parent session": "Session",
    "message": "Message",
    "part": "Part",
    "project": "Project",
}


def told(error: RequestError, route: str, request: Request) -> Answer:
    """`name` and `data` are what most routes say it in, `_tag` and the fields beside it what some do."""
    status = status_of(error)
    match error:
        case NotFound(kind="ask", id=asked):
            return _tagged(status, *_no_ask(route, asked), {"requestID": asked})
        case NotFound(kind=kind, id=named) if kind in _CALLED:
            return _named(status, NAMES[status], f"{_CALLED[kind]} not found: {named}")
        case SessionBusy(session_id=session_id):
            said = f"Session is busy: {session_id}"
            return _tagged(status, "SessionBusyError", said, {"sessionID": session_id})
        case Conflict():
            return _tagged(status, "ConflictError", str(error), {})
        case _ if status == 400:
            kind = "Query" if request.method == "GET" else "Payload"
            return _named(status, NAMES[status], str(error), kind=kind)
        case _:
            return _named(status, NAMES[status], str(error))


def _no_ask(route: str, asked: str) -> tuple[str, str]:
    if route.startswith("/question"):
        return "QuestionNotFoundError", f"Question request not found: {asked}"
    return "PermissionNotFoundError", f"Permission request not found: {asked}"


def _named(status: int, name: str, message: str, **more: Any) -> Answer:
    return Answer(status, encode({"name": name, "data": {"message": message, **more}}))


def _tagged(status: int, tag: str, message: str, more: dict[str, str]) -> Answer:
    plain = {"name": tag, "data": {"message": message, **more}}
    return Answer(status, encode({"_tag": tag, "message": message, **more, **plain}))
