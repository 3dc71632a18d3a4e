"""Ask a model for a title of a session with a long first prompt, while the first step runs."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import aclosing
from itertools import islice

from msgspec.structs import replace

from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.message import ModelRef, UserMessage
from asyncagents.domain.conversation.part import TextPart
from asyncagents.domain.conversation.session import TITLE_LENGTH, Session, TitleEnd, Tokens, title_from
from asyncagents.domain.id import Ids
from asyncagents.engine.observer import NOOP_OBSERVER, Observer
from asyncagents.engine.workplace.workplace import Workplace
from asyncagents.errors import AsyncAgentsError
from asyncagents.llm.limits import Limits
from asyncagents.llm.model import (
    ChatRequest,
    Model,
    ModelTurn,
    StepFinish,
    StreamError,
    TextBlock,
    TextDelta,
    UserTurn,
)
from asyncagents.store.store import Store

TIMEOUT_SECONDS = 60.0
MAX_PROMPT_CHARS = 8_000
"""How much of a long prompt the title is made from."""
TITLE_AGENT = "title"
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
        observer: Observer = NOOP_OBSERVER,
    ) -> None:
        self._observer = observer
        self._store = store
        self._model = model
        self._limits = limits
        self._ids = ids
        self._group = group
        self._running: set[asyncio.Task[None]] = set()

    def begin(
        self, session: Session, workplace: Workplace, entries: tuple[MessageWithParts, ...], model: ModelRef
    ) -> None:
        """Start a title with the first step of a root session whose prompt is too long to be its title."""
        text = _first_prompt_text(entries)
        is_long = len(text) > TITLE_LENGTH or "\n" in text.strip()
        if session.parent_id is not None or not is_long or session.title != title_from(text):
            return
        task = workplace.title_request(model)
        if task is not None and not self._limits.is_full(task.model):
            request = replace(task, messages=(UserTurn(text[:MAX_PROMPT_CHARS]),))
            running = self._group.create_task(self._make_title(session, request))
            self._running.add(running)
            running.add_done_callback(self._running.discard)

    def stop(self) -> None:
        """Cancel the titles under way."""
        for running in tuple(self._running):
            running.cancel()

    async def _make_title(self, session: Session, request: ChatRequest) -> None:
        request_id = self._ids.request()
        end = TitleEnd(session_id=session.id, request_id=request_id, before=session.title)
        try:
            slot = await self._limits.slot(request.model)
            try:
                await self._store.start_title(session.id, request_id, _estimate_tokens(request))
                await self._ask_with_timeout(request, end)
            finally:
                slot.release()
        except (AsyncAgentsError, TimeoutError) as error:
            _log.info("session=%s action=title failed, the title stays: %s", session.id, error)
        except Exception as error:  # noqa: BLE001  the edge of a provider: a title fails nothing else
            _log.warning("session=%s action=title failed, the title stays", session.id, exc_info=True)
            self._observer.report_fault("title", error)

    async def _ask_with_timeout(self, request: ChatRequest, end: TitleEnd) -> None:
        """Ask for the title and store its cost, also on a failure or a timeout."""
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                end = await self._ask_model(request, end)
        finally:
            await self._store.end_title(end)

    async def _ask_model(self, request: ChatRequest, end: TitleEnd) -> TitleEnd:
        words: list[str] = []
        with self._observer.model_span(request, end.session_id, TITLE_AGENT) as seen:
            async with aclosing(self._model.stream(request)) as events:
                async for event in events:
                    match event:
                        case TextDelta(text=text):
                            words.append(text)
                        case StepFinish(finish=finish, tokens=tokens, cost=cost):
                            seen.record_outcome(event, None, lambda: ModelTurn((TextBlock("".join(words)),)))
                            answer = "".join(words) if finish == "stop" else ""
                            end = replace(end, title=_clean_title(answer), tokens=tokens, cost=cost)
                        case StreamError(failure=failure):
                            seen.record_outcome(None, failure, lambda: ModelTurn(()))
                            return replace(end, tokens=Tokens.zero())
                        case _:
                            pass
        return end


def _estimate_tokens(request: ChatRequest) -> Tokens:
    prompt_chars = sum(len(each.text) for each in request.messages if isinstance(each, UserTurn))
    return replace(Tokens.zero(), input=(len(request.system) + prompt_chars) // 4)


def _first_prompt_text(entries: tuple[MessageWithParts, ...]) -> str:
    """Return the text of the first prompt, as `admit` reads it for a title."""
    return next(_prompt_texts(entries), "")


def is_first_prompt(entries: tuple[MessageWithParts, ...]) -> bool:
    """Whether there is exactly one prompt; a person's shell commands do not count."""
    return len(list(islice(_prompt_texts(entries), 2))) == 1


def _prompt_texts(entries: tuple[MessageWithParts, ...]) -> Iterator[str]:
    for entry in entries:
        texts = [part.text for part in entry.parts if isinstance(part, TextPart) and not part.synthetic]
        if texts and isinstance(entry.info, UserMessage):
            yield "\n".join(texts)


def _clean_title(text: str) -> str:
    """Return the first line of a title, without thinking text, quotes and markup."""
    lines = [line.strip().strip("\"'`*# ") for line in text.split("</think>")[-1].splitlines()]
    line = next((line for line in lines if line), "")
    return line if len(line) <= TITLE_LENGTH else f"{line[: TITLE_LENGTH - 1].rstrip()}…"
