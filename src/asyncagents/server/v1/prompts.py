"""Prompts as typed text: the first of a new session, and later ones."""

from typing import Any, ClassVar

from asyncagents.domain.conversation.message import MessageFormat
from asyncagents.domain.conversation.session import Rule
from asyncagents.domain.http_shapes import BeginResult, SendResult, SentFile
from asyncagents.domain.id import MessageId
from asyncagents.domain.shape import Shape
from asyncagents.engine.input.message import PromptOptions
from asyncagents.engine.runtime.sessions import SessionOptions
from asyncagents.llm.model import Attachment
from asyncagents.server.http.body import MOST_PROMPT_BYTES, read_body
from asyncagents.server.http.messages import Request, Response, json_response
from asyncagents.server.params import directory, idempotency_key, parse_directory, session_id
from asyncagents.server.route import Routes, ServerContext

routes = Routes()


class TypedPrompt(Shape, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Typed text: commands and mentions are expanded. `files`: paths on the server, URLs, or contents."""

    prompt: str
    agent: str | None = None
    model: str | None = None
    variant: str | None = None
    format: MessageFormat | None = None
    files: tuple[str | SentFile, ...] = ()

    def prompt_options(self) -> PromptOptions:
        files = [each if isinstance(each, str) else _attachment(each) for each in self.files]
        return PromptOptions(
            agent=self.agent, model=self.model, variant=self.variant, format=self.format, files=files
        )


def _attachment(file: SentFile) -> Attachment:
    return Attachment(mime=file.mime, url=file.url, filename=file.filename)


class FirstPrompt(TypedPrompt, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new session with its first prompt; both are created, or neither.

    `sessionAgent`: the agent of the session itself, which may be a subagent; `agent` is the one that the
    prompt is addressed to.
    """

    schema_name: ClassVar[str] = "Beginning"

    title: str | None = None
    directory: str | None = None
    permission: tuple[Rule, ...] = ()
    session_agent: str | None = None
    metadata: dict[str, Any] | None = None


class FollowUpPrompt(TypedPrompt, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`wakes`: false stores the prompt for the next turn. `messageID`: chosen by the sender, and a key."""

    schema_name: ClassVar[str] = "Following"

    wakes: bool = True
    message_id: MessageId | None = None

    def prompt_options(self) -> PromptOptions:
        return PromptOptions(**super().prompt_options(), message_id=self.message_id)


@routes.post(
    "/v1/sessions",
    access="token",
    directory=True,
    key=True,
    body=FirstPrompt,
    response=BeginResult,
    statuses=(404,),
    most_bytes=MOST_PROMPT_BYTES,
)
async def begin(server: ServerContext, request: Request) -> Response:
    """Create a session with its first prompt; once per Idempotency-Key."""
    new = read_body(request, FirstPrompt)
    wanted = SessionOptions(
        directory=parse_directory(new.directory) if new.directory else directory(server, request),
        title=new.title,
        agent=new.session_agent,
        metadata=new.metadata,
        permission=new.permission,
        key=idempotency_key(request),
    )
    session, message_id = await server.runtime.conversations.begin(wanted, new.prompt, new.prompt_options())
    return json_response(BeginResult(session=session, message_id=message_id))


@routes.post(
    "/v1/sessions/{id}/prompts",
    access="token",
    key=True,
    body=FollowUpPrompt,
    response=SendResult,
    most_bytes=MOST_PROMPT_BYTES,
)
async def post_prompt(server: ServerContext, request: Request) -> Response:
    """Send typed text as a prompt without waiting."""
    body = read_body(request, FollowUpPrompt)
    admitted = await server.runtime.admit_prompt(
        session_id(request),
        body.prompt,
        key=idempotency_key(request),
        wakes=body.wakes,
        **body.prompt_options(),
    )
    return json_response(SendResult(message_id=admitted.message_id, new=admitted.new))
