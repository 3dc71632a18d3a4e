"""Failed requests are logged with their method and path."""

import pytest

from asyncagents.errors import Closed, Damaged
from asyncagents.server.http.messages import Request, Response, handle_errors


@pytest.mark.parametrize(
    ("error", "status"), [(Damaged("row"), 500), (Closed("gone"), 503), (KeyError("x"), 500)]
)
async def test_the_log_names_the_method_and_the_path_without_the_query(
    error: Exception, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def fails() -> Response:
        raise error

    request = Request(method="POST", path="/session/ses_1/abort", query=(("auth_token", "hush"),))
    answer = await handle_errors(fails(), request)

    assert answer.status == status
    expected = f"action=handle_request method=POST path=/session/ses_1/abort status={status}"
    assert [record.getMessage() for record in caplog.records] == [expected]
    assert "hush" not in caplog.text
