"""Adapter for further providers through pydantic-ai; importing it requires the extra `providers`."""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec
from msgspec.structs import replace
from pydantic_ai import exceptions as theirs
from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import ModelResponseStreamEvent
from pydantic_ai.models import Model as TheirModel
from pydantic_ai.models import StreamedResponse
from pydantic_ai.providers import Provider

from asyncagents.domain.conversation.failure import (
    APIError,
    ContextOverflowError,
    ProviderAuthError,
    content_filter_error,
)
from asyncagents.domain.text import replace_surrogates, replace_surrogates_in
from asyncagents.llm.http.answer_size import AnswerTooLarge
from asyncagents.llm.http.errors import (
    ProviderResponse,
    RequestTarget,
    answer_too_large,
    bad_response,
    idle_timeout,
    invalid_request,
    provider_error,
)
from asyncagents.llm.http.network_errors import network_error
from asyncagents.llm.http.redact import redact_url, secrets_of
from asyncagents.llm.http.request import Endpoint
from asyncagents.llm.model import ChatRequest, ModelEvent, StepStart, StreamError, StreamStart
from asyncagents.llm.pydantic_ai.build import build_model, build_provider, build_settings
from asyncagents.llm.pydantic_ai.events import PydanticAiReader, final_events
from asyncagents.llm.pydantic_ai.request import build_messages, build_parameters

# Each SDK has its own network error classes, with one of these words in their names.
_NETWORK_ERROR_NAMES = re.compile(r"Connect|Timeout|Transport|Network|Protocol")


# The status for an error that has none, or a less specific one.
_STATUS: tuple[tuple[type[theirs.ModelAPIError], int], ...] = (
    (theirs.ModelContextWindowExceededError, 413),
    (theirs.ModelAuthenticationError, 401),
    (theirs.ModelNotFoundError, 404),
    (theirs.ModelQuotaExceededError, 402),
    (theirs.ModelRequestRejectedError, 400),
    (theirs.ModelRateLimitError, 429),
    (theirs.ModelUnavailableError, 503),
    (theirs.ModelServerError, 500),
)


class IdleTimeoutError(Exception):
    """The stream sent nothing within its timeout."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"nothing came for {seconds:g} seconds")
        self.seconds = seconds


class PydanticAiModel:
    """The model of one pydantic-ai provider; its SDK is imported by the first request."""

    def __init__(self, kind: str, endpoint: Endpoint, options: Mapping[str, Any]) -> None:
        self._kind = kind
        self._endpoint = endpoint
        self._options = options
        self._provider: Provider[Any] | None = None
        self._models: dict[str, TheirModel] = {}
        self._build_lock = asyncio.Lock()

    async def close(self) -> None:
        provider, self._provider = self._provider, None
        if provider is not None:
            await provider.__aexit__(None, None, None)

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ModelEvent, None]:
        try:
            async with self._open_stream(request) as response:
                yield StreamStart()
                yield StepStart()
                reader = PydanticAiReader(request.model.model_id)
                async for event in self._read_events(response):
                    for model_event in reader.read(event):
                        yield model_event
                for model_event in final_events(response.get()):
                    yield model_event
        except Exception as error:  # noqa: BLE001  a dozen SDKs raise error classes of their own
            yield map_error(self._target(request), error)

    @asynccontextmanager
    async def _open_stream(self, request: ChatRequest) -> AsyncIterator[StreamedResponse]:
        model = await self._model(request.model.model_id)
        given = build_settings(self._kind, model, request, self._endpoint.headers)
        stream = model_request_stream(
            model,
            build_messages(request),
            model_settings=given,
            model_request_parameters=build_parameters(request),
        )
        async with AsyncExitStack() as stack:
            async with self._limit_idle(self._endpoint.first_seconds):
                response = await stack.enter_async_context(stream)
            yield response

    async def _model(self, model_id: str) -> TheirModel:
        """Return the model, built once with its provider; in a thread, since the imports take a second."""
        async with self._build_lock:
            if self._provider is None:
                made = await asyncio.to_thread(build_provider, self._kind, self._endpoint, self._options)
                self._provider = await made.__aenter__()
            if model_id not in self._models:
                model = await asyncio.to_thread(build_model, self._kind, model_id, self._provider)
                self._models[model_id] = model
        return self._models[model_id]

    async def _read_events(self, response: StreamedResponse) -> AsyncIterator[ModelResponseStreamEvent]:
        events, seconds = aiter(response), self._endpoint.first_seconds
        while True:
            async with self._limit_idle(seconds):
                event = await anext(events, None)
            if event is None:
                return
            seconds = self._endpoint.idle_seconds
            yield event

    @asynccontextmanager
    async def _limit_idle(self, seconds: float) -> AsyncIterator[None]:
        timer = asyncio.timeout(seconds or None)
        try:
            async with timer:
                yield
        except TimeoutError as error:
            raise IdleTimeoutError(seconds) if timer.expired() else error from error

    def _target(self, request: ChatRequest) -> RequestTarget:
        endpoint = self._endpoint
        return RequestTarget(
            provider_id=endpoint.provider_id,
            model_id=request.model.model_id,
            url=redact_url(self._provider.base_url if self._provider else endpoint.base_url),
            has_key=endpoint.api_key is not None,
            secrets=secrets_of(endpoint.api_key, tuple(endpoint.headers.values()), endpoint.base_url),
        )


def map_error(target: RequestTarget, error: Exception) -> StreamError:
    """Map an exception to the same errors as the other adapters."""
    match error:
        case IdleTimeoutError():
            return idle_timeout(target, error.seconds)
        case AnswerTooLarge():
            return answer_too_large(target, error)
        case theirs.ModelAPIError():
            return _with_retry_after(_map_api_error(target, error), error)
        case theirs.ContentFilterError():
            return StreamError(content_filter_error(replace_surrogates(target.redact(error.message))))
        case theirs.UnexpectedModelBehavior():
            return bad_response(
                target, "something unexpected", ProviderResponse(body=_body_bytes(error.message))
            )
        case _ if isinstance(error, OSError) or _NETWORK_ERROR_NAMES.search(type(error).__name__):
            return network_error(target, error)
        case _:
            return invalid_request(target, error)


def _map_api_error(target: RequestTarget, error: theirs.ModelAPIError) -> StreamError:
    """Map an API error by the provider's response, or by the library's class where the two disagree."""
    own = next((status for kind, status in _STATUS if isinstance(error, kind)), None)
    status = error.status_code if isinstance(error, theirs.ModelHTTPError) else own
    if status is None and error.body is None:
        return network_error(target, error, f"{error.message} {_root_cause(error)}")
    headers = error.headers if isinstance(error, theirs.ModelHTTPError) else None
    answer = ProviderResponse(
        body=_body_bytes(error.message if error.body is None else error.body),
        status=status,
        headers=headers or {},
    )
    stream_error = provider_error(target, answer)
    return (
        stream_error if _agrees(stream_error, error) else provider_error(target, replace(answer, status=own))
    )


def _agrees(stream_error: StreamError, error: theirs.ModelAPIError) -> bool:
    match error:
        case theirs.ModelContextWindowExceededError():
            return isinstance(stream_error.failure, ContextOverflowError)
        case theirs.ModelAuthenticationError():
            return isinstance(stream_error.failure, ProviderAuthError)
        case theirs.ModelQuotaExceededError() | theirs.ModelRequestRejectedError():
            return not _is_retryable(stream_error)
        case _:
            return True


def _with_retry_after(stream_error: StreamError, error: theirs.ModelAPIError) -> StreamError:
    return (
        replace(stream_error, retry_after=error.retry_after) if _is_retryable(stream_error) else stream_error
    )


def _is_retryable(stream_error: StreamError) -> bool:
    return isinstance(stream_error.failure, APIError) and stream_error.failure.data.is_retryable


def _root_cause(error: BaseException) -> str:
    """Describe the root cause of an error."""
    while error.__cause__ is not None:
        error = error.__cause__
    return f"({type(error).__name__}: {error})"


def _body_bytes(body: object) -> bytes:
    match body:
        case bytes():
            return body
        case str():
            return body.encode("utf-8", "replace")
        case _:
            return msgspec.json.encode(replace_surrogates_in(body), enc_hook=str)
