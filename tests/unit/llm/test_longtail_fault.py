"""Errors of pydantic-ai as our failures, each of them, and none that shows a key."""

from collections.abc import Sequence
from typing import Any

import pytest
from pydantic_ai import exceptions as theirs

from asyncagents.config.secret import Secret
from asyncagents.domain.conversation.failure import (
    APIError,
    ContentFilterError,
    ContextOverflowError,
    ProviderAuthError,
)
from asyncagents.domain.shape import encode
from asyncagents.llm.http.errors import RequestTarget
from asyncagents.llm.pydantic_ai.adapter import map_error

KEY = "sk-very-secret-0123456789"
TARGET = RequestTarget(provider_id="tail", model_id="local", url="https://tail.test", secrets=(Secret(KEY),))


def http_error(status: int, body: object = None, **headers: str) -> theirs.ModelHTTPError:
    return theirs.ModelHTTPError(status, "m", body, headers=headers)


@pytest.mark.parametrize(
    ("error", "failure", "again"),
    [
        (theirs.ModelContextWindowExceededError("m", "Too long."), ContextOverflowError, False),
        (theirs.ModelAuthenticationError("m", "Who are you?"), ProviderAuthError, False),
        (theirs.ModelQuotaExceededError("m", "No money."), APIError, False),
        (theirs.ModelOverloadedError("m", "Busy."), APIError, True),
        (theirs.ModelConnectionError("m", "Reset."), APIError, True),
        (theirs.ModelNotFoundError("m", "No such model."), APIError, False),
        (theirs.ContentFilterError("Not that."), ContentFilterError, False),
        (theirs.UnexpectedModelBehavior("What?"), APIError, True),
        (theirs.UserError("Set the key."), APIError, False),
        (ConnectionResetError("gone"), APIError, True),
        (type("EndpointConnectionError", (Exception,), {})("no route"), APIError, True),
        (type("NoCredentialsError", (Exception,), {})("none"), APIError, False),
        (http_error(503), APIError, True),
        (http_error(403, {"message": "no"}), ProviderAuthError, False),
        (http_error(404, {"message": "no"}), APIError, False),
    ],
)
def test_each_error_of_the_library_has_its_failure(error: Exception, failure: type, again: bool) -> None:
    """Most of these only come from clouds that no local server can play."""
    stream_error = map_error(TARGET, error)
    assert isinstance(stream_error.failure, failure)
    assert (isinstance(stream_error.failure, APIError) and stream_error.failure.data.is_retryable) == again


def test_the_wait_of_a_rate_limit_without_a_header_is_kept() -> None:
    stream_error = map_error(TARGET, theirs.ModelRateLimitError("m", "Slow down.", retry_after=9))
    assert stream_error.retry_after == 9
    assert isinstance(stream_error.failure, APIError)
    assert stream_error.failure.data.status_code == 429


@pytest.mark.parametrize(
    ("category", "status", "failure"),
    [
        (theirs.ModelContextWindowExceededError, 400, ContextOverflowError),
        (theirs.ModelAuthenticationError, 400, ProviderAuthError),
        (theirs.ModelQuotaExceededError, 429, APIError),
    ],
)
def test_an_error_class_of_the_library_decides_over_its_status(
    category: Any, status: int, failure: type
) -> None:
    body = {"message": "in words that nobody here has heard"}
    error = theirs.ModelHTTPError.for_category(category, status_code=status, model_name="m", body=body)
    stream_error = map_error(TARGET, error)
    assert isinstance(stream_error.failure, failure)
    assert not (isinstance(stream_error.failure, APIError) and stream_error.failure.data.is_retryable)


def test_an_error_with_half_a_character_can_be_stored() -> None:
    errors: Sequence[Exception] = [
        http_error(400, {"message": "half \ud83d"}),
        http_error(500, "half \ud83d", **{"x-request-id": "\udcff"}),
        theirs.UnexpectedModelBehavior("half \ud83d"),
        theirs.ContentFilterError("half \ud83d"),
        theirs.UserError("half \ud83d"),
        OSError("half \ud83d"),
    ]
    for error in errors:
        assert encode(map_error(TARGET, error).failure)


def test_no_error_shows_the_key() -> None:
    errors: Sequence[Exception] = [
        http_error(400, {"message": f"{KEY} is odd"}),
        theirs.UserError(f"{KEY} is odd"),
        theirs.ModelAuthenticationError("m", f"{KEY} is odd"),
        theirs.UnexpectedModelBehavior(f"{KEY} is odd"),
        OSError(f"{KEY} is odd"),
    ]
    for error in errors:
        assert KEY not in str(map_error(TARGET, error))
