"""Failures of messages as clients see them: a name and its data."""

from typing import Any, TypeAlias

import msgspec

from asyncagents.domain.shape import RawValue, Shape, encode


class Failure:
    """Any failure: a `KnownFailure`, which we write, or an `UnknownFailure`."""

    __slots__ = ()


class Cause(Shape, frozen=True, kw_only=True):
    """The data of a failure with a message only."""

    message: str


class NoCause(Shape, frozen=True, kw_only=True):
    """The data of a failure without details."""


class ProviderCause(Shape, frozen=True, kw_only=True):
    provider_id: str
    message: str


class UnknownCause(Shape, frozen=True, kw_only=True):
    message: str
    ref: str | None = None


class StructuredCause(Shape, frozen=True, kw_only=True):
    message: str
    retries: int


class OverflowCause(Shape, frozen=True, kw_only=True):
    message: str
    response_body: str | None = None


class APICause(Shape, frozen=True, kw_only=True):
    message: str
    is_retryable: bool
    status_code: int | None = None
    response_headers: dict[str, str] | None = None
    response_body: str | None = None
    metadata: dict[str, str] | None = None


class ProviderAuthError(Failure, Shape, frozen=True, kw_only=True, tag_field="name", tag="ProviderAuthError"):
    data: ProviderCause


class UnknownError(Failure, Shape, frozen=True, kw_only=True, tag_field="name", tag="UnknownError"):
    data: UnknownCause


NO_TEXT = "The model reached the limit of its output before it wrote any text."
"""The message of a `MessageOutputLengthError`, which has none on the wire."""


class MessageOutputLengthError(
    Failure, Shape, frozen=True, kw_only=True, tag_field="name", tag="MessageOutputLengthError"
):
    data: NoCause


class MessageAbortedError(
    Failure, Shape, frozen=True, kw_only=True, tag_field="name", tag="MessageAbortedError"
):
    data: Cause


class StructuredOutputError(
    Failure, Shape, frozen=True, kw_only=True, tag_field="name", tag="StructuredOutputError"
):
    data: StructuredCause


class ContextOverflowError(
    Failure, Shape, frozen=True, kw_only=True, tag_field="name", tag="ContextOverflowError"
):
    data: OverflowCause


class ContentFilterError(
    Failure, Shape, frozen=True, kw_only=True, tag_field="name", tag="ContentFilterError"
):
    data: Cause


class TaskInDoubt(Failure, Shape, frozen=True, kw_only=True, tag_field="name", tag="TaskInDoubt"):
    """The process stopped while an external agent worked, and how far that agent got cannot be known."""

    data: Cause


class APIError(Failure, Shape, frozen=True, kw_only=True, tag_field="name", tag="APIError"):
    data: APICause


KnownFailure: TypeAlias = (
    ProviderAuthError
    | UnknownError
    | MessageOutputLengthError
    | MessageAbortedError
    | StructuredOutputError
    | ContextOverflowError
    | ContentFilterError
    | TaskInDoubt
    | APIError
)
FAILURE_NAMES = tuple(str(kind.__struct_config__.tag) for kind in KnownFailure.__args__)
"""Names on the wire and in rows; they do not depend on the class names."""


class UnknownFailure(RawValue, Failure):
    """A failure with an unknown name, kept as received."""

    __slots__ = ("name",)

    def __init__(self, raw: bytes, name: str) -> None:
        super().__init__(raw)
        self.name = name


def read_failure(value: Any) -> Failure:
    """Convert JSON to a failure. Raises `msgspec.ValidationError` if the value is not a failure."""
    match value:
        case {"name": str(name)} if name not in FAILURE_NAMES:
            return UnknownFailure(encode(value), name)
        case _:
            failure: KnownFailure = msgspec.convert(value, KnownFailure)
            return failure


def failure_name(failure: Failure) -> str:
    """Return the name on the wire and in rows."""
    if isinstance(failure, UnknownFailure):
        return failure.name
    assert isinstance(failure, Shape), f"{failure!r} has no name on the wire"
    return str(failure.__struct_config__.tag)


def describe_failure(failure: Failure) -> tuple[str, str]:
    """Return the name and the message of a failure."""
    name = failure_name(failure)
    words = NO_TEXT if isinstance(failure, MessageOutputLengthError) else name
    return name, getattr(getattr(failure, "data", None), "message", "") or words


def provider_auth_error(provider_id: str, message: str) -> ProviderAuthError:
    return ProviderAuthError(data=ProviderCause(provider_id=provider_id, message=message))


def unknown_error(message: str, ref: str | None = None) -> UnknownError:
    return UnknownError(data=UnknownCause(message=message, ref=ref))


def output_length_error() -> MessageOutputLengthError:
    return MessageOutputLengthError(data=NoCause())


def aborted_error(message: str = "Aborted") -> MessageAbortedError:
    return MessageAbortedError(data=Cause(message=message))


def structured_output_error(message: str, retries: int) -> StructuredOutputError:
    return StructuredOutputError(data=StructuredCause(message=message, retries=retries))


def context_overflow_error(message: str, response_body: str | None = None) -> ContextOverflowError:
    return ContextOverflowError(data=OverflowCause(message=message, response_body=response_body))


def content_filter_error(message: str) -> ContentFilterError:
    return ContentFilterError(data=Cause(message=message))


def task_in_doubt(message: str) -> TaskInDoubt:
    return TaskInDoubt(data=Cause(message=message))


def api_error(message: str, *, is_retryable: bool, status_code: int | None = None) -> APIError:
    return APIError(data=APICause(message=message, is_retryable=is_retryable, status_code=status_code))
