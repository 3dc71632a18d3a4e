"""What a server refuses is raised as what it is, with the server's words."""

import json

import pytest

from asyncagents.client.errors import error_from_response
from asyncagents.errors import (
    AsyncAgentsError,
    Conflict,
    InvalidInput,
    NotFound,
    RequestError,
    ResultRefused,
    Unauthorized,
    Unavailable,
)
from asyncagents.server.http.messages import Request, Response, handle_errors


def body(message: str) -> bytes:
    return json.dumps({"name": "X", "data": {"message": message}}).encode()


@pytest.mark.parametrize(
    "error",
    [
        NotFound("session", "ses_x"),
        NotFound("pending call", "it's"),
        Conflict("it has come to something else"),
        InvalidInput("write it otherwise"),
        Unauthorized("no"),
        ResultRefused("deploy does not take this"),
    ],
)
async def test_an_error_of_the_runtime_keeps_its_type_and_text_over_http(error: RequestError) -> None:
    async def fails() -> Response:
        raise error

    answer = await handle_errors(fails(), Request(method="GET", path="/"))
    raised = error_from_response(answer.status, answer.body)

    assert type(raised) is type(error)
    assert str(raised) == str(error)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, InvalidInput),
        (401, Unauthorized),
        (403, Unauthorized),
        (404, NotFound),
        (405, InvalidInput),
        (408, Unavailable),
        (409, Conflict),
        (413, InvalidInput),
        (415, InvalidInput),
        (422, ResultRefused),
        (429, Unavailable),
        (500, Unavailable),
        (502, Unavailable),
        (503, Unavailable),
    ],
)
@pytest.mark.parametrize("said", [body("so it is"), b"<html>so</html>", b"", b"\xff", b"[]", b'{"data": 1}'])
def test_every_error_status_becomes_an_asyncagents_error(
    status: int, kind: type[AsyncAgentsError], said: bytes
) -> None:
    raised = error_from_response(status, said)

    assert type(raised) is kind
    assert str(raised) in {"so it is", f"the server responded with status {status}"}
    assert (str(raised) == "so it is") == (said == body("so it is"))


def test_a_not_found_error_has_kind_and_id_if_the_response_names_them() -> None:
    named = error_from_response(404, body("no task with id 'ses_x'"))
    unnamed = error_from_response(404, body("unknown route"))

    assert isinstance(named, NotFound)
    assert isinstance(unnamed, NotFound)
    assert named.kind == "task"
    assert named.id == "ses_x"
    assert unnamed.kind == ""
    assert unnamed.id == ""
