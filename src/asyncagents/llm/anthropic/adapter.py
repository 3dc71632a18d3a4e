"""Adapter for Anthropic's Messages API and compatible servers."""

from collections.abc import AsyncGenerator
from functools import partial

from asyncagents.llm.anthropic.request import write_body
from asyncagents.llm.anthropic.stream import AnthropicReader
from asyncagents.llm.http.client import HttpClient
from asyncagents.llm.http.request import Endpoint, build_request, clean_key, join_url
from asyncagents.llm.model import (
    ChatRequest,
    ModelEvent,
)

API_VERSION = "2023-06-01"


class AnthropicMessages:
    def __init__(self, http: HttpClient, endpoint: Endpoint) -> None:
        self._http = http
        self._endpoint = endpoint

    def stream(self, request: ChatRequest) -> AsyncGenerator[ModelEvent, None]:
        endpoint = self._endpoint
        headers = {"anthropic-version": API_VERSION}
        if endpoint.api_key is not None:
            headers["x-api-key"] = clean_key(endpoint.api_key).reveal()
        message = build_request(
            endpoint,
            request,
            join_url(endpoint.base_url, _path(endpoint.base_url)),
            headers=headers,
            write=partial(write_body, endpoint, request),
        )
        return self._http.stream(message, AnthropicReader(message.target, seed=str(len(request.messages))))


def _path(base_url: str) -> str:
    """Return the path below the base URL, which may or may not end in the API version."""
    last = base_url.partition("?")[0].rstrip("/").rpartition("/")[2]
    return "/messages" if last[:1] == "v" and last[1:2].isdigit() else "/v1/messages"
