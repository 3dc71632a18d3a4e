"""Routes: handler, access, and everything that the OpenAPI document says about them."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from inspect import getdoc
from typing import Any, Literal, Required, TypeAlias, TypedDict, TypeVar, Unpack
from urllib.parse import unquote_to_bytes

from msgspec import Struct, field

from asyncagents.domain.clock import Clock
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.server.blocking import BlockingWork, FileIndex
from asyncagents.server.http.messages import JSON, AnyResponse, Request

BODY_BYTES = 1024 * 1024

Method: TypeAlias = Literal["GET", "POST", "PUT", "DELETE", "PATCH"]
Access: TypeAlias = Literal["open", "local", "counts", "user", "token", "signature"]
"""`open`: no check. `local`: programs of this machine. `counts`: those, unless known to run as another user.
`user`: those known to run as the server's user or root. `token`: only with the token, which also opens all of
the former. `signature`: a signed webhook."""


class ServerContext(Struct, frozen=True, kw_only=True):
    """What handlers get besides the request."""

    runtime: Runtime
    clock: Clock
    started: int
    """Start of the server, in ms since the epoch."""
    closing: asyncio.Event
    """Set when the server begins to stop: long waits give up."""
    directory: str
    """The directory of sessions and requests that name none."""
    idle_heartbeat_seconds: float = 30.0
    """Seconds without an event after which a `/v1` stream sends a heartbeat."""
    heartbeat_seconds: float = 10.0
    """Seconds between the heartbeats of an OpenCode stream."""
    blocking: BlockingWork = field(default_factory=BlockingWork)
    file_index: FileIndex = field(default_factory=FileIndex)
    heavy_reads: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))
    """Serializes expensive reads: the store has few readers, and running sessions need them, too."""


Handler: TypeAlias = Callable[[ServerContext, Request], Awaitable[AnyResponse]]
H = TypeVar("H", bound=Handler)


class Param(Struct, frozen=True):
    """A query parameter or a header."""

    name: str
    about: str
    kind: Literal["string", "integer", "number", "boolean"] = "string"
    choices: tuple[str, ...] = ()
    least: int | None = None
    """Minimum of a number, or minimum length of a text."""
    most: int | None = None


LONGEST_ID = 200
DIRECTORY_PARAM = Param("directory", "Directory of the project; default: the server's directory")
DIRECTORY_HEADER_PARAM = Param(
    "X-Opencode-Directory", "Percent-encoded directory, used if the query has none"
)
KEY_PARAM = Param(
    "Idempotency-Key", "A repeated request with the same key takes effect only once", most=LONGEST_ID
)


class Route(Struct, frozen=True, kw_only=True):
    """`path` is a template: `/v1/tasks/{id}`."""

    method: Method
    path: str
    handler: Handler
    access: Access
    summary: str
    description: str = ""
    query: tuple[Param, ...] = ()
    headers: tuple[Param, ...] = ()
    body: Any = None
    """Type of the JSON request body."""
    response: Any = None
    """Type of the JSON response body; None: 204 without a body."""
    content_type: str = JSON
    events: tuple[tuple[str, Any], ...] = ()
    """Events of a stream: name and type of the data."""
    statuses: tuple[int, ...] = ()
    """Error statuses besides those that follow from the rest: see `openapi.statuses`."""
    most_bytes: int = BODY_BYTES

    @property
    def changes(self) -> bool:
        return self.method != "GET"

    @property
    def monitors(self) -> bool:
        """Whether the route only shows how the server is: health, counts, the API document."""
        return self.access in {"open", "local", "counts"}


class RouteOptions(TypedDict, total=False):
    """Keywords of a route, as in `Route`. `access` is required: each route decides who may use it."""

    access: Required[Access]
    directory: bool
    """Whether the query or a header may name the directory."""
    key: bool
    """Whether an Idempotency-Key is accepted; one that another request used is 409."""
    summary: str
    """Default: the first line of the handler's docstring."""
    query: tuple[Param, ...]
    headers: tuple[Param, ...]
    body: Any
    response: Any
    content_type: str
    events: tuple[tuple[str, Any], ...]
    statuses: tuple[int, ...]
    most_bytes: int


class Routes(list[Route]):
    """Collects the routes of a module by decorators of their handlers; of stacked ones the lowest is first.

    The first line of a handler's docstring is the summary in the OpenAPI document, the rest its description.
    """

    def get(self, path: str, **options: Unpack[RouteOptions]) -> Callable[[H], H]:
        return self.add("GET", path, **options)

    def post(self, path: str, **options: Unpack[RouteOptions]) -> Callable[[H], H]:
        return self.add("POST", path, **options)

    def put(self, path: str, **options: Unpack[RouteOptions]) -> Callable[[H], H]:
        return self.add("PUT", path, **options)

    def delete(self, path: str, **options: Unpack[RouteOptions]) -> Callable[[H], H]:
        return self.add("DELETE", path, **options)

    def patch(self, path: str, **options: Unpack[RouteOptions]) -> Callable[[H], H]:
        return self.add("PATCH", path, **options)

    def add(self, method: Method, path: str, **options: Unpack[RouteOptions]) -> Callable[[H], H]:
        fields: dict[str, Any] = dict(options)
        if fields.pop("key", False):
            fields["headers"] = (KEY_PARAM, *fields.get("headers", ()))
            fields["statuses"] = (409, *fields.get("statuses", ()))
        if fields.pop("directory", False):
            fields["query"] = (DIRECTORY_PARAM, *fields.get("query", ()))
            fields["headers"] = (DIRECTORY_HEADER_PARAM, *fields.get("headers", ()))

        def decorate(handler: H) -> H:
            summary, _, rest = (getdoc(handler) or "").partition("\n")
            texts = {"summary": summary.removesuffix("."), "description": " ".join(rest.split())}
            self.append(Route(method=method, path=path, handler=handler, **texts | fields))
            return handler

        return decorate


class RouteMatch(Struct, frozen=True):
    route: Route
    params: dict[str, str]


class RouteTable:
    """Finds the route of a raw path; an encoded slash does not separate segments."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._literal: dict[str, dict[str, Route]] = {}
        self._templates: dict[tuple[int, str, str], list[tuple[tuple[str, ...], dict[str, Route]]]] = {}
        """Templates by segment count, first segment (always literal) and third segment ("" if a parameter),
        so that a lookup tries only one or two of them."""
        templates: dict[str, dict[str, Route]] = {}
        for route in routes:
            templates.setdefault(route.path, {})[route.method] = route
        for path, methods in templates.items():
            if "{" in path:
                template = tuple(path.split("/"))
                assert not template[1].startswith("{"), "the first segment of a route must be literal"
                third = "".join(template[3:4])
                place = len(template), template[1], "" if third.startswith("{") else third
                self._templates.setdefault(place, []).append((template, methods))
            else:
                self._literal[path] = methods

    def find(self, method: str, raw_path: str) -> RouteMatch | tuple[str, ...]:
        """Return the match, or the methods that the path supports (none: unknown path)."""
        plain = self._literal.get(raw_path)
        methods, params = self._match(raw_path.split("/")) if plain is None else (plain, {})
        route = methods.get("GET" if method == "HEAD" else method)
        return RouteMatch(route, params) if route is not None else tuple(methods)

    def _match(self, segments: list[str]) -> tuple[dict[str, Route], dict[str, str]]:
        size, first, third = len(segments), "".join(segments[1:2]), "".join(segments[3:4])
        known, others = (
            self._templates.get((size, first, third), ()),
            self._templates.get((size, first, ""), ()),
        )
        for template, methods in (*known, *others) if third else others:
            if all(
                given == wanted or wanted.startswith("{")
                for given, wanted in zip(segments, template, strict=True)
            ):
                params = {
                    wanted[1:-1]: _decode_segment(given)
                    for given, wanted in zip(segments, template, strict=True)
                    if wanted.startswith("{")
                }
                if all(params.values()):
                    return methods, params
        return {}, {}


def _decode_segment(segment: str) -> str:
    """Percent-decode a segment; return "" if it is not printable UTF-8, so that it matches no route."""
    try:
        text = unquote_to_bytes(segment).decode()
    except UnicodeDecodeError:
        return ""
    return text if text.isprintable() else ""
