"""Actions of OpenCode's clients on a session: command, shell, summary, init, background."""

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256

from asyncagents.domain.conversation.entry import Entry
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.domain.conversation.part_input import FileInput
from asyncagents.domain.id import MessageId, SessionId
from asyncagents.domain.shape import Shape, encode
from asyncagents.engine.input.builtin_commands import INIT
from asyncagents.engine.input.message import To
from asyncagents.engine.runtime.answers import Sent
from asyncagents.errors import InvalidInput
from asyncagents.server.http.body import STOPPING, read
from asyncagents.server.http.messages import Answer, Request, refused, shown
from asyncagents.server.opencode.prompt import MOST_BYTES, STOPS, while_wanted
from asyncagents.server.opencode.session import NO_VARIANT
from asyncagents.server.params import KEYED, key, session_id
from asyncagents.server.route import Route, Site


class Shell(Shape, frozen=True, kw_only=True):
    """A shell command of the person: no rules apply, no model is involved, only an abort ends it."""

    command: str
    agent: str | None = None
    model: ModelRef | None = None
    message_id: MessageId | None = None


class Command(Shape, frozen=True, kw_only=True):
    """`command`: its name; `model`: "provider/model"; `parts`: attached files."""

    command: str
    arguments: str = ""
    agent: str | None = None
    model: str | None = None
    variant: str | None = None
    message_id: MessageId | None = None
    parts: tuple[FileInput, ...] = ()


class Summarize(Shape, frozen=True, kw_only=True):
    """The model that writes the summary. `auto`: the session continues its work afterwards."""

    provider_id: str
    model_id: str
    auto: bool = False


class Init(Shape, frozen=True, kw_only=True):
    """The model that runs the command `init`."""

    provider_id: str
    model_id: str
    message_id: MessageId | None = None


class Capabilities(Shape, frozen=True, kw_only=True):
    background_subagents: bool


async def post_shell(site: Site, request: Request) -> Answer:
    """A disconnect does not cancel the work."""
    wanted, at = read(request, Shell), session_id(request)
    to = To(agent=wanted.agent, model=wanted.model, message_id=wanted.message_id)
    with _told_of(site, at):
        sent = await site.runtime.hand_in_shell(at, wanted.command, key=_key(request, wanted), **to)
    return await _answered(site, request, sent)


async def post_command(site: Site, request: Request) -> Answer:
    """A disconnect does not cancel the work."""
    wanted, at = read(request, Command), session_id(request)
    to = To(
        agent=wanted.agent,
        model=wanted.model,
        variant=None if wanted.variant == NO_VARIANT else wanted.variant,
        parts=wanted.parts,
        message_id=wanted.message_id,
    )
    named = _key(request, wanted)
    with _told_of(site, at):
        sent = await site.runtime.hand_in_command(at, wanted.command, wanted.arguments, key=named, **to)
    return await _answered(site, request, sent)


async def summarize(site: Site, request: Request) -> Answer:
    """Returns true when the summary, and with it the turn, has ended; the last message says if it failed."""
    wanted, at = read(request, Summarize), session_id(request)
    model = ModelRef(provider_id=wanted.provider_id, model_id=wanted.model_id)
    sent = await site.runtime.hand_in_summary(at, key=key(request), model=model, goes_on=wanted.auto)
    return await _answered(site, request, sent, shows=False)


async def init(site: Site, request: Request) -> Answer:
    wanted, at = read(request, Init), session_id(request)
    model = ModelRef(provider_id=wanted.provider_id, model_id=wanted.model_id)
    to = To(model=model, message_id=wanted.message_id)
    sent = await site.runtime.hand_in_command(at, INIT, key=_key(request, wanted), **to)
    return await _answered(site, request, sent, shows=False)


async def background(site: Site, request: Request) -> Answer:
    """Returns false if the session waited for no task."""
    return shown(bool(await site.runtime.background(session_id(request))))


async def capabilities(site: Site, request: Request) -> Answer:
    return shown(Capabilities(background_subagents=True))


@contextmanager
def _told_of(site: Site, session_id: SessionId) -> Iterator[None]:
    """Publish a refusal as an event, too: OpenCode's terminal UI ignores the responses of these routes."""
    try:
        yield
    except InvalidInput as error:
        site.runtime.say_refused(session_id, error)
        raise


def _key(request: Request, wanted: Shell | Command | Init) -> str | None:
    """Return the Idempotency-Key; default: message id and content hash, so that other content conflicts."""
    given = key(request)
    if given is not None or wanted.message_id is None:
        return given
    return f"{wanted.message_id}:{sha256(encode(wanted)).hexdigest()[:16]}"


async def _answered(site: Site, request: Request, sent: Sent, *, shows: bool = True) -> Answer:
    answer = await while_wanted(site, request, sent.answer(SessionId(session_id(request))))
    if answer is None:
        return refused(503, STOPS, STOPPING)
    return shown(answer if shows else True)


_AT = "/session/{id}"
_SENT = (400, 404, 409, 413, 415, 503)

ROUTES: tuple[Route, ...] = (
    Route(
        method="POST",
        path=f"{_AT}/shell",
        handler=post_shell,
        access="token",
        summary="Run a person's shell command in a resting session and wait for its end",
        headers=(KEYED,),
        body=Shell,
        answer=Entry,
        statuses=_SENT,
    ),
    Route(
        method="POST",
        path=f"{_AT}/command",
        handler=post_command,
        access="token",
        summary="Run a slash command and wait for the answer",
        headers=(KEYED,),
        body=Command,
        answer=Entry,
        statuses=_SENT,
        most_bytes=MOST_BYTES,
    ),
    Route(
        method="POST",
        path=f"{_AT}/summarize",
        handler=summarize,
        access="token",
        summary="Summarize a session's history and wait for the end",
        headers=(KEYED,),
        body=Summarize,
        answer=bool,
        statuses=_SENT,
    ),
    Route(
        method="POST",
        path=f"{_AT}/init",
        handler=init,
        access="token",
        summary="Run the command `init`, which writes AGENTS.md, and wait for the end",
        headers=(KEYED,),
        body=Init,
        answer=bool,
        statuses=_SENT,
    ),
    Route(
        method="POST",
        path="/experimental/session/{id}/background",
        handler=background,
        access="token",
        summary="Move the tasks that a session waits for to the background",
        answer=bool,
        statuses=(404,),
    ),
    Route(
        method="GET",
        path="/experimental/capabilities",
        handler=capabilities,
        access="token",
        summary="Get experimental capabilities",
        answer=Capabilities,
    ),
)
