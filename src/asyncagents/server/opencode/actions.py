"""Actions of OpenCode's clients on a session: command, shell, summary, init, background."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.domain.conversation.part_input import FileInput
from asyncagents.domain.id import MessageId, SessionId
from asyncagents.domain.shape import Shape
from asyncagents.engine.input.builtin_commands import INIT
from asyncagents.engine.input.message import PromptOptions
from asyncagents.errors import InvalidInput
from asyncagents.server.http.body import MOST_PROMPT_BYTES, read_body
from asyncagents.server.http.messages import Request, Response, json_response
from asyncagents.server.opencode.prompt import answer_response, request_key
from asyncagents.server.opencode.session import NO_VARIANT
from asyncagents.server.params import idempotency_key, session_id
from asyncagents.server.route import Routes, ServerContext

routes = Routes()


class ShellRequest(Shape, frozen=True, kw_only=True):
    """A shell command of the person: no rules apply, no model is involved, only an abort ends it."""

    schema_name: ClassVar[str] = "Shell"

    command: str
    agent: str | None = None
    model: ModelRef | None = None
    message_id: MessageId | None = None


class CommandRequest(Shape, frozen=True, kw_only=True):
    """`command`: its name; `model`: "provider/model"; `parts`: attached files."""

    schema_name: ClassVar[str] = "Command"

    command: str
    arguments: str = ""
    agent: str | None = None
    model: str | None = None
    variant: str | None = None
    message_id: MessageId | None = None
    parts: tuple[FileInput, ...] = ()


class SummarizeRequest(Shape, frozen=True, kw_only=True):
    """The model that writes the summary. `auto`: the session continues its work afterwards."""

    schema_name: ClassVar[str] = "Summarize"

    provider_id: str
    model_id: str
    auto: bool = False


class InitRequest(Shape, frozen=True, kw_only=True):
    """The model that runs the command `init`."""

    schema_name: ClassVar[str] = "Init"

    provider_id: str
    model_id: str
    message_id: MessageId | None = None


class Capabilities(Shape, frozen=True, kw_only=True):
    background_subagents: bool


@routes.post("/session/{id}/shell", access="token", key=True, body=ShellRequest, response=MessageWithParts)
async def post_shell(server: ServerContext, request: Request) -> Response:
    """Run a person's shell command in a resting session and wait for its end.

    A disconnect does not cancel the work."""
    wanted, at = read_body(request, ShellRequest), session_id(request)
    options = PromptOptions(agent=wanted.agent, model=wanted.model, message_id=wanted.message_id)
    with _report_refusal(server, at):
        sent = await server.runtime.submit_shell(
            at, wanted.command, key=request_key(request, wanted), **options
        )
    return await answer_response(server, request, sent)


@routes.post(
    "/session/{id}/command",
    access="token",
    key=True,
    body=CommandRequest,
    response=MessageWithParts,
    most_bytes=MOST_PROMPT_BYTES,
)
async def post_command(server: ServerContext, request: Request) -> Response:
    """Run a slash command and wait for the answer.

    A disconnect does not cancel the work."""
    wanted, at = read_body(request, CommandRequest), session_id(request)
    options = PromptOptions(
        agent=wanted.agent,
        model=wanted.model,
        variant=None if wanted.variant == NO_VARIANT else wanted.variant,
        parts=wanted.parts,
        message_id=wanted.message_id,
    )
    named = request_key(request, wanted)
    with _report_refusal(server, at):
        sent = await server.runtime.submit_command(at, wanted.command, wanted.arguments, key=named, **options)
    return await answer_response(server, request, sent)


@routes.post("/session/{id}/summarize", access="token", key=True, body=SummarizeRequest, response=bool)
async def summarize(server: ServerContext, request: Request) -> Response:
    """Summarize a session's history and wait for the end.

    Returns true when the summary, and with it the turn, has ended; the last message says if it failed."""
    wanted, at = read_body(request, SummarizeRequest), session_id(request)
    model = ModelRef(provider_id=wanted.provider_id, model_id=wanted.model_id)
    sent = await server.runtime.submit_compaction(
        at, key=idempotency_key(request), model=model, goes_on=wanted.auto
    )
    return await answer_response(server, request, sent, shows=False)


@routes.post("/session/{id}/init", access="token", key=True, body=InitRequest, response=bool)
async def init(server: ServerContext, request: Request) -> Response:
    """Run the command `init`, which writes AGENTS.md, and wait for the end."""
    wanted, at = read_body(request, InitRequest), session_id(request)
    model = ModelRef(provider_id=wanted.provider_id, model_id=wanted.model_id)
    options = PromptOptions(model=model, message_id=wanted.message_id)
    sent = await server.runtime.submit_command(at, INIT, key=request_key(request, wanted), **options)
    return await answer_response(server, request, sent, shows=False)


@routes.post("/experimental/session/{id}/background", access="token", response=bool)
async def background(server: ServerContext, request: Request) -> Response:
    """Move the tasks that a session waits for to the background.

    Returns false if the session waited for no task."""
    return json_response(bool(await server.runtime.background(session_id(request))))


@routes.get("/experimental/capabilities", access="token", response=Capabilities)
async def capabilities(server: ServerContext, request: Request) -> Response:
    """Get experimental capabilities."""
    return json_response(Capabilities(background_subagents=True))


@contextmanager
def _report_refusal(server: ServerContext, session_id: SessionId) -> Iterator[None]:
    """Publish a refusal as an event, too: OpenCode's terminal UI ignores the responses of these routes."""
    try:
        yield
    except InvalidInput as error:
        server.runtime.publish_refusal(session_id, error)
        raise
