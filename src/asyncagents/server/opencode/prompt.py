"""`/session/{id}/message` and `/session/{id}/prompt_async`: prompts to a session, in OpenCode's shapes."""

import asyncio
from collections.abc import Awaitable
from hashlib import sha256
from typing import Protocol, TypeVar

from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.message import MessageFormat, ModelRef
from asyncagents.domain.conversation.part_input import PartInput
from asyncagents.domain.id import MessageId
from asyncagents.domain.shape import Shape, encode
from asyncagents.engine.input.message import PromptOptions
from asyncagents.engine.runtime.answers import SubmittedPrompt
from asyncagents.errors import InvalidInput
from asyncagents.server.http.body import MOST_PROMPT_BYTES, STOPPING_HEADERS, read_body
from asyncagents.server.http.messages import Request, Response, error_response, json_response
from asyncagents.server.opencode.session import NO_VARIANT
from asyncagents.server.params import idempotency_key, session_id
from asyncagents.server.route import Routes, ServerContext

routes = Routes()

T = TypeVar("T")

MOST_PARTS = 1_000
"""Each part is a row and an event; many more would block other requests."""

_STOPPING = (
    "the server is stopping; the prompt is stored: repeat the request with the same Idempotency-Key later"
)


class Prompt(Shape, frozen=True, kw_only=True):
    """`noReply`: store it for the next turn, without a reply. `tools`: allowed tools from now on."""

    parts: tuple[PartInput, ...]
    message_id: MessageId | None = None
    agent: str | None = None
    model: ModelRef | None = None
    variant: str | None = None
    format: MessageFormat | None = None
    system: str | None = None
    tools: dict[str, bool] | None = None
    no_reply: bool | None = None

    def prompt_options(self) -> PromptOptions:
        if not self.parts:
            raise InvalidInput("the prompt has no parts: give at least one, such as a text")
        if len(self.parts) > MOST_PARTS:
            raise InvalidInput(f"the prompt has too many parts: at most {MOST_PARTS}")
        return PromptOptions(
            agent=self.agent,
            model=self.model,
            variant=None if self.variant == NO_VARIANT else self.variant,
            format=self.format,
            parts=self.parts,
            system=self.system,
            tools=self.tools,
            message_id=self.message_id,
        )


class _WithMessageId(Protocol):
    @property
    def message_id(self) -> MessageId | None: ...


def request_key(request: Request, body: _WithMessageId) -> str | None:
    """Return the Idempotency-Key; default: message id and content hash, so that other content conflicts."""
    given = idempotency_key(request)
    if given is not None or body.message_id is None:
        return given
    return f"{body.message_id}:{sha256(encode(body)).hexdigest()[:16]}"


@routes.post(
    "/session/{id}/message",
    access="token",
    key=True,
    body=Prompt,
    response=MessageWithParts,
    most_bytes=MOST_PROMPT_BYTES,
)
async def post_message(server: ServerContext, request: Request) -> Response:
    """Send a prompt and wait for the answer.

    A disconnect does not cancel the prompt; a repeat with the same key returns the same answer."""
    prompt, at = read_body(request, Prompt), session_id(request)
    named = request_key(request, prompt)
    if prompt.no_reply:
        sent = await server.runtime.send(at, "", key=named, wakes=False, **prompt.prompt_options())
        return json_response(await server.runtime.message(sent))
    given = await server.runtime.submit(at, "", key=named, **prompt.prompt_options())
    return await answer_response(server, request, given)


@routes.post(
    "/session/{id}/prompt_async", access="token", key=True, body=Prompt, most_bytes=MOST_PROMPT_BYTES
)
async def post_async(server: ServerContext, request: Request) -> Response:
    """Send a prompt without waiting."""
    prompt = read_body(request, Prompt)
    wakes = not prompt.no_reply
    await server.runtime.send(
        session_id(request), "", key=request_key(request, prompt), wakes=wakes, **prompt.prompt_options()
    )
    return Response(204)


async def answer_response(
    server: ServerContext, request: Request, sent: SubmittedPrompt, *, shows: bool = True
) -> Response:
    """Wait for the answer to a prompt and respond with it, or with true unless `shows`."""
    answer = await _until_disconnect(server, request, sent.answer(session_id(request)))
    if answer is None:
        return error_response(503, _STOPPING, STOPPING_HEADERS)
    return json_response(answer if shows else True)


async def _until_disconnect(server: ServerContext, request: Request, work: Awaitable[T]) -> T | None:
    """Await `work`; cancel it and return None if the server stops or the client disconnects."""
    async with asyncio.TaskGroup() as group:
        working = group.create_task(_catch_error(work))
        stopping = group.create_task(server.closing.wait())
        leaving = group.create_task(request.wait_for_disconnect())
        await asyncio.wait((working, stopping, leaving), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        leaving.cancel()
        if not working.done():
            working.cancel()
            return None
        value, error = working.result()
    if error is not None:
        raise error
    assert value is not None, "a value without an error is not None"
    return value


async def _catch_error(work: Awaitable[T]) -> tuple[T | None, Exception | None]:
    """Return the error instead of raising it: a task group would wrap it."""
    try:
        return await work, None
    except Exception as error:  # noqa: BLE001  raised again by the waiter
        return None, error
