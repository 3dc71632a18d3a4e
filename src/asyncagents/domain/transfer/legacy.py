"""Completes session JSON of OpenCode and older versions with the fields that they leave out."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from asyncagents.domain.conversation.session import project_id

Json: TypeAlias = dict[str, Any]
NOBODY = "unknown"


def whole_session(info: Json, *, directory: str) -> Json:
    """Complete a session; `directory`: from its messages, as the oldest sessions have none."""
    where = info.get("directory") or directory
    time = _object(info.get("time"))
    found = filled(info, slug="imported-session", title="Imported session", version=NOBODY)
    return {
        **found,
        "directory": where,
        "projectID": project_id(where) if isinstance(where, str) else None,
        "time": filled(time, updated=time.get("created")),
    }


def addressed_session(info: Json, messages: list[Json]) -> Json:
    """Add agent and model of the last user message, or of the last message if there is no user message."""
    asked = [each for each in messages if each.get("role") == "user"]
    if not messages:
        return info
    last = (asked or messages)[-1]
    model = _object(last.get("model")) if asked else last
    named = {"id": model.get("modelID", NOBODY), "providerID": model.get("providerID", NOBODY)}
    variant = {"variant": model["variant"]} if model.get("variant") is not None else {}
    return filled(info, agent=last.get("agent"), model={**named, **variant})


def where_it_worked(messages: list[Json]) -> str:
    for each in messages:
        cwd = _object(each.get("path")).get("cwd")
        if isinstance(cwd, str) and cwd:
            return cwd
    return ""


def whole_message(info: Json, *, after: Json | None, asked: str, directory: str) -> Json:
    """Complete a message; `after`: the next assistant message; `asked`: the id of the last user message."""
    if info.get("role") == "user":
        return _whole_question(info, after or {})
    agent = info.get("agent") or info.get("mode") or "build"
    found = filled(
        info,
        parentID=asked,
        agent=agent,
        mode=agent,
        modelID=NOBODY,
        providerID=NOBODY,
        path={},
        cost=0,
        tokens={},
    )
    path = filled(_object(found["path"]), cwd=directory, root=directory)
    return {**found, "path": path, "tokens": _tokens(found["tokens"])}


def _whole_question(info: Json, answer: Json) -> Json:
    provider, model = answer.get("providerID") or NOBODY, answer.get("modelID") or NOBODY
    found = filled(info, agent=answer.get("agent") or answer.get("mode") or "build", model={})
    return {**found, "model": filled(_object(found["model"]), providerID=provider, modelID=model)}


def whole_part(part: Json, *, at: int) -> Json:
    """Complete a part; `at`: when its message was created."""
    match part.get("type"):
        case "reasoning":
            return filled(part, time={"start": at})
        case "compaction":
            return filled(part, auto=False)
        case "step-finish":
            found = filled(part, reason=NOBODY, cost=0, tokens={})
            return {**found, "tokens": _tokens(found["tokens"])}
        case "tool":
            return {**part, "state": _whole_state(_object(part.get("state")), at)}
        case _:
            return part


def _whole_state(state: Json, at: int) -> Json:
    time = filled(_object(state.get("time")), start=at)
    match state.get("status"):
        case "completed":
            found = filled(state, input={}, output="", title="", metadata={})
            return {**found, "time": filled(time, end=time["start"])}
        case "error":
            return {**filled(state, input={}, error=NOBODY), "time": time}
        case "waiting_async" | "running":
            return {**filled(state, input={}), "time": time}
        case "pending":
            return filled(state, input={}, raw="")
        case _:
            return state


def _tokens(value: object) -> Json:
    found = filled(_object(value), input=0, output=0, reasoning=0, cache={})
    return {**found, "cache": filled(_object(found["cache"]), read=0, write=0)}


def filled(value: Json, **missing: Any) -> Json:
    """Add values for missing or null keys, after the existing keys."""
    return {**value, **{name: each for name, each in missing.items() if value.get(name) is None}}


def _object(value: object) -> Json:
    return dict(value) if isinstance(value, Mapping) else {}
