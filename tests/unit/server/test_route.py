"""Routes are declared at their handlers, with an access for each."""

from typing import Any

import pytest

from asyncagents.server.http.messages import Request, Response
from asyncagents.server.route import (
    DIRECTORY_HEADER_PARAM,
    DIRECTORY_PARAM,
    KEY_PARAM,
    Param,
    Routes,
    ServerContext,
)
from asyncagents.server.routes import ROUTES

X = Param("x", "A number")


async def handler(server: ServerContext, request: Request) -> Response:
    """Get a thing.

    A second sentence,
    on two lines."""
    return Response(204)


def test_a_handler_gets_its_texts_from_its_docstring_and_stays_a_function() -> None:
    routes = Routes()
    assert routes.get("/things/{id}", access="token")(handler) is handler
    (route,) = routes
    assert route.method == "GET"
    assert route.path == "/things/{id}"
    assert route.handler == handler
    assert route.summary == "Get a thing"
    assert route.description == "A second sentence, on two lines."


def test_a_handler_of_several_routes_may_have_a_summary_for_each() -> None:
    routes = Routes()

    @routes.delete("/b", access="local", summary="Delete a thing")
    @routes.put("/a", access="token")
    async def put(server: ServerContext, request: Request) -> Response:
        """Put a thing."""
        return Response(204)

    assert [(each.method, each.path, each.summary) for each in routes] == [
        ("PUT", "/a", "Put a thing"),
        ("DELETE", "/b", "Delete a thing"),
    ]


def test_a_route_without_an_access_is_refused() -> None:
    options: Any = {"response": bool}
    with pytest.raises(TypeError, match="access"):
        Routes().get("/things", **options)(handler)


def test_a_route_with_a_directory_and_a_key_has_their_parameters_before_its_own() -> None:
    routes = Routes()
    routes.post("/a", access="token", directory=True, key=True, query=(X,), headers=(X,), statuses=(422,))(
        handler
    )
    routes.patch("/b", access="token", query=(X,))(handler)
    first, second = routes
    assert first.query == (DIRECTORY_PARAM, X)
    assert first.headers == (DIRECTORY_HEADER_PARAM, KEY_PARAM, X)
    assert set(first.statuses) == {409, 422}
    assert second.query == (X,)
    assert second.headers == ()
    assert second.statuses == ()


def test_every_route_has_a_summary_and_a_unique_method_and_path() -> None:
    assert all(route.summary and not route.summary.endswith(".") for route in ROUTES)
    assert len({(route.method, route.path) for route in ROUTES}) == len(ROUTES)
