"""A route: where a request goes, who may send it, and all that the document of the API says of it."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote_to_bytes

from msgspec import Struct, field

from asyncagents.domain.port import Clock
from asyncagents.engine.runtime import Runtime
from asyncagents.server.errand import Errands
from asyncagents.server.file_index import Index
from asyncagents.server.http import JSON, Reply, Request

BODY_BYTES = 1024 * 1024

Access: TypeAlias = Literal["open", "local", "counts", "user", "token", "signature"]
"""Anybody; programs of this machine; those of them that are not known to be of another user; those that are
known to be of the same user; who has the token, as with all of these; who signed it."""


class Site(Struct, frozen=True, kw_only=True):
    """What handlers work with."""

    runtime: Runtime
    clock: Clock
    started: int
    """In ms since the epoch."""
    closing: asyncio.Event
    """Set when the server begins to stop: whoever waits for long gives up."""
    directory: str
    """Where sessions work whose maker names no directory."""
    silence: float = 30.0
    """After so many seconds without an event a stream says that it lives."""
    heartbeat: float = 10.0
    """Every so many seconds a stream of OpenCode's says so, too."""
    errands: Errands = field(default_factory=Errands)
    index: Index = field(default_factory=Index)
    looks: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))
    """Who asks much of the store waits here: it has few readers, and whoever works needs them, too."""


Handler: TypeAlias = Callable[[Site, Request], Awaitable[Reply]]


class Param(Struct, frozen=True):
    """Something that may stand in the query, or among the headers."""

    name: str
    about: str
    kind: Literal["string", "integer", "number", "boolean"] = "string"
    choices: tuple[str, ...] = ()
    least: int | None = None
    """Of a number; of a text, the characters it has at least."""
    most: int | None = None


class Route(Struct, frozen=True, kw_only=True):
    """`path` has names in braces: `/v1/tasks/{id}`. `statuses`: its answers besides 200 and the gate's."""

    method: Literal["GET", "POST", "PUT", "DELETE", "PATCH"]
    path: str
    handler: Handler
    access: Access
    summary: str
    query: tuple[Param, ...] = ()
    headers: tuple[Param, ...] = ()
    body: Any = None
    """The type of the JSON that it takes."""
    answer: Any = None
    """The type of the JSON that it gives; None: nothing, with a 204."""
    gives: str = JSON
    events: tuple[tuple[str, Any], ...] = ()
    """What a stream sends: the name of each event, and the type of its data."""
    statuses: tuple[int, ...] = ()
    most_bytes: int = BODY_BYTES

    @property
    def changes(self) -> bool:
        return self.method != "GET"


class Found(Struct, frozen=True):
    route: Route
    params: dict[str, str]


class Table:
    """Finds the route of a path as it came: what is encoded in a segment cannot make another segment."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._plain: dict[str, dict[str, Route]] = {}
        self._named: dict[tuple[int, str, str], list[tuple[tuple[str, ...], dict[str, Route]]]] = {}
        """By how many segments they have, the first of them, which is never a name in braces, and the third,
        if it is none either: of two hundred templates one or two are left to be tried."""
        templates: dict[str, dict[str, Route]] = {}
        for route in routes:
            templates.setdefault(route.path, {})[route.method] = route
        for path, methods in templates.items():
            if "{" in path:
                template = tuple(path.split("/"))
                assert not template[1].startswith("{"), "a route begins with a word of its own"
                third = "".join(template[3:4])
                place = len(template), template[1], "" if third.startswith("{") else third
                self._named.setdefault(place, []).append((template, methods))
            else:
                self._plain[path] = methods

    def find(self, method: str, raw_path: str) -> Found | tuple[str, ...]:
        """Else the methods that there are: none, no such path."""
        plain = self._plain.get(raw_path)
        methods, params = self._match(raw_path.split("/")) if plain is None else (plain, {})
        route = methods.get("GET" if method == "HEAD" else method)
        return Found(route, params) if route is not None else tuple(methods)

    def _match(self, segments: list[str]) -> tuple[dict[str, Route], dict[str, str]]:
        size, first, third = len(segments), "".join(segments[1:2]), "".join(segments[3:4])
        known, others = self._named.get((size, first, third), ()), self._named.get((size, first, ""), ())
        for template, methods in (*known, *others) if third else others:
            if all(
                given == wanted or wanted.startswith("{")
                for given, wanted in zip(segments, template, strict=True)
            ):
                params = {
                    wanted[1:-1]: _decoded(given)
                    for given, wanted in zip(segments, template, strict=True)
                    if wanted.startswith("{")
                }
                if all(params.values()):
                    return methods, params
        return {}, {}


def _decoded(segment: str) -> str:
    """Empty, if it is no text; then nothing is found by it."""
    try:
        text = unquote_to_bytes(segment).decode()
    except UnicodeDecodeError:
        return ""
    return text if text.isprintable() else ""
