"""What the server answers is what its document says, whatever is sent."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from asyncagents.server.routes import ROUTES
from tests.support.load.documented import (
    LARGE,
    Outcome,
    Plan,
    open_populated_server,
    read_document,
    send_storm,
)

UNSIGNED = {"POST /async-tool/webhook"}
"""No generator of requests signs."""

REFUSED = {f"{route.method} {route.path}" for route in ROUTES if "always refused" in route.summary}
"""Refused on purpose, for every client."""
UNGUESSED = {
    *("GET /file/content", "PATCH /config", "PATCH /global/config", "POST /tui/publish"),
    *("POST /session/{id}/init", "POST /session/{id}/shell"),
    *("DELETE /v1/approvals", "DELETE /v1/approvals/{id}"),
    *("POST /mcp", "POST /mcp/{name}/connect", "POST /mcp/{name}/disconnect", "POST /tui/select-session"),
}
"""They need a file, a server of tools, a session or an approval that is there, or a runtime that reads
files."""

PLAN = Plan(examples=1, seed=8, once=True)


async def _storm(data: Path, spoil: Any = None) -> Outcome:
    async with open_populated_server(data) as (listing, known):
        said = None
        if spoil is not None:
            said = await asyncio.to_thread(read_document, listing)
            spoil(said)
        return await asyncio.to_thread(send_storm, listing, known, PLAN, said)


@pytest.mark.timeout(400)
@pytest.mark.spec("P-03")
async def test_random_requests_get_only_documented_responses(
    tmp_path: Path,
) -> None:
    outcome = await _storm(tmp_path)

    assert not outcome.failures, "\n\n".join(outcome.failures)
    there = {f"{route.method} {route.path}" for route in ROUTES if route.content_type != "text/event-stream"}
    met = {operation for operation, status in outcome.answers if status < 300 or status == 409}
    assert there <= {operation for operation, _ in outcome.answers}
    assert there - met <= UNSIGNED | REFUSED | UNGUESSED | set(LARGE), "requests met what there is"
    assert {200, 204, 400, 401, 404, 405, 409, 415} <= outcome.statuses().keys()


def _only(said: Any, path: str) -> Any:
    said["paths"] = {path: said["paths"][path]}
    return said["paths"][path]["get"]["responses"]


def no_404(said: Any) -> None:
    del _only(said, "/v1/tasks/{id}")["404"]


def another_shape(said: Any) -> None:
    _only(said, "/v1/stats")
    said["components"]["schemas"]["TaskStats"]["required"].append("mood")


def another_kind(said: Any) -> None:
    answer = _only(said, "/v1/stats")["200"]
    answer["content"] = {"text/plain": answer["content"]["application/json"]}


@pytest.mark.parametrize(
    ("spoil", "check"),
    [
        (no_404, "status_code_conformance"),
        (another_shape, "response_schema_conformance"),
        (another_kind, "content_type_conformance"),
    ],
)
async def test_a_wrong_document_is_detected(tmp_path: Path, spoil: Any, check: str) -> None:
    outcome = await _storm(tmp_path, spoil)
    assert any(failure.startswith(check) for failure in outcome.failures)
