"""Completes session JSON of OpenCode and older versions with the fields that they leave out."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from asyncagents.domain.conversation.session import project_id

Json: TypeAlias = dict[str, Any]
UNKNOWN = "unknown"


def complete_session(info: Json, *, directory: str) -> Json:
    """Complete a session; `directory`: from its messages, as the oldest sessions have none."""
    where = info.get("directory") or directory
    time = _object(info.get("time"))
    found = fill_missing(info, slug="imported-session", title="Imported session", version=UNKNOWN)
    return {
        **found,
        "directory": where,
        "projectID": project_id(where) if isinstance(where, str) else None,
        "time": fill_missing(time, updated=time.get("created")),
    }


def add_agent_and_model(info: Json, messages: list[Json]) -> Json:
    """Add agent and model of the last user message, or of the last message if there is no user message."""
    asked = [each for each in messages if each.get("role") == "user"]
    if not messages:
        return info
    last = (asked or messages)[-1]
    model = _object(last.get("model")) if asked else last
    named = {"id": model.get("modelID", UNKNOWN), "providerID": model.get("providerID", UNKNOWN)}
    variant = {"variant": model["variant"]} if model.get("variant") is not None else {}
    return fill_missing(info, agent=last.get("agent"), model={**named, **variant})


def find_directory(messages: list[Json]) -> str:
    for each in messages:
        cwd = _object(each.get("path")).get("cwd")
        if isinstance(cwd, str) and cwd:
            return cwd
    return ""


def complete_message(info: Json, *, after: Json | None, asked: str, directory: str) -> Json:
    """Complete a message; `after`: the next assistant message; `asked`: the id of the last user message."""
    if info.get("role") == "user":
        return _complete_user_message(info, after or {})
    agent = info.get("agent") or info.get("mode") or "build"
    found = fill_missing(
        info,
        parentID=asked,
        agent=agent,
        mode=agent,
        modelID=UNKNOWN,
        providerID=UNKNOWN,
        path={},
        cost=0,
        tokens={},
    )
    path = fill_missing(_object(found["path"]), cwd=directory, root=directory)
    return {**found, "path": path, "tokens": _tokens(found["tokens"])}


def _complete_user_message(info: Json, answer: Json) -> Json:
    provider, model = answer.get("providerID") or UNKNOWN, answer.get("modelID") or UNKNOWN
    found = fill_missing(info, agent=answer.get("agent") or answer.get("mode") or "build", model={})
    return {**found, "model": fill_missing(_object(found["model"]), providerID=provider, modelID=model)}


def complete_part(part: Json, *, at: int) -> Json:
    """Complete a part; `at`: when its message was created."""
    match part.get("type"):
        case "reasoning":
            return fill_missing(part, time={"start": at})
        case "compaction":
            return fill_missing(part, auto=False)
        case "step-finish":
            found = fill_missing(part, reason=UNKNOWN, cost=0, tokens={})
            return {**found, "tokens": _tokens(found["tokens"])}
        case "tool":
            return {**part, "state": _complete_state(_object(part.get("state")), at)}
        case _:
            return part


def _complete_state(state: Json, at: int) -> Json:
    time = fill_missing(_object(state.get("time")), start=at)
    match state.get("status"):
        case "completed":
            found = fill_missing(state, input={}, output="", title="", metadata={})
            return {**found, "time": fill_missing(time, end=time["start"])}
        case "error":
            return {**fill_missing(state, input={}, error=UNKNOWN), "time": time}
        case "waiting_async" | "running":
            return {**fill_missing(state, input={}), "time": time}
        case "pending":
            return fill_missing(state, input={}, raw="")
        case _:
            return state


def _tokens(value: object) -> Json:
    found = fill_missing(_object(value), input=0, output=0, reasoning=0, cache={})
    return {**found, "cache": fill_missing(_object(found["cache"]), read=0, write=0)}


def fill_missing(value: Json, **missing: Any) -> Json:
    """Add values for missing or null keys, after the existing keys."""
    return {**value, **{name: each for name, each in missing.items() if value.get(name) is None}}


def _object(value: object) -> Json:
    return dict(value) if isinstance(value, Mapping) else {}
