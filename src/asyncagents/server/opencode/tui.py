"""`/tui`: controlling the OpenCode terminals of a directory by events."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from asyncagents.domain.conversation.session import project_id
from asyncagents.domain.id import SessionId
from asyncagents.domain.shape import Shape
from asyncagents.engine.event.global_stream import SessionLocation
from asyncagents.errors import InvalidInput
from asyncagents.server.http.body import read_body
from asyncagents.server.http.messages import Request, Response, json_response
from asyncagents.server.params import directory
from asyncagents.server.route import Routes, ServerContext

routes = Routes()

APPEND, EXECUTE = "tui.prompt.append", "tui.command.execute"
TOAST, SELECT = "tui.toast.show", "tui.session.select"
_OLD_COMMANDS = {
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
_COMMAND_ROUTES = {
    "/tui/open-help": "help.show",
    "/tui/open-sessions": "session.list",
    "/tui/open-themes": "theme.switch",
    "/tui/open-models": "model.list",
    "/tui/submit-prompt": "prompt.submit",
    "/tui/clear-prompt": "prompt.clear",
}


class TuiPromptText(Shape, frozen=True, kw_only=True):
    schema_name: ClassVar[str] = "Appended"
    text: str


class TuiCommand(Shape, frozen=True, kw_only=True):
    schema_name: ClassVar[str] = "Executed"
    command: str


class Toast(Shape, frozen=True, kw_only=True):
    """`duration` in ms."""

    message: str
    variant: Literal["info", "success", "warning", "error"]
    duration: Annotated[int, Meta(ge=1)] | None = None
    title: str | None = None


class TuiSessionChoice(Shape, frozen=True, kw_only=True):
    schema_name: ClassVar[str] = "Selected"
    session_id: SessionId


class TuiEvent(Shape, frozen=True, kw_only=True):
    type: Literal["tui.prompt.append", "tui.command.execute", "tui.toast.show", "tui.session.select"]
    properties: dict[str, Any]


_KINDS: Mapping[str, type[Shape]] = {
    APPEND: TuiPromptText,
    EXECUTE: TuiCommand,
    TOAST: Toast,
    SELECT: TuiSessionChoice,
}


def _announce(server: ServerContext, request: Request, type: str, properties: Shape) -> Response:
    where = directory(server, request)
    server.runtime.broadcast.announce(type, properties, location=SessionLocation(where, project_id(where)))
    return json_response(True)


@routes.post(
    "/tui/append-prompt", access="token", directory=True, body=TuiPromptText, response=bool, statuses=(404,)
)
async def append(server: ServerContext, request: Request) -> Response:
    """Append text to the prompt in terminals."""
    return _announce(server, request, APPEND, read_body(request, TuiPromptText))


@routes.post(
    "/tui/execute-command", access="token", directory=True, body=TuiCommand, response=bool, statuses=(404,)
)
async def execute(server: ServerContext, request: Request) -> Response:
    """Execute a command in terminals.

    Terminals ignore unknown commands."""
    named = read_body(request, TuiCommand).command
    return _announce(server, request, EXECUTE, TuiCommand(command=_OLD_COMMANDS.get(named, named)))


@routes.post("/tui/show-toast", access="token", directory=True, body=Toast, response=bool, statuses=(404,))
async def toast(server: ServerContext, request: Request) -> Response:
    """Show a toast in terminals."""
    return _announce(server, request, TOAST, read_body(request, Toast))


@routes.post(
    "/tui/select-session",
    access="token",
    directory=True,
    body=TuiSessionChoice,
    response=bool,
    statuses=(404,),
)
async def select(server: ServerContext, request: Request) -> Response:
    """Show a session in terminals."""
    chosen = read_body(request, TuiSessionChoice)
    await server.runtime.session(chosen.session_id)
    return _announce(server, request, SELECT, chosen)


@routes.post("/tui/publish", access="token", directory=True, body=TuiEvent, response=bool, statuses=(404,))
async def publish(server: ServerContext, request: Request) -> Response:
    """Publish an event to terminals."""
    event = read_body(request, TuiEvent)
    try:
        properties = msgspec.convert(event.properties, _KINDS[event.type])
    except msgspec.ValidationError as error:
        raise InvalidInput(f"properties do not match the schema of {event.type}: {error}") from None
    return _announce(server, request, event.type, properties)


def _add_command(path: str, command: str) -> None:
    summary = f"Execute the command `{command}` in terminals"

    @routes.post(path, access="token", directory=True, summary=summary, response=bool, statuses=(404,))
    async def execute_command(server: ServerContext, request: Request) -> Response:
        return _announce(server, request, EXECUTE, TuiCommand(command=command))


for each in _COMMAND_ROUTES.items():
    _add_command(*each)
