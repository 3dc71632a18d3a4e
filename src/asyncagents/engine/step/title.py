"""Ask a model for a title of a session with a long first prompt, while the first step runs."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import aclosing
from itertools import islice

from msgspec.structs import replace

from asyncagents.domain.conversation.entry import Entry
from asyncagents.domain.conversation.message import ModelRef, UserMessage
from asyncagents.domain.conversation.part import TextPart
from asyncagents.domain.conversation.session import TITLE_LENGTH, Session, Tokens, title_from
from asyncagents.domain.id import Ids
from asyncagents.engine.observer import UNWATCHED, Watch
from asyncagents.engine.workplace.workplace import Workplace
from asyncagents.errors import AsyncAgentsError
from asyncagents.llm.limits import Limits
from asyncagents.llm.model import (
    FromModel,
    FromUser,
    Model,
    Request,
    Said,
    StepFinish,
    StreamError,
    TextDelta,
)
from asyncagents.store.store import Store
from asyncagents.store.verb.title import Titled

SECONDS = 60.0
MOST = 8_000
"""How much of a long prompt the title is made from."""
WRITER = "title"
"""The agent that its spans name."""
_log = logging.getLogger(__name__)


class Titles:
    """Makes titles in the background; on a failure a session keeps the title from its first line."""

    def __init__(
        self,
        *,
        store: Store,
        model: Model,
        limits: Limits,
        ids: Ids,
        group: asyncio.TaskGroup,
        watch: Watch = UNWATCHED,
    ) -> None:
        self._watch = watch
        self._store = store
        self._model = model
        self._limits = limits
        self._ids = ids
        self._group = group
        self._running: set[asyncio.Task[None]] = set()

    def begin(self, session: Session, place: Workplace, told: tuple[Entry, ...], used: ModelRef) -> None:
        """Start a title with the first step of a root session whose prompt is too long to be its title."""
        text = _first(told)
        is_long = len(text) > TITLE_LENGTH or "\n" in text.strip()
        if session.parent_id is not None or not is_long or session.title != title_from(text):
            return
        task = place.titling(used)
        if task is not None and not self._limits.crowded(task.model):
            request = replace(task, messages=(FromUser(text[:MOST]),))
            running = self._group.create_task(self._make(session, request))
            self._running.add(running)
            running.add_done_callback(self._running.discard)

    def stop(self) -> None:
        """Cancel the titles under way."""
        for running in tuple(self._running):
            running.cancel()

    async def _make(self, session: Session, request: Request) -> None:
        request_id = self._ids.request()
        end = Titled(session_id=session.id, request_id=request_id, before=session.title)
        try:
            slot = await self._limits.slot(request.model)
            try:
                await self._store.start_title(session.id, request_id, _estimate(request))
                await self._timed(request, end)
            finally:
                slot.release()
        except (AsyncAgentsError, TimeoutError) as error:
            _log.info("session=%s action=title failed, the title stays: %s", session.id, error)
        except Exception as error:  # noqa: BLE001  the edge of a provider: a title fails nothing else
            _log.warning("session=%s action=title failed, the title stays", session.id, exc_info=True)
            self._watch.report_fault("title", error)

    async def _timed(self, request: Request, end: Titled) -> None:
        """Ask for the title and store its cost, also on a failure or a timeout."""
        try:
            async with asyncio.timeout(SECONDS):
                end = await self._asked(request, end)
        finally:
            await self._store.end_title(end)

    async def _asked(self, request: Request, end: Titled) -> Titled:
        words: list[str] = []
        with self._watch.model(request, end.session_id, WRITER) as seen:
            async with aclosing(self._model.stream(request)) as events:
                async for event in events:
                    match event:
                        case TextDelta(text=text):
                            words.append(text)
                        case StepFinish(finish=finish, tokens=tokens, cost=cost):
                            seen.ended(event, None, lambda: FromModel((Said("".join(words)),)))
                            said = "".join(words) if finish == "stop" else ""
                            end = replace(end, title=_clean(said), tokens=tokens, cost=cost)
                        case StreamError(failure=failure):
                            seen.ended(None, failure, lambda: FromModel(()))
                            return replace(end, tokens=Tokens.zero())
                        case _:
                            pass
        return end


def _estimate(request: Request) -> Tokens:
    told = sum(len(each.text) for each in request.messages if isinstance(each, FromUser))
    return replace(Tokens.zero(), input=(len(request.system) + told) // 4)


def _first(told: tuple[Entry, ...]) -> str:
    """Return the text of the first prompt, as `admit` reads it for a title."""
    return next(_said(told), "")


def first_prompt(told: tuple[Entry, ...]) -> bool:
    """Whether there is exactly one prompt; a person's shell commands do not count."""
    return len(list(islice(_said(told), 2))) == 1


def _said(told: tuple[Entry, ...]) -> Iterator[str]:
    for entry in told:
        texts = [part.text for part in entry.parts if isinstance(part, TextPart) and not part.synthetic]
        if texts and isinstance(entry.info, UserMessage):
            yield "\n".join(texts)


def _clean(said: str) -> str:
    """Return the first line of a title, without thinking text, quotes and markup."""
    lines = [line.strip().strip("\"'`*# ") for line in said.split("</think>")[-1].splitlines()]
    line = next((line for line in lines if line), "")
    return line if len(line) <= TITLE_LENGTH else f"{line[: TITLE_LENGTH - 1].rstrip()}…"
