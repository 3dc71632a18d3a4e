"""Adapter for OpenAI's chat completions and compatible servers: Ollama, vLLM, LM Studio, OpenRouter, …"""

from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Any, Generic, TypeVar

import msgspec

from asyncagents.domain.bounded_dict import BoundedDict
from asyncagents.llm.http.client import HttpClient
from asyncagents.llm.http.request import Endpoint, build_request, clean_key, join_url
from asyncagents.llm.model import (
    ChatRequest,
    ModelEvent,
    ToolSpec,
)
from asyncagents.llm.openai.request import tool_definitions, write_body
from asyncagents.llm.openai.stream import OpenAIReader

T = TypeVar("T")
MAX_ENTRIES = 16


class EncodedCache(Generic[T]):
    """Encodes immutable values once, by identity."""

    def __init__(self, write: Callable[[T], Any]) -> None:
        self._write = write
        self._known: BoundedDict[int, tuple[T, msgspec.Raw]] = BoundedDict(MAX_ENTRIES)

    def __call__(self, value: T) -> msgspec.Raw:
        entry = self._known.get(id(value))
        if entry is None:
            entry = self._known[id(value)] = value, msgspec.Raw(msgspec.json.encode(self._write(value)))
        return entry[1]


class OpenAIChat:
    def __init__(self, http: HttpClient, endpoint: Endpoint) -> None:
        self._http = http
        self._endpoint = endpoint
        self._tools: EncodedCache[tuple[ToolSpec, ...]] = EncodedCache(tool_definitions)

    def stream(self, request: ChatRequest) -> AsyncGenerator[ModelEvent, None]:
        endpoint = self._endpoint
        auth = {}
        if endpoint.api_key is not None:
            auth["authorization"] = f"Bearer {clean_key(endpoint.api_key).reveal()}"
        message = build_request(
            endpoint,
            request,
            join_url(endpoint.base_url, "/chat/completions"),
            headers=auth,
            write=partial(write_body, endpoint, request, tools=self._tools),
        )
        return self._http.stream(message, OpenAIReader(message.target, seed=str(len(request.messages))))
