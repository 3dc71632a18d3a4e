"""`/tui`: controlling the OpenCode terminals of a directory by events."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from asyncagents.domain.conversation.session import project_id
from asyncagents.domain.id import SessionId
from asyncagents.domain.shape import Shape
from asyncagents.engine.event.global_stream import Place
from asyncagents.errors import InvalidInput
from asyncagents.server.http.body import read
from asyncagents.server.http.messages import Answer, Request, shown
from asyncagents.server.params import DIRECTED, DIRECTORY, directory
from asyncagents.server.route import Handler, Route, Site

APPEND, EXECUTE = "tui.prompt.append", "tui.command.execute"
TOAST, SELECT = "tui.toast.show", "tui.session.select"
_OLD = {
    "agent_cycle": "agent.cycle",
    "messages_first": "session.first",
    "messages_half_page_down": "session.half.page.down",
    "messages_half_page_up": "session.half.page.up",
    "messages_last": "session.last",
    "messages_line_down": "session.line.down",
    "messages_line_up": "session.line.up",
    "messages_page_down": "session.page.down",
    "messages_page_up": "session.page.up",
    "session_compact": "session.compact",
    "session_interrupt": "session.interrupt",
    "session_new": "session.new",
    "session_share": "session.share",
}
"""Old command names and the ones that terminals know."""
_OPENS = {
    "/tui/open-help": "help.show",
    "/tui/open-sessions": "session.list",
    "/tui/open-themes": "theme.switch",
    "/tui/open-models": "model.list",
    "/tui/submit-prompt": "prompt.submit",
    "/tui/clear-prompt": "prompt.clear",
}


class Appended(Shape, frozen=True, kw_only=True):
    text: str


class Executed(Shape, frozen=True, kw_only=True):
    command: str


class Toast(Shape, frozen=True, kw_only=True):
    """`duration` in ms."""

    message: str
    variant: Literal["info", "success", "warning", "error"]
    duration: Annotated[int, Meta(ge=1)] | None = None
    title: str | None = None


class Selected(Shape, frozen=True, kw_only=True):
    session_id: SessionId


class TuiEvent(Shape, frozen=True, kw_only=True):
    type: Literal["tui.prompt.append", "tui.command.execute", "tui.toast.show", "tui.session.select"]
    properties: dict[str, Any]


_KINDS: Mapping[str, type[Shape]] = {APPEND: Appended, EXECUTE: Executed, TOAST: Toast, SELECT: Selected}


def _tell(site: Site, request: Request, type: str, properties: Shape) -> Answer:
    where = directory(site, request)
    site.runtime.broadcast.announce(type, properties, place=Place(where, project_id(where)))
    return shown(True)


async def append(site: Site, request: Request) -> Answer:
    return _tell(site, request, APPEND, read(request, Appended))


async def execute(site: Site, request: Request) -> Answer:
    """Terminals ignore unknown commands."""
    named = read(request, Executed).command
    return _tell(site, request, EXECUTE, Executed(command=_OLD.get(named, named)))


async def toast(site: Site, request: Request) -> Answer:
    return _tell(site, request, TOAST, read(request, Toast))


async def select(site: Site, request: Request) -> Answer:
    chosen = read(request, Selected)
    await site.runtime.session(chosen.session_id)
    return _tell(site, request, SELECT, chosen)


async def publish(site: Site, request: Request) -> Answer:
    event = read(request, TuiEvent)
    try:
        properties = msgspec.convert(event.properties, _KINDS[event.type])
    except msgspec.ValidationError as error:
        raise InvalidInput(f"properties do not match the schema of {event.type}: {error}") from None
    return _tell(site, request, event.type, properties)


def _opening(command: str) -> Handler:
    async def opened(site: Site, request: Request) -> Answer:
        return _tell(site, request, EXECUTE, Executed(command=command))

    return opened


def _route(path: str, handler: Handler, summary: str, body: Any = None) -> Route:
    return Route(
        method="POST",
        path=path,
        handler=handler,
        access="token",
        summary=summary,
        query=(DIRECTORY,),
        headers=(DIRECTED,),
        body=body,
        answer=bool,
        statuses=(400, 404),
    )


ROUTES: tuple[Route, ...] = (
    _route("/tui/append-prompt", append, "Append text to the prompt in terminals", Appended),
    _route("/tui/execute-command", execute, "Execute a command in terminals", Executed),
    _route("/tui/show-toast", toast, "Show a toast in terminals", Toast),
    _route("/tui/select-session", select, "Show a session in terminals", Selected),
    _route("/tui/publish", publish, "Publish an event to terminals", TuiEvent),
    *(
        _route(path, _opening(command), f"Execute the command `{command}` in terminals")
        for path, command in _OPENS.items()
    ),
)
