"""`/doc`: the OpenAPI 3.1 document, generated from the route table."""

from collections.abc import Iterable
from functools import cache
from types import UnionType
from typing import Any

import msgspec

from asyncagents.domain.shape import encode
from asyncagents.server.auth import AUTH_TOKEN
from asyncagents.server.http.messages import ERROR_NAMES, JSON, STREAM, Request, Response
from asyncagents.server.rate_limit import is_limited
from asyncagents.server.route import Param, Route, Routes, ServerContext
from asyncagents.server.schema import Schema, Schemas, merge_duplicates
from asyncagents.version import VERSION

PATH = "/doc"

_ABOUT = """\
Sessions of LLM agents, their background tasks, and tool calls whose results come from outside.

Every error is `{"name", "data": {"message"}}`. An unlisted path is 404; an unsupported method is 405, with
`Allow`; `OPTIONS` is 204 with the CORS headers."""

_BEARER, _BASIC, _QUERY = "token", "password", "ticket"
_SIGNED, _SOURCE_SIGNED = "standardWebhooks", "webhookSignature"
_SCHEMES: Schema = {
    _BEARER: {"type": "http", "scheme": "bearer", "description": "The token of `server.json`."},
    _BASIC: {"type": "http", "scheme": "basic", "description": "Any user, with the token as password."},
    _QUERY: {
        "type": "apiKey",
        "in": "query",
        "name": AUTH_TOKEN,
        "description": "The credentials after `Basic`, for clients that cannot send headers.",
    },
    _SIGNED: {
        "type": "apiKey",
        "in": "header",
        "name": "webhook-signature",
        "description": "Signature of Standard Webhooks, with `webhook-id` and `webhook-timestamp`.",
    },
    _SOURCE_SIGNED: {
        "type": "apiKey",
        "in": "header",
        "name": "x-webhook-signature",
        "description": "HMAC-SHA256 of the body under the call's secret, in hex.",
    },
}
_SECURITY: dict[str, list[Schema]] = {
    "open": [],
    "local": [{}, {_BEARER: []}, {_BASIC: []}, {_QUERY: []}],
    "counts": [{}, {_BEARER: []}, {_BASIC: []}, {_QUERY: []}],
    "user": [{}, {_BEARER: []}, {_BASIC: []}, {_QUERY: []}],
    "token": [{_BEARER: []}, {_BASIC: []}, {_QUERY: []}],
    "signature": [{_SIGNED: []}, {_SOURCE_SIGNED: []}],
}
_WITHOUT_TOKEN: dict[str, str] = {
    "local": "Programs of this machine need no token.",
    "counts": "Programs of this machine need no token, unless they are known to run as another user.",
    "user": "Programs of this machine need no token if they are known to run as the server's user or root.",
}
_ERRORS = {
    400: "Invalid request; the message says what was expected.",
    401: "Missing or wrong credentials.",
    403: "Unknown Host header, or a page of another origin.",
    404: "Not found, or deleted.",
    408: "The body arrived too slowly; send the request again.",
    409: "Conflict with the current state, or with an earlier request.",
    413: "The body is too large.",
    415: "The content type of the body is not JSON.",
    422: "The tool refused this result.",
    429: "Too many requests or streams.",
    503: "Temporarily unavailable; send it again later: it takes effect only once.",
}
_HEADERS: dict[int, Schema] = {
    401: {
        "www-authenticate": {"description": "Supported authentication schemes.", "schema": {"type": "string"}}
    },
    429: {
        "retry-after": {
            "description": "Seconds to wait before the next try.",
            "schema": {"type": "integer", "minimum": 1},
        }
    },
}
_STATUSES_WITHOUT_FIXED_NAME = {404, 409}
"""Errors whose `name` depends on the route, as in OpenCode."""
_ERROR: Schema = {
    "type": "object",
    "description": "Why a request failed: `name` for programs, `message` for people.",
    "required": ["name", "data"],
    "properties": {
        "name": {"type": "string", "examples": [ERROR_NAMES[status] for status in _ERRORS]},
        "data": {
            "type": "object",
            "required": ["message"],
            "properties": {"message": {"type": "string"}},
        },
    },
}


def with_document(routes: Iterable[Route]) -> tuple[Route, ...]:
    """Add the route of the document, which describes all routes including itself."""

    every = Routes(routes)

    @cache
    def encoded_document() -> bytes:
        return encode(document(every))

    @every.get(PATH, access="local", response=dict[str, Any])
    async def get_document(server: ServerContext, request: Request) -> Response:
        """Get this document."""
        return Response(200, encoded_document())

    return tuple(every)


def document(routes: Iterable[Route]) -> Schema:
    schemas, paths, routes = Schemas(), dict[str, Schema](), tuple(routes)
    for route in routes:  # responses first, so that their types get the plain names
        schemas.output_schema(route.response)
        for _, data in route.events:
            schemas.output_schema(data)
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    shown: Schema = {
        "openapi": "3.1.0",
        "info": {"title": "asyncagents", "version": VERSION, "description": _ABOUT},
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": {**dict(sorted(schemas.components.items())), "Error": _ERROR},
            "responses": {ERROR_NAMES[status]: _error(status) for status in _ERRORS},
            "securitySchemes": _SCHEMES,
        },
    }
    return merge_duplicates(shown)


def statuses(route: Route) -> tuple[int, ...]:
    """Return all error statuses of a route: its own, and those of the checks before its handler."""
    every = {400, 403, 503, *route.statuses}
    if route.access != "open":
        every.add(401)
    if "{" in route.path:
        every.add(404)
    if route.changes:
        every |= {408, 413}
    if route.changes and route.access != "signature":
        every.add(415)
    if is_limited(route) or route.content_type == STREAM:
        every.add(429)
    return tuple(sorted(every))


def operation_id(route: Route) -> str:
    """Build `getV1TasksByIdLogs` from method and path, so that it is stable."""
    words = [
        f"By{word[1].upper()}{word[2:-1]}" if word.startswith("{") else _title(word)
        for word in route.path.strip("/").split("/")
    ]
    return route.method.lower() + "".join(words)


def _title(word: str) -> str:
    return "".join(piece[:1].upper() + piece[1:] for piece in word.replace("_", "-").split("-"))


def _operation(route: Route, schemas: Schemas) -> Schema:
    shown: Schema = {
        "operationId": operation_id(route),
        "tags": [route.path.split("/")[1]],
        "summary": route.summary,
        "security": _SECURITY[route.access],
    }
    if about := f"{route.description} {_WITHOUT_TOKEN.get(route.access, '')}".strip():
        shown["description"] = about
    if parameters := _parameters(route):
        shown["parameters"] = parameters
    if route.body is not None:
        content = {JSON: {"schema": schemas.input_schema(route.body)}}
        shown["requestBody"] = {"required": _requires_body(route), "content": content}
    errors = {str(status): _reference(status) for status in statuses(route)}
    return shown | {"responses": _success(route, schemas) | errors}


def _requires_body(route: Route) -> bool:
    """Whether a body is required: an empty one is read as an empty object."""
    kinds = route.body.__args__ if isinstance(route.body, UnionType) else (route.body,)
    return not any(_is_valid({}, kind) for kind in kinds)


def _is_valid(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


def _success(route: Route, schemas: Schemas) -> Schema:
    if route.content_type == STREAM:
        return {"200": _stream(route, schemas)}
    if route.content_type != JSON:
        return {"200": {"description": "OK", "content": {route.content_type: {"schema": {"type": "string"}}}}}
    if route.response is None:
        return {"204": {"description": "Done, without a body"}}
    content = {JSON: {"schema": schemas.output_schema(route.response)}}
    return {"200": {"description": "OK", "content": content}}


def _stream(route: Route, schemas: Schemas) -> Schema:
    """Describe a stream; OpenAPI 3.1 cannot express events, so `x-events` holds their names and types."""
    names = ", ".join(f"`{name}`" for name, _ in route.events)
    events = {name: {"schema": schemas.output_schema(data)} for name, data in route.events}
    return {
        "description": f"Server-sent events, until the client disconnects: {names}",
        "content": {STREAM: {"schema": {"type": "string"}, "x-events": events}},
    }


def _parameters(route: Route) -> list[Schema]:
    names = [word[1:-1] for word in route.path.split("/") if word.startswith("{")]
    path = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in names
    ]
    query = [_parameter(param, "query") for param in route.query]
    return [*path, *query, *(_parameter(param, "header") for param in route.headers)]


def _parameter(param: Param, place: str) -> Schema:
    return {"name": param.name, "in": place, "description": param.about, "schema": _param_schema(param)}


def _param_schema(param: Param) -> Schema:
    if param.choices:
        return {"enum": list(param.choices)}
    names = ("minimum", "maximum") if param.kind in {"integer", "number"} else ("minLength", "maxLength")
    bounds = zip(names, (param.least, param.most), strict=True)
    return {"type": param.kind} | {name: bound for name, bound in bounds if bound is not None}


def _reference(status: int) -> Schema:
    return {"$ref": f"#/components/responses/{ERROR_NAMES[status]}"}


def _error(status: int) -> Schema:
    schema: Schema = {"$ref": "#/components/schemas/Error"}
    if status not in _STATUSES_WITHOUT_FIXED_NAME:
        schema["properties"] = {"name": {"const": ERROR_NAMES[status]}}
    shown: Schema = {"description": _ERRORS[status], "content": {JSON: {"schema": schema}}}
    return shown | ({"headers": _HEADERS[status]} if status in _HEADERS else {})
