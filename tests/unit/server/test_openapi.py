"""The document of the API: valid, complete, and true to the table it is made of."""

from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest
from msgspec.structs import replace
from schemathesis.specs.openapi.definitions import OPENAPI_31

from asyncagents.domain.shape import encode
from asyncagents.server.http.messages import ERROR_NAMES, Request, Response
from asyncagents.server.openapi import document, operation_id, statuses
from asyncagents.server.route import Param, Route, Routes, ServerContext
from asyncagents.server.routes import ROUTES

DOCUMENT = document(ROUTES)


async def handler(server: ServerContext, request: Request) -> Response:
    """Things.

    Does nothing,
    on two lines."""
    return Response(204)


routes = Routes()
routes.get("/v1/things", access="local")(handler)
ROUTE = routes[0]


def operations() -> Iterator[tuple[Route, dict[str, Any]]]:
    for route in ROUTES:
        yield route, DOCUMENT["paths"][route.path][route.method.lower()]


def inside(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for each in value.values():
            yield from inside(each)
    elif isinstance(value, list):
        for each in value:
            yield from inside(each)


def test_the_document_is_valid_by_the_schema_of_openapi_3_1() -> None:
    """The schema is OpenAPI's own, as schemathesis carries it."""
    jsonschema_rs.validate(OPENAPI_31, DOCUMENT)
    with pytest.raises(jsonschema_rs.ValidationError):
        jsonschema_rs.validate(OPENAPI_31, DOCUMENT | {"paths": {"no/slash": {}}})


def test_every_schema_of_the_document_is_valid_json_schema() -> None:
    schemas = [value["schema"] for value in inside(DOCUMENT["paths"]) if "schema" in value]
    schemas += DOCUMENT["components"]["schemas"].values()
    assert len(schemas) > len(ROUTES)
    for schema in schemas:
        jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})


def test_references_and_components_of_the_document_match() -> None:
    refs = {value["$ref"] for value in inside(DOCUMENT) if "$ref" in value}
    there = {
        f"#/components/{kind}/{name}"
        for kind in ("schemas", "responses")
        for name in DOCUMENT["components"][kind]
    }
    assert refs == there


def test_the_document_lists_exactly_the_routes() -> None:
    listed = {(method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods}
    assert listed == {(route.method, route.path) for route in ROUTES}
    assert ("GET", "/doc") in listed


def test_operation_ids_are_unique_and_made_of_method_and_path() -> None:
    names = [operation["operationId"] for _, operation in operations()]
    assert len(set(names)) == len(names)
    assert all(name.isascii() and name.isidentifier() for name in names)
    assert operation_id(ROUTE) == "getV1Things"
    assert (
        operation_id(replace(ROUTE, method="POST", path="/async-tool/x/{id}/a_b")) == "postAsyncToolXByIdAB"
    )


def test_parameters_of_the_path_are_those_of_its_template() -> None:
    for route, operation in operations():
        named = [each["name"] for each in operation.get("parameters", []) if each["in"] == "path"]
        assert [f"{{{name}}}" for name in named] == [word for word in route.path.split("/") if "{" in word]


def test_every_error_status_refers_to_the_shared_error_response() -> None:
    for _, operation in operations():
        errors = {status: answer for status, answer in operation["responses"].items() if status >= "4"}
        assert errors == {
            status: {"$ref": f"#/components/responses/{ERROR_NAMES[int(status)]}"} for status in errors
        }


@pytest.mark.parametrize(
    ("route", "wanted"),
    [
        (replace(ROUTE, access="open"), (400, 403, 503)),
        (ROUTE, (400, 401, 403, 503)),
        (replace(ROUTE, path="/v1/things/{id}"), (400, 401, 403, 404, 503)),
        (replace(ROUTE, method="POST", statuses=(409,)), (400, 401, 403, 408, 409, 413, 415, 503)),
        (
            replace(ROUTE, method="POST", path="/async-tool/x", access="signature"),
            (400, 401, 403, 408, 413, 429, 503),
        ),
    ],
)
def test_a_route_lists_the_errors_that_the_checks_before_it_can_give(
    route: Route, wanted: tuple[int, ...]
) -> None:
    assert statuses(route) == wanted


@pytest.mark.parametrize(
    ("access", "schemes"),
    [
        ("open", []),
        ("local", [{}, {"token": []}, {"password": []}, {"ticket": []}]),
        ("token", [{"token": []}, {"password": []}, {"ticket": []}]),
        ("signature", [{"standardWebhooks": []}, {"webhookSignature": []}]),
    ],
)
def test_a_route_shows_the_security_schemes_of_its_access(access: Any, schemes: list[Any]) -> None:
    shown = document([replace(ROUTE, access=access)])
    assert shown["paths"]["/v1/things"]["get"]["security"] == schemes
    assert {name for scheme in schemes for name in scheme} <= shown["components"]["securitySchemes"].keys()


def test_a_route_shows_its_parameters_body_and_response() -> None:
    route = replace(
        ROUTE,
        query=(
            Param("limit", "So many", "integer", least=1, most=9),
            Param("kind", "Of", choices=("a", "b")),
        ),
        headers=(Param("x-key", "Once"),),
        body=dict[str, int],
        response=tuple[str, ...],
    )
    shown = document([route])["paths"]["/v1/things"]["get"]
    assert shown["description"] == ("Does nothing, on two lines. Programs of this machine need no token.")
    assert [(each["name"], each["in"], each["schema"]) for each in shown["parameters"]] == [
        ("limit", "query", {"type": "integer", "minimum": 1, "maximum": 9}),
        ("kind", "query", {"enum": ["a", "b"]}),
        ("x-key", "header", {"type": "string"}),
    ]
    assert shown["responses"]["200"]["content"]["application/json"]["schema"]["items"] == {"type": "string"}
    assert shown["requestBody"]["content"]["application/json"]["schema"]["type"] == "object"


def test_a_route_without_a_response_is_204_and_text_keeps_its_type() -> None:
    silent = document([replace(ROUTE, method="DELETE")])["paths"]["/v1/things"]["delete"]["responses"]
    assert "200" not in silent
    assert "content" not in silent["204"]
    text = document([replace(ROUTE, content_type="text/plain; version=0.0.4")])
    assert list(text["paths"]["/v1/things"]["get"]["responses"]["200"]["content"]) == [
        "text/plain; version=0.0.4"
    ]


def test_a_stream_shows_the_names_and_types_of_its_events() -> None:
    events = (("snapshot", dict[str, Any]), ("heartbeat", dict[str, str]))
    shown = document([replace(ROUTE, content_type="text/event-stream", events=events)])
    answer = shown["paths"]["/v1/things"]["get"]["responses"]["200"]
    assert "`snapshot`, `heartbeat`" in answer["description"]
    assert list(answer["content"]["text/event-stream"]["x-events"]) == ["snapshot", "heartbeat"]


def test_every_stream_of_ours_names_its_events() -> None:
    for route in ROUTES:
        assert bool(route.events) == (route.content_type == "text/event-stream"), route.path


def test_the_document_is_the_same_each_time() -> None:
    assert encode(document(ROUTES)) == encode(DOCUMENT)


def test_descriptions_of_task_durations_name_their_unit() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    for name in ("Durations", "GroupStats"):
        assert "milliseconds" in schemas[name]["description"]
