"""Probe a provider by listing its models, which checks the address and the key."""

from typing import Any, assert_never

import aiohttp
import msgspec
from msgspec import Struct

from asyncagents.domain.conversation.failure import APIError, ProviderAuthError
from asyncagents.llm.anthropic.adapter import API_VERSION
from asyncagents.llm.http.errors import ProviderResponse, RequestTarget, provider_error
from asyncagents.llm.http.network_errors import network_error
from asyncagents.llm.http.redact import redact_url, secrets_of
from asyncagents.llm.http.request import clean_key, join_url
from asyncagents.llm.model import StreamError
from asyncagents.llm.usable_model import UsableModel

SECONDS = 10.0
LONGEST = 16 * 1024 * 1024
NO_SUCH_PAGE = frozenset({404, 405, 501})


class Probe(Struct, frozen=True):
    """The result; `reached` is None for a provider that has no list of models."""

    reached: bool | None
    text: str


async def probe_provider(usable: UsableModel) -> Probe:
    """Probe the provider of any of its models. A failure of the provider is a result, never an exception."""
    if usable.wire.adapter == "longtail":
        return Probe(None, "it has no list of models that could be asked for here")
    target = _target(usable)
    try:
        timeout = aiohttp.ClientTimeout(total=SECONDS)
        async with (
            aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as session,
            session.get(_url(usable), headers=_headers(usable), allow_redirects=False) as response,
        ):
            answer = ProviderResponse(
                body=await response.content.read(LONGEST), status=response.status, headers=response.headers
            )
    except TimeoutError:
        return Probe(False, f"it did not answer within {SECONDS:g} seconds at {target.url}")
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return Probe(False, _error_message(network_error(target, error)))
    if answer.status in NO_SUCH_PAGE:
        return Probe(None, f"it answers, but has no list of models at {target.url}")
    if answer.status != 200:
        return Probe(False, _error_message(provider_error(target, answer)))
    return _count_models(answer.body)


def _count_models(body: bytes) -> Probe:
    try:
        listed: Any = msgspec.json.decode(body)
    except msgspec.DecodeError:
        listed = None
    data = listed.get("data") if isinstance(listed, dict) else None
    if not isinstance(data, list):
        return Probe(False, "it answers, but not with a list of models: check its baseURL")
    return Probe(True, f"it answers, and lists {len(data)} model{'' if len(data) == 1 else 's'}")


def _target(usable: UsableModel) -> RequestTarget:
    headers = {**usable.provider.headers, **usable.config.headers}
    return RequestTarget(
        provider_id=usable.ref.provider_id,
        model_id=usable.ref.model_id,
        url=redact_url(_url(usable)),
        has_key=usable.provider.api_key is not None,
        secrets=secrets_of(usable.provider.api_key, tuple(headers.values()), usable.base_url),
    )


def _url(usable: UsableModel) -> str:
    base = usable.base_url.partition("?")[0].rstrip("/")
    last = base.rpartition("/")[2]
    has_version = last[:1] == "v" and last[1:2].isdigit()
    is_anthropic = usable.wire.adapter == "anthropic"
    return join_url(usable.base_url, "/v1/models" if is_anthropic and not has_version else "/models")


def _headers(usable: UsableModel) -> dict[str, str]:
    secret = clean_key(usable.provider.api_key).reveal() if usable.provider.api_key is not None else None
    given = {**usable.provider.headers, **usable.config.headers}
    match usable.wire.adapter:
        case "anthropic":
            own = {"anthropic-version": API_VERSION} | ({"x-api-key": secret} if secret else {})
        case "openai" | "longtail":
            own = {"authorization": f"Bearer {secret}"} if secret else {}
        case _:
            assert_never(usable.wire.adapter)
    return {**own, **{name.lower(): value for name, value in given.items()}}


def _error_message(error: StreamError) -> str:
    failure = error.failure
    return failure.data.message if isinstance(failure, APIError | ProviderAuthError) else str(failure)
