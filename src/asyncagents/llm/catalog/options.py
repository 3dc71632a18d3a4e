"""Convert options under OpenCode's names to the fields of each wire."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from msgspec.structs import replace

from asyncagents.llm.catalog.catalog import ModelFacts
from asyncagents.llm.model import Options

Body: TypeAlias = dict[str, Any]

OUTPUT_CAP = 32_000
"""The default output limit: output tokens are taken from the context."""
DEFAULT_ANSWER_TOKENS = 8_192
"""Output tokens besides thinking, where the model's limit is unknown."""
BUDGETS = {"low": 4_000, "medium": 8_000, "high": 16_000, "max": 31_999}
"""Thinking tokens by effort, for models that take a budget instead of an effort."""

# Client options under a provider's `options`; they are not fields of a request.
CLIENT_OPTIONS = frozenset(
    {
        "apiVersion", "baseURL", "chunkTimeout", "compatibility", "credentialProvider", "enterpriseUrl",
        "fetch", "googleAuthOptions", "headerTimeout", "includeUsage", "location", "name", "organization",
        "profile", "project", "queryParams", "region", "resourceName", "setCacheKey", "timeout",
        "useDeploymentBasedUrls",
    }
)  # fmt: skip

_MAX_OUTPUT = ("maxTokens", "maxOutputTokens", "max_tokens", "max_completion_tokens", "max_output_tokens")
_TOP_P = ("topP", "top_p")
# Options that only OpenCode's client uses.
_CLIENT_ONLY = frozenset(
    {
        "cacheControl",
        "sendReasoning",
        "strictJsonSchema",
        "structuredOutputMode",
        "structuredOutputs",
        "toolStreaming",
    }
)
_OPENAI_NAMES = {
    "frequencyPenalty": "frequency_penalty",
    "logitBias": "logit_bias",
    "parallelToolCalls": "parallel_tool_calls",
    "presencePenalty": "presence_penalty",
    "promptCacheKey": "prompt_cache_key",
    "promptCacheRetention": "prompt_cache_retention",
    "reasoningEffort": "reasoning_effort",
    "safetyIdentifier": "safety_identifier",
    "serviceTier": "service_tier",
    "stopSequences": "stop",
    "textVerbosity": "verbosity",
    "topLogprobs": "top_logprobs",
}
# Options of OpenAI's Responses API.
_NOT_CHAT = frozenset({"include", "previousResponseId", "reasoningSummary", "truncation"})
_ANTHROPIC_NAMES = {"serviceTier": "service_tier", "stopSequences": "stop_sequences", "topK": "top_k"}
_NOT_ANTHROPIC = _NOT_CHAT | {"textVerbosity", "store", "promptCacheKey", "parallelToolCalls"}


def merge_options(layers: Iterable[Mapping[str, Any]]) -> Body:
    """Merge layers of options; a later one wins, and objects merge key by key."""
    body: Body = {}
    for layer in layers:
        for key, value in layer.items():
            below = body.get(key)
            merges = isinstance(below, dict) and isinstance(value, dict)
            body[key] = merge_options((below or {}, value)) if merges else value
    return body


def variants(facts: ModelFacts, configured: Mapping[str, Body]) -> dict[str, Body]:
    """Return the variants of a model: the configured ones, and one per reasoning effort."""
    own: dict[str, Body] = {effort: {"reasoningEffort": effort} for effort in facts.efforts}
    if facts.reasoning and not own:
        own = {effort: {"reasoningEffort": effort} for effort in ("high", "max")}
    return {**own, **configured}


def resolve_options(given: Options, body: Body, facts: ModelFacts) -> Options:
    """Move common fields from the body to the options, where `given` wins, and apply the model's limits."""
    body = {key: value for key, value in body.items() if key not in _CLIENT_ONLY}
    temperature = body.pop("temperature", None)
    top_p = _pop_first(body, _TOP_P)
    asked = _pop_first(body, _MAX_OUTPUT)
    options = Options(
        temperature=temperature if given.temperature is None else given.temperature,
        top_p=top_p if given.top_p is None else given.top_p,
        max_output=_max_output(asked if given.max_output is None else given.max_output, facts),
        body=body,
    )
    return replace(options, temperature=None, top_p=None) if facts.temperature is False else options


def _pop_first(body: Body, names: tuple[str, ...]) -> Any:
    found = [body.pop(name) for name in names if name in body]
    return next((value for value in found if value is not None), None)


def _max_output(asked: Any, facts: ModelFacts) -> int | None:
    if facts.output is None:
        return asked if isinstance(asked, int) else None
    return min(asked if isinstance(asked, int) else OUTPUT_CAP, facts.output)


def openai_options(options: Options) -> Options:
    body = {_OPENAI_NAMES.get(key, key): value for key, value in options.body.items() if key not in _NOT_CHAT}
    if isinstance(body.get("thinking"), dict):
        body["thinking"] = _snake_case(body["thinking"])
    return replace(options, body=body)


def anthropic_options(options: Options, facts: ModelFacts) -> Options:
    body = {
        _ANTHROPIC_NAMES.get(key, key): value
        for key, value in options.body.items()
        if key not in _NOT_ANTHROPIC
    }
    if body.pop("disableParallelToolUse", False):
        body["tool_choice"] = {"type": "auto", "disable_parallel_tool_use": True}
    effort = body.pop("reasoningEffort", None) or body.pop("effort", None)
    if effort is not None:
        body = merge_options((_effort_options(effort, facts), body))
    if isinstance(body.get("thinking"), dict):
        body["thinking"] = _snake_case(body["thinking"])
    return _with_thinking_tokens(replace(options, body=body), facts)


def _effort_options(effort: Any, facts: ModelFacts) -> Body:
    if not facts.efforts:
        budget = BUDGETS.get(effort)
        return {"thinking": {"type": "enabled", "budgetTokens": budget}} if budget else {}
    thinking = {"thinking": {"type": "adaptive"}} if facts.thinking == "adaptive" else {}
    return {"output_config": {"effort": effort}, **thinking}


def _with_thinking_tokens(options: Options, facts: ModelFacts) -> Options:
    """Raise the output limit by the thinking budget, and drop sampling options that thinking forbids."""
    match options.body.get("thinking"):
        case {"type": "enabled", "budget_tokens": int(budget)}:
            room = (options.max_output or DEFAULT_ANSWER_TOKENS) + budget
            limit = facts.output or room
            return replace(options, temperature=None, top_p=None, max_output=min(room, limit))
        case {"type": "enabled" | "adaptive"}:
            return replace(options, temperature=None, top_p=None)
        case _:  # newer models refuse both together
            return replace(options, top_p=None) if options.temperature is not None else options


def _snake_case(thinking: Body) -> Body:
    return {"budget_tokens" if key == "budgetTokens" else key: value for key, value in thinking.items()}
