"""Build providers and models of pydantic-ai, and the settings of a request."""

import inspect
import logging
import re
from collections.abc import Mapping
from typing import Any, cast

from pydantic_ai.models import Model, infer_model
from pydantic_ai.providers import Provider, infer_provider_class
from pydantic_ai.settings import ModelSettings

from asyncagents.llm.http.request import Endpoint, clean_key
from asyncagents.llm.model import ChatRequest

LOG = logging.getLogger(__name__)
# Providers that accept any field in the request body.
_OPEN_BODY = ("anthropic", "azure", "openai")
_GOOGLE = ("google", "google-cloud")
# Google's client adds the version itself; elsewhere it is part of the base URL.
_GOOGLE_VERSION = re.compile(r"/v1(alpha|beta\d*)?/?$")
_THINKING = {"effort", "reasoningEffort", "thinking", "thinkingConfig"}
_GOOGLE_THINKING = {
    "includeThoughts": "include_thoughts",
    "thinkingBudget": "thinking_budget",
    "thinkingLevel": "thinking_level",
}


def build_provider(kind: str, endpoint: Endpoint, options: Mapping[str, Any]) -> Provider[Any]:
    """Build a provider; `options` are its client options under OpenCode's names."""
    url = _GOOGLE_VERSION.sub("", endpoint.base_url) if kind in _GOOGLE else endpoint.base_url
    resource = options.get("resourceName")
    azure = f"https://{resource}.openai.azure.com/openai/v1/" if resource else None
    offered = {
        "api_key": clean_key(endpoint.api_key).reveal() if endpoint.api_key else None,
        "base_url": url,
        "azure_endpoint": url or azure,
        "api_version": options.get("apiVersion"),
        "project": options.get("project"),
        "location": options.get("location"),
        "region_name": options.get("region"),
        "profile_name": options.get("profile"),
    }
    provider = infer_provider_class(kind)
    taken = inspect.signature(provider.__init__).parameters
    return provider(**{name: value for name, value in offered.items() if value and name in taken})


def build_model(kind: str, model_id: str, provider: Provider[Any]) -> Model:
    return infer_model(f"{kind}:{model_id}", lambda _: provider)


def build_settings(
    kind: str, model: Model, request: ChatRequest, headers: Mapping[str, str]
) -> ModelSettings:
    """Build the settings of a request. The library's retries are off: the engine retries, and reports it."""
    options = request.options
    whole: dict[str, Any] = {
        "max_retries": 0,
        "max_tokens": options.max_output,
        "temperature": options.temperature,
        "top_p": options.top_p,
        "extra_headers": dict(headers) or None,
        "tool_choice": _tool_choice(request),
        **_body_settings(kind, dict(options.body)),
    }
    if kind.endswith("responses"):
        # The history is sent with each request, so the provider must not store it.
        whole["openai_store"] = False
    known = {name: value for name, value in whole.items() if value is not None}
    taken = {name: value for name, value in known.items() if name not in model.unsupported_settings}
    return cast("ModelSettings", taken)  # each provider adds its own keys


def _tool_choice(request: ChatRequest) -> str | list[str] | None:
    """Return the tool choice; None with thinking enabled, where some providers refuse a forced tool."""
    choice = request.tool_choice
    if not request.tools or choice is None or _THINKING & request.options.body.keys():
        return None
    return choice if choice == "required" else [choice]


def _body_settings(kind: str, body: dict[str, Any]) -> dict[str, Any]:
    """Rename OpenCode's options to the library's; others go into the body where any field is accepted."""
    effort = body.pop("reasoningEffort", None) or body.pop("effort", None)
    found: dict[str, Any] = {
        "thinking": effort if effort != "none" else False,
        "parallel_tool_calls": body.pop("parallelToolCalls", None),
        "service_tier": body.pop("serviceTier", None),
        "stop_sequences": body.pop("stopSequences", None),
        "top_k": body.pop("topK", None),
        "openai_text_verbosity": body.pop("textVerbosity", None),
        "openai_reasoning_summary": body.pop("reasoningSummary", None),
    }
    if kind in _GOOGLE:
        found |= _google_settings(body)
    if kind == "bedrock" and body:
        return {**found, "bedrock_additional_model_requests_fields": body}
    if kind.startswith(_OPEN_BODY):
        return {**found, "extra_body": body or None}
    if body:
        LOG.warning("provider=%s action=build_settings ignored options: %s", kind, ", ".join(sorted(body)))
    return found


def _google_settings(body: dict[str, Any]) -> dict[str, Any]:
    thinking = body.pop("thinkingConfig", None)
    match body.pop("thinking", None):
        case {"budgetTokens": int(budget)}:
            thinking = {"thinkingBudget": budget, "includeThoughts": True}
        case _:
            pass
    found = {"google_safety_settings": body.pop("safetySettings", None)}
    if isinstance(thinking, dict):
        config = {_GOOGLE_THINKING.get(name, name): value for name, value in thinking.items()}
        return {**found, "google_thinking_config": config}
    return found
