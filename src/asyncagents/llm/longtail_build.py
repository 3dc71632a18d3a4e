"""Providers and models of pydantic-ai, and the settings of a request to one."""

import inspect
import logging
import re
from collections.abc import Mapping
from typing import Any, cast

from pydantic_ai.models import Model, infer_model
from pydantic_ai.providers import Provider, infer_provider_class
from pydantic_ai.settings import ModelSettings

from asyncagents.llm.endpoint import Endpoint
from asyncagents.llm.model import Request
from asyncagents.llm.post import key

LOG = logging.getLogger(__name__)
# Who takes any field in the body of a request.
_OPEN_BODY = ("anthropic", "azure", "openai")
_GOOGLE = ("google", "google-cloud")
# Its client adds the version itself; elsewhere it is part of the address.
_GOOGLE_VERSION = re.compile(r"/v1(alpha|beta\d*)?/?$")
_THINKING = {"effort", "reasoningEffort", "thinking", "thinkingConfig"}
_GOOGLE_THINKING = {
    "includeThoughts": "include_thoughts",
    "thinkingBudget": "thinking_budget",
    "thinkingLevel": "thinking_level",
}


def build_provider(kind: str, endpoint: Endpoint, options: Mapping[str, Any]) -> Provider[Any]:
    """`options` are those of the provider's client, with OpenCode's names."""
    url = _GOOGLE_VERSION.sub("", endpoint.base_url) if kind in _GOOGLE else endpoint.base_url
    resource = options.get("resourceName")
    azure = f"https://{resource}.openai.azure.com/openai/v1/" if resource else None
    offered = {
        "api_key": key(endpoint.api_key).reveal() if endpoint.api_key else None,
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


def settings(kind: str, model: Model, request: Request, headers: Mapping[str, str]) -> ModelSettings:
    """The library's own retries are off: whether to try again is decided elsewhere, and is seen."""
    options = request.options
    whole: dict[str, Any] = {
        "max_retries": 0,
        "max_tokens": options.max_output,
        "temperature": options.temperature,
        "top_p": options.top_p,
        "extra_headers": dict(headers) or None,
        "tool_choice": _choice(request),
        **_body(kind, dict(options.body)),
    }
    if kind.endswith("responses"):
        # The history is ours; nothing is looked up at the provider, which may not keep it either.
        whole["openai_store"] = False
    known = {name: value for name, value in whole.items() if value is not None}
    taken = {name: value for name, value in known.items() if name not in model.unsupported_settings}
    return cast("ModelSettings", taken)  # each provider adds names of its own


def _choice(request: Request) -> str | list[str] | None:
    """Some refuse a forced tool while their model thinks, so none is forced then."""
    choice = request.tool_choice
    if not request.tools or choice is None or _THINKING & request.options.body.keys():
        return None
    return choice if choice == "required" else [choice]


def _body(kind: str, body: dict[str, Any]) -> dict[str, Any]:
    """OpenCode's names as the library's; the rest goes into the body where a provider takes anything."""
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
        found |= _for_google(body)
    if kind == "bedrock" and body:
        return {**found, "bedrock_additional_model_requests_fields": body}
    if kind.startswith(_OPEN_BODY):
        return {**found, "extra_body": body or None}
    if body:
        LOG.warning("options that %s does not take are left out: %s", kind, ", ".join(sorted(body)))
    return found


def _for_google(body: dict[str, Any]) -> dict[str, Any]:
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
