"""Sending prompts: waiting for the answer, without waiting, and beginning a session."""

import asyncio
from collections.abc import Awaitable
from hashlib import sha256
from typing import TypeVar

from asyncagents.domain.conversation.entry import Entry
from asyncagents.domain.conversation.message import ModelRef, OutputFormat
from asyncagents.domain.conversation.part_input import PartInput
from asyncagents.domain.conversation.session import Rule
from asyncagents.domain.http_shapes import Begun, Sent, SentFile
from asyncagents.domain.id import MessageId
from asyncagents.domain.shape import Shape, encode
from asyncagents.engine.input.message import To
from asyncagents.errors import InvalidInput
from asyncagents.llm.model import Attachment
from asyncagents.server.http.body import STOPPING, read
from asyncagents.server.http.messages import Answer, Request, refused, shown
from asyncagents.server.opencode.session import NO_VARIANT
from asyncagents.server.params import DIRECTED, DIRECTORY, KEYED, a_directory, directory, key, session_id
from asyncagents.server.route import Route, Site

T = TypeVar("T")

MOST_BYTES = 10 * 1024 * 1024
"""Images are sent as data: URLs."""
MOST_PARTS = 1_000
"""Each part is a row and an event; many more would block other requests."""

STOPS = "the server is stopping; the prompt is stored: repeat the request with the same Idempotency-Key later"


class Prompt(Shape, frozen=True, kw_only=True):
    """`noReply`: store it for the next turn, without a reply. `tools`: allowed tools from now on."""

    parts: tuple[PartInput, ...]
    message_id: MessageId | None = None
    agent: str | None = None
    model: ModelRef | None = None
    variant: str | None = None
    format: OutputFormat | None = None
    system: str | None = None
    tools: dict[str, bool] | None = None
    no_reply: bool | None = None

    def to(self) -> To:
        if not self.parts:
            raise InvalidInput("the prompt has no parts: give at least one, such as a text")
        if len(self.parts) > MOST_PARTS:
            raise InvalidInput(f"the prompt has too many parts: at most {MOST_PARTS}")
        return To(
            agent=self.agent,
            model=self.model,
            variant=None if self.variant == NO_VARIANT else self.variant,
            format=self.format,
            parts=self.parts,
            system=self.system,
            tools=self.tools,
            message_id=self.message_id,
        )

    def key(self, request: Request) -> str | None:
        """Return the Idempotency-Key; default: message id and content hash, so other content conflicts."""
        given = key(request)
        if given is not None or self.message_id is None:
            return given
        return f"{self.message_id}:{sha256(encode(self)).hexdigest()[:16]}"


class Typed(Shape, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Typed text: commands and mentions are expanded. `files`: paths on the server, URLs, or contents."""

    prompt: str
    agent: str | None = None
    model: str | None = None
    variant: str | None = None
    format: OutputFormat | None = None
    files: tuple[str | SentFile, ...] = ()

    def to(self) -> To:
        files = [each if isinstance(each, str) else _attached(each) for each in self.files]
        return To(agent=self.agent, model=self.model, variant=self.variant, format=self.format, files=files)


def _attached(file: SentFile) -> Attachment:
    return Attachment(mime=file.mime, url=file.url, filename=file.filename)


class Beginning(Typed, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new session with its first prompt; both are created, or neither."""

    title: str | None = None
    directory: str | None = None
    permission: tuple[Rule, ...] = ()


class Following(Typed, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`wakes`: false stores the prompt for the next turn."""

    wakes: bool = True


async def post_message(site: Site, request: Request) -> Answer:
    """A disconnect does not cancel the prompt; a repeat with the same key returns the same answer."""
    prompt, at = read(request, Prompt), session_id(request)
    named = prompt.key(request)
    if prompt.no_reply:
        sent = await site.runtime.send(at, "", key=named, wakes=False, **prompt.to())
        return shown(await site.runtime.message(sent))
    given = await site.runtime.hand_in(at, "", key=named, **prompt.to())
    answer = await while_wanted(site, request, given.answer(at))
    return refused(503, STOPS, STOPPING) if answer is None else shown(answer)


async def post_async(site: Site, request: Request) -> Answer:
    prompt = read(request, Prompt)
    wakes = not prompt.no_reply
    await site.runtime.send(session_id(request), "", key=prompt.key(request), wakes=wakes, **prompt.to())
    return Answer(204)


async def begin(site: Site, request: Request) -> Answer:
    new = read(request, Beginning)
    session, message_id = await site.runtime.begin(
        new.prompt,
        title=new.title,
        directory=a_directory(new.directory) if new.directory else directory(site, request),
        key=key(request),
        permission=new.permission,
        **new.to(),
    )
    return shown(Begun(session=session, message_id=message_id))


async def post_prompt(site: Site, request: Request) -> Answer:
    said = read(request, Following)
    sent = await site.runtime.send(
        session_id(request), said.prompt, key=key(request), wakes=said.wakes, **said.to()
    )
    return shown(Sent(message_id=sent))


async def while_wanted(site: Site, request: Request, work: Awaitable[T]) -> T | None:
    """Await `work`; cancel it and return None if the server stops or the client disconnects."""
    async with asyncio.TaskGroup() as group:
        working = group.create_task(_caught(work))
        stopping = group.create_task(site.closing.wait())
        leaving = group.create_task(request.gone())
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


async def _caught(work: Awaitable[T]) -> tuple[T | None, Exception | None]:
    """Return the error instead of raising it: a task group would wrap it."""
    try:
        return await work, None
    except Exception as error:  # noqa: BLE001  raised again by the waiter
        return None, error


_SENT = (400, 404, 409, 413, 415, 503)

ROUTES: tuple[Route, ...] = (
    Route(
        method="POST",
        path="/session/{id}/message",
        handler=post_message,
        access="token",
        summary="Send a prompt and wait for the answer",
        headers=(KEYED,),
        body=Prompt,
        answer=Entry,
        statuses=_SENT,
        most_bytes=MOST_BYTES,
    ),
    Route(
        method="POST",
        path="/session/{id}/prompt_async",
        handler=post_async,
        access="token",
        summary="Send a prompt without waiting",
        headers=(KEYED,),
        body=Prompt,
        statuses=_SENT,
        most_bytes=MOST_BYTES,
    ),
    Route(
        method="POST",
        path="/v1/sessions",
        handler=begin,
        access="token",
        summary="Create a session with its first prompt; once per Idempotency-Key",
        query=(DIRECTORY,),
        headers=(DIRECTED, KEYED),
        body=Beginning,
        answer=Begun,
        statuses=_SENT,
        most_bytes=MOST_BYTES,
    ),
    Route(
        method="POST",
        path="/v1/sessions/{id}/prompts",
        handler=post_prompt,
        access="token",
        summary="Send typed text as a prompt without waiting",
        headers=(KEYED,),
        body=Following,
        answer=Sent,
        statuses=_SENT,
        most_bytes=MOST_BYTES,
    ),
)
