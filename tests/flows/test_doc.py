"""`/doc` as the server gives it, and what the server says held against it."""

from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from asyncagents.llm.scripted import call, say
from scripts.http_api import PAGE, page
from tests.support.delegation import launch_task
from tests.support.http.server import StageClient, serve_delegation
from tests.support.tool import ECHO
from tests.support.webhook.delivery import WaitingService

SCENES = {
    "delegate": [[launch_task("one", "dig"), call("deploy")], [say("Launched.")]],
    "dig": [[call("echo", text="deep")], [say("Dug.")]],
}


QUERIES = {
    "/experimental/tool": "?provider=scripted&model=scripted",
    "/file/content": "?path=server.json",
    "/find": "?pattern=port",
    "/vcs/diff": "?mode=git",
}
"""What cannot be left out."""


def fits(document: Any, schema: Any, value: Any) -> None:
    """Raises what is wrong with it."""
    jsonschema_rs.validate({**schema, "components": document["components"]}, value)


def answers(document: Any, path: str, method: str = "get") -> Any:
    return document["paths"][path][method]["responses"]


async def examples(at: StageClient) -> dict[str, str]:
    """Paths of the document, and where something is to be seen."""
    session_id = at.stage.session_id
    (task,) = await at.runtime.tasks.list(session_id)
    (pending,) = await at.runtime.async_tools.waiting_calls()
    entry = (await at.stage.messages())[0]
    ids = {
        "/v1/tasks/{id}": task.session_id,
        "/v1/task-groups/{id}": task.batch_id,
        "/async-tool/pending/{id}": pending.id,
        "/project/{id}": (await at.runtime.session(session_id)).project_id,
    }
    document = await at.json("/doc")
    found = {}
    for path, methods in document["paths"].items():
        if "get" in methods and "text/event-stream" not in answers(document, path)["200"]["content"]:
            known = next(
                (found_id for prefix, found_id in ids.items() if path.startswith(prefix)), session_id
            )
            where = path.replace("{id}", known).replace("{messageID}", entry.info.id)
            found[path] = where + QUERIES.get(path, "")
    return found


@pytest.mark.spec("P-03", "H-04")
async def test_responses_match_the_schemas_of_the_openapi_document(tmp_path: Path) -> None:
    service = WaitingService()
    async with serve_delegation(tmp_path, SCENES, ECHO, service.tool) as at:
        await at.stage.prompt("delegate")
        document = await at.json("/doc")
        for path, where in (await examples(at)).items():
            told = await at.request("GET", where, headers=at.authorization)
            (kind,) = answers(document, path)["200"]["content"]
            assert told.status == 200, path
            assert told.headers["content-type"] == kind, path
            if kind == "application/json":
                fits(document, answers(document, path)["200"]["content"][kind]["schema"], told.json)


async def test_stream_events_match_the_schemas_of_the_openapi_document(tmp_path: Path) -> None:
    async with serve_delegation(tmp_path, SCENES, ECHO, WaitingService().tool) as at:
        document = await at.json("/doc")
        one = f"/v1/sessions/{at.stage.session_id}/events?tree=true"
        async with at.stream() as board, at.stream(one, headers=at.authorization) as session:
            await at.stage.prompt("delegate")
            await board.until("task.completed")
            await session.until("task.completed")
        for path, heard in (("/v1/events", board.frames), ("/v1/sessions/{id}/events", session.frames)):
            events = answers(document, path)["200"]["content"]["text/event-stream"]["x-events"]
            assert len({frame.type for frame in heard}) > 2
            for frame in heard:
                fits(document, events[frame.type]["schema"], frame.data)


@pytest.mark.parametrize(
    ("where", "headers", "status"),
    [
        ("/v1/events?after=nonsense", {}, 400),
        ("/v1/events", {"origin": "https://evil.example"}, 401),
        ("/v1/sessions/{id}/events?after=nonsense", None, 400),
        ("/v1/sessions/{id}/events?tree=perhaps", None, 400),
        ("/v1/sessions/{id}/events", {}, 401),
        ("/v1/sessions/ses_none/events", None, 404),
    ],
)
async def test_stream_refusals_match_the_openapi_document(
    tmp_path: Path, where: str, headers: dict[str, str] | None, status: int
) -> None:
    async with serve_delegation(tmp_path, {}) as at:
        document = await at.json("/doc")
        given = at.authorization if headers is None else headers
        told = await at.request("GET", where.replace("{id}", at.stage.session_id), headers=given)

    path = where.partition("?")[0].replace("ses_none", "{id}")
    reference = answers(document, path)[str(status)]["$ref"].removeprefix("#/components/responses/")
    schema = document["components"]["responses"][reference]["content"]["application/json"]["schema"]
    assert told.status == status
    fits(document, schema, told.json)


async def test_the_document_is_served_to_local_programs_and_token_holders(tmp_path: Path) -> None:
    page_of = {"origin": "https://evil.example"}
    async with serve_delegation(tmp_path, {}) as at:
        ours = await at.get("/doc")
        foreign = await at.request("GET", "/doc", headers=page_of)
        proven = await at.request("GET", "/doc", headers={**page_of, **at.authorization})
        head = await at.request("HEAD", "/doc")

    assert ours.status == 200
    assert ours.headers["content-type"] == "application/json"
    assert foreign.status == 401
    assert proven.status == 200
    assert head.body == b""
    assert head.headers["content-length"] == str(len(ours.body))
    assert at.listing.token is not None
    assert at.listing.token not in ours.body.decode()


def test_the_page_lists_the_routes_that_there_are() -> None:
    text = PAGE.read_text()
    assert text == page(text), "run `python scripts/http_api.py`"
