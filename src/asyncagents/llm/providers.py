"""The engine's `Model` for all providers: each request goes to the provider that it names."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Protocol, TypeAlias, assert_never

from msgspec.structs import replace

from asyncagents.config.config import Config, ModelDeadlines
from asyncagents.domain.conversation.failure import api_error
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.domain.window import Window
from asyncagents.llm.anthropic.adapter import AnthropicMessages
from asyncagents.llm.catalog.catalog import ModelFacts
from asyncagents.llm.catalog.options import (
    CLIENT_OPTIONS,
    anthropic_options,
    merge_options,
    openai_options,
    resolve_options,
)
from asyncagents.llm.http.client import HttpClient, open_http_client
from asyncagents.llm.http.request import FIRST_SECONDS, IDLE_SECONDS, Endpoint
from asyncagents.llm.limits import DEFAULT_CONCURRENCY
from asyncagents.llm.model import (
    Attachment,
    ChatRequest,
    Model,
    ModelEvent,
    Options,
    RequestMessage,
    StepFinish,
    StreamError,
    ToolTurn,
    UserTurn,
)
from asyncagents.llm.openai.adapter import OpenAIChat
from asyncagents.llm.roster import Roster
from asyncagents.llm.usable_model import Problem, UsableModel
from asyncagents.llm.wire.attachment import mime_of, name_of, text_with_name
from asyncagents.llm.wire.choose import EXTRA, OPENAI, Wire

Headers: TypeAlias = tuple[tuple[str, str], ...]


class Closable(Protocol):
    async def close(self) -> None: ...


@asynccontextmanager
async def open_providers(config: Config) -> AsyncIterator["Providers"]:
    async with open_http_client() as http:
        providers = Providers(http, Roster(config))
        try:
            yield providers
        finally:
            await providers.close()


class Providers:
    """Routes requests to adapters; opened and closed by `open_providers`."""

    def __init__(self, http: HttpClient, roster: Roster) -> None:
        self._http = http
        self.roster = roster
        self._adapters: dict[tuple[str, Wire, Headers, ModelDeadlines], Model] = {}
        self._to_close: list[Closable] = []

    def window(self, ref: ModelRef) -> Window:
        facts = self.roster.catalog.find(ref)
        return Window(context=facts.context, input=facts.input, output=facts.output)

    def concurrency(self, ref: ModelRef) -> int:
        """Return how many requests may be open to a model at once."""
        return self.roster.concurrency(ref) or DEFAULT_CONCURRENCY

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ModelEvent, None]:
        offer = self.roster.offer(request.model, tools=bool(request.tools))
        if isinstance(offer, Problem):
            yield StreamError(offer.failure())
            return
        try:
            adapter = await self._adapter(offer)
        except ImportError as error:
            message = f"{request.model.provider_id}: {error}: {EXTRA} installs what is missing"
            yield StreamError(api_error(message, is_retryable=False))
            return
        async with aclosing(adapter.stream(adapt_request(offer, request))) as events:
            async for event in events:
                if isinstance(event, StepFinish):
                    event = _with_cost(event, offer.facts)
                yield event

    async def close(self) -> None:
        while self._to_close:
            await self._to_close.pop().close()

    async def _adapter(self, usable: UsableModel) -> Model:
        headers = {**usable.provider.headers, **usable.config.headers}
        at = usable.ref.provider_id, usable.wire, tuple(sorted(headers.items())), usable.config.deadlines
        if at not in self._adapters:
            made = await self._build_adapter(usable, _endpoint(usable, headers))
            self._adapters.setdefault(at, made)  # a concurrent request may have built it first
        return self._adapters[at]

    async def _build_adapter(self, usable: UsableModel, endpoint: Endpoint) -> Model:
        match usable.wire.adapter:
            case "openai":
                return OpenAIChat(self._http, endpoint)
            case "anthropic":
                return AnthropicMessages(self._http, endpoint)
            case "longtail":
                return await self._build_pydantic_ai(usable, endpoint)
            case _:
                assert_never(usable.wire.adapter)

    async def _build_pydantic_ai(self, usable: UsableModel, endpoint: Endpoint) -> Model:
        adapter = await asyncio.to_thread(_load_pydantic_ai, usable, endpoint)  # the import takes a second
        self._to_close.append(adapter)
        return adapter


class ClosableModel(Model, Closable, Protocol):
    pass


def _load_pydantic_ai(usable: UsableModel, endpoint: Endpoint) -> ClosableModel:
    from asyncagents.llm.pydantic_ai.adapter import PydanticAiModel  # optional extra

    return PydanticAiModel(usable.wire.kind, endpoint, usable.provider.options)


def _endpoint(usable: UsableModel, headers: dict[str, str]) -> Endpoint:
    own, its = usable.config.deadlines, usable.provider.deadlines
    return Endpoint(
        provider_id=usable.ref.provider_id,
        base_url=usable.base_url,
        api_key=usable.provider.api_key,
        headers=headers,
        first_seconds=_first_set(own.first_seconds, its.first_seconds, FIRST_SECONDS),
        idle_seconds=_first_set(own.idle_seconds, its.idle_seconds, IDLE_SECONDS),
    )


def _first_set(*given: float | None) -> float:
    return next(each for each in given if each is not None)


def adapt_request(usable: UsableModel, request: ChatRequest) -> ChatRequest:
    """Adapt the request to the provider: its model name and options, without what this model refuses."""
    facts = usable.facts
    return replace(
        request,
        model=ModelRef(provider_id=usable.ref.provider_id, model_id=usable.own_id),
        messages=_supported_messages(request.messages, facts, everything=usable.wire.adapter == "longtail"),
        tools=() if facts.tools is False else request.tools,
        options=_request_options(usable, request),
    )


def _request_options(usable: UsableModel, request: ChatRequest) -> Options:
    """Merge the options of provider, model, variant and request; a later one wins."""
    of_provider = {key: value for key, value in usable.provider.options.items() if key not in CLIENT_OPTIONS}
    body = merge_options((of_provider, usable.config.options, usable.variant, request.options.body))
    options = resolve_options(request.options, body, usable.facts)
    match usable.wire.adapter:
        case "openai":
            return _without_thinking(openai_options(options), usable, request)
        case "anthropic":
            return anthropic_options(options, usable.facts)
        case "longtail":
            return options
        case _:
            assert_never(usable.wire.adapter)


def _without_thinking(options: Options, usable: UsableModel, request: ChatRequest) -> Options:
    """Disable reasoning where OpenAI's chat completions refuse tools to a reasoning model."""
    if usable.provider.npm != OPENAI or usable.facts.api == "chat" or not request.tools:
        return options
    return replace(options, body={**options.body, "reasoning_effort": "none"})


def _supported_messages(
    messages: Sequence[RequestMessage], facts: ModelFacts, *, everything: bool
) -> Sequence[RequestMessage]:
    """Replace files that the model does not accept by notes; return the same messages if there are none."""
    if not any(isinstance(message, UserTurn | ToolTurn) and message.files for message in messages):
        return messages
    return [
        _without_unsupported_files(message, facts, everything)
        if isinstance(message, UserTurn | ToolTurn)
        else message
        for message in messages
    ]


def _without_unsupported_files(
    turn: UserTurn | ToolTurn, facts: ModelFacts, everything: bool
) -> UserTurn | ToolTurn:
    out = {file: why for file in turn.files if (why := _refusal_reason(file, facts, everything))}
    if not out:
        return turn
    notes = [f"[{name_of(file)} ({mime_of(file)}) was left out: {why}]" for file, why in out.items()]
    files = tuple(file for file in turn.files if file not in out)
    text = turn.text if isinstance(turn, UserTurn) else turn.output
    text = "\n".join([text, *notes] if text else notes)
    if isinstance(turn, UserTurn):
        return UserTurn(text, files)
    return replace(turn, output=text, files=files)


def _refusal_reason(file: Attachment, facts: ModelFacts, everything: bool) -> str | None:
    """Return why the model does not accept a file; None if it does, or if that is unknown."""
    mime = mime_of(file)
    if mime.startswith("image/"):
        return "this model takes no images" if facts.images is False else None
    if mime == "application/pdf":
        return "this model takes no PDF" if facts.pdf is False else None
    if everything or text_with_name(file) is not None:
        return None
    return "this model takes no such files"


def _with_cost(event: StepFinish, facts: ModelFacts) -> StepFinish:
    """Add the cost by the catalog, unless the provider reported one."""
    if event.cost or event.tokens is None:
        return event
    return replace(event, cost=facts.cost(event.tokens))
