"""The official schema of the Agent Client Protocol, from npm: finds what is wrong with a frame."""

import asyncio
import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

import jsonschema_rs
import pytest

from tests.support.path import ROOT
from tests.support.process.npm import install_lock

LOCK = ROOT / "tests" / "peer" / "package-lock.json"
DRAFT = "https://json-schema.org/draft/2020-12/schema"
CANCEL = "$/cancel_request"
SHOWN = 3

Side: TypeAlias = Literal["agent", "client"]
Frame: TypeAlias = dict[str, Any]
Node: TypeAlias = dict[str, Any]


class ProtocolSchema:
    """Names the definitions of the schema by method and side, and checks values against them.

    A definition says nothing of fields that it does not name, but the protocol reserves them all ("MUST NOT
    add any custom fields at the root of a type"). Here an unknown field is a mistake, save in `_meta`.
    """

    def __init__(self, document: Node) -> None:
        self._definitions: dict[str, Node] = document["$defs"]
        self._names = dict(self._named_definitions())
        for definition in self._definitions.values():
            self._seal_members(definition)
        self._validators: dict[str, jsonschema_rs.Draft202012Validator] = {}

    def _named_definitions(self) -> Iterator[tuple[tuple[str, str, str], str]]:
        """Yield the name of a definition for its kind, the side that handles the method, and the method."""
        for name, definition in self._definitions.items():
            if "x-method" in definition:
                kind = next(each for each in ("Request", "Response", "Notification") if name.endswith(each))
                yield (kind, definition["x-side"], definition["x-method"]), name

    def find_name(self, kind: str, *, handler: Side, method: str) -> str | None:
        if (kind, method) == ("Notification", CANCEL):
            return "CancelRequestNotification"
        return self._names.get((kind, handler, method))

    def find_problems(self, name: str, value: object) -> list[str]:
        """What is wrong with a value of this definition."""
        if name not in self._validators:
            root = self._sealed({"$ref": f"#/$defs/{name}"})
            whole = {"$schema": DRAFT, **root, "$defs": self._definitions}
            self._validators[name] = jsonschema_rs.Draft202012Validator(whole)
        errors = [cause for each in self._validators[name].iter_errors(value) for cause in _causes(each)]
        return [f"{name}{each.instance_path}: {each.message:.400}" for each in _deepest(errors)][:SHOWN]

    def _seal_members(self, node: object) -> None:
        """Refuse unknown fields in every value inside a definition; what applies in place stays open."""
        if isinstance(node, list):
            for each in node:
                self._seal_members(each)
        if isinstance(node, dict):
            for key, value in node.items():
                self._seal_value(node, key, value)

    def _seal_value(self, node: Node, key: str, value: object) -> None:
        members: list[tuple[Node, str]] = []
        if key == "properties" and isinstance(value, dict):
            members = [(value, name) for name in value]
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            members = [(node, key)]
        for holder, name in members:
            holder[name] = self._sealed(holder[name])
            self._seal_members(holder[name])
        if not members:
            self._seal_members(value)

    def _sealed(self, node: Node) -> Node:
        closed = self._describes_object(node) and "unevaluatedProperties" not in node
        return {**node, "unevaluatedProperties": False} if closed else node

    def _describes_object(self, node: Node) -> bool:
        if "properties" in node:
            return True
        if "$ref" in node:
            return self._describes_object(self._definitions[node["$ref"].removeprefix("#/$defs/")])
        unions = (each for key in ("allOf", "anyOf", "oneOf") for each in node.get(key, ()))
        return any(self._describes_object(each) for each in unions)


def _causes(error: jsonschema_rs.ValidationError) -> list[jsonschema_rs.ValidationError]:
    """Of a union, the errors of the one variant that the value names by its tag."""
    variants = getattr(error.kind, "context", ())
    meant = [each for each in variants if not any(one.kind.name == "const" for one in each)]
    return [cause for one in meant[0] for cause in _causes(one)] if len(meant) == 1 else [error]


def _deepest(errors: list[jsonschema_rs.ValidationError]) -> list[jsonschema_rs.ValidationError]:
    """Leave out unknown fields that are unknown only because something inside the same value is wrong."""
    paths = [each.instance_path for each in errors]

    def is_outcome(error: jsonschema_rs.ValidationError) -> bool:
        depth = len(error.instance_path)
        return error.kind.name == "unevaluatedProperties" and any(
            path[:depth] == error.instance_path and each is not error
            for path, each in zip(paths, errors, strict=True)
        )

    return [each for each in errors if not is_outcome(each)]


class FrameCheck:
    """Checks the frames of one connection in both directions; remembers which request an id belongs to."""

    def __init__(self, schema: ProtocolSchema) -> None:
        self._schema = schema
        self._open: dict[Side, dict[int | str, str]] = {"agent": {}, "client": {}}
        self._used: dict[Side, set[int | str]] = {"agent": set(), "client": set()}

    def find_problems(self, sender: Side, frame: object) -> list[str]:
        """What is wrong with the next frame that a side sent."""
        if not isinstance(frame, dict):
            return ["a frame must be an object"]
        found = [] if frame.get("jsonrpc") == "2.0" else ['"jsonrpc" must be "2.0"']
        other: Side = "client" if sender == "agent" else "agent"
        if "method" not in frame:
            return found + self._response_problems(frame, sender, other)
        if "id" in frame:
            return found + self._request_problems(frame, sender, other)
        return found + self._call_problems("Notification", frame, other)

    def open_requests(self, sender: Side) -> list[str]:
        """The methods of the requests of a side that have no response so far."""
        return list(self._open[sender].values())

    def _request_problems(self, frame: Frame, sender: Side, other: Side) -> list[str]:
        request_id = frame["id"]
        if isinstance(request_id, bool) or not isinstance(request_id, int | str):
            return [f"the id {request_id!r} is neither a whole number nor a text"]
        found = [f"the id {request_id!r} is used again"] if request_id in self._used[sender] else []
        self._used[sender].add(request_id)
        self._open[sender][request_id] = frame["method"]
        return found + self._call_problems("Request", frame, other)

    def _call_problems(self, kind: str, frame: Frame, handler: Side) -> list[str]:
        unknown = frame.keys() - {"jsonrpc", "id", "method", "params"}
        found = [f"the frame has unknown fields: {sorted(unknown)}"] if unknown else []
        method = frame["method"]
        if isinstance(method, str) and method.startswith("_"):
            return found
        name = self._schema.find_name(kind, handler=handler, method=method)
        if name is None:
            return [*found, f"{method!r} is no {kind.lower()} that the {handler} handles"]
        return found + self._schema.find_problems(name, frame.get("params"))

    def _response_problems(self, frame: Frame, sender: Side, other: Side) -> list[str]:
        unknown = frame.keys() - {"jsonrpc", "id", "result", "error"}
        found = [f"the frame has unknown fields: {sorted(unknown)}"] if unknown else []
        if ("result" in frame) == ("error" in frame):
            return [*found, "a response has either a result or an error"]
        if "error" in frame:
            found += self._schema.find_problems("Error", frame["error"])
        if frame.get("id") is None and "error" in frame:
            return found
        method = self._open[other].pop(frame.get("id", ""), None)
        if method is None:
            return [*found, f"no request of the {other} with the id {frame.get('id')!r} is open"]
        name = self._schema.find_name("Response", handler=sender, method=method)
        if name is None or "error" in frame:
            return found
        return found + self._schema.find_problems(name, frame["result"])


async def find_schema(*, unstable: bool = False) -> ProtocolSchema | None:
    """Load the schema for a test that also makes sense without it; None without npm."""
    try:
        return await load_schema(unstable=unstable)
    except pytest.skip.Exception:
        return None


@lru_cache
def _read_schema(file: Path) -> ProtocolSchema:
    return ProtocolSchema(json.loads(file.read_text()))


async def load_schema(*, unstable: bool = False) -> ProtocolSchema:
    """Load the schema of version 1; `unstable` also has subagents and what else a client must ask for.

    Without npm the test is skipped.
    """
    modules = await install_lock(LOCK)
    name = "schema.unstable.json" if unstable else "schema.json"
    file = modules / "@agentclientprotocol" / "sdk" / "schema" / "v1" / name
    return await asyncio.to_thread(_read_schema, file)
