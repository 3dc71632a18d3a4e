"""What a local provider answers: replies as data, the same for every wire."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

from msgspec import Struct

from asyncagents.testing.clock import EPOCH_MS


class ToolUse(Struct, frozen=True, forbid_unknown_fields=True):
    """A call that the model makes; without an `id` the provider gives it one of its own."""

    name: str
    args: dict[str, Any] = {}
    id: str | None = None
    raw: str | None = None
    """The arguments as the model wrote them, instead of `args`: JSON that is broken, say."""


class Usage(Struct, frozen=True, forbid_unknown_fields=True):
    """Five numbers that do not overlap: `input` leaves out cached tokens, `output` leaves out reasoning."""

    input: int = 10
    output: int = 5
    reasoning: int = 0
    cache_read: int = 0
    cache_write: int = 0


class Reply(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer to one request: what is said, how fast, and what goes wrong."""

    text: str = "ok"
    chunks: int = 1
    """How many pieces the text comes in (and the reasoning); the last ones are empty if it is too short."""
    reasoning: str = ""
    reasoning_field: str = "reasoning_content"
    """Where OpenAI's wire carries the reasoning: servers that speak it do not agree on the name."""
    signature: str = "bG9jYWwgc2lnbmF0dXJl"
    """What Anthropic's wire signs the reasoning with; empty: nothing."""
    tools: tuple[ToolUse, ...] = ()
    finish: str | None = "auto"
    """`stop`, `tool-calls`, `length`, `content-filter`, `error`, `unknown`; any other word goes out as it is.

    `auto` is `tool-calls` with tools and `stop` without. None: the stream ends well formed, but without its
    finish, its usage and its last event. Anthropic's wire has no `error`: it sends its error event.
    """
    usage: Usage | None = Usage()

    delay: float = 0
    """Seconds between the headers and the first byte of the body."""
    gap: float = 0
    """Seconds between two pieces."""

    status: int = 200
    headers: dict[str, str] = {}
    error: str = "The local provider was told to fail."
    """The message of an error; its type and code follow from the status, unless they are given."""
    error_type: str | None = None
    error_code: str | None = None
    error_in_stream: bool = False
    """Everything but the finish is said, with status 200; then comes the wire's error event."""

    cut_at: int | None = None
    """The connection is closed after so many bytes of the body; below 0: before the first header."""
    hang_at: int | None = None
    """After so many bytes nothing of meaning is sent until the client leaves; below 0: not even a header."""
    ping: float = 1.0
    """While it hangs between two events: seconds from one comment or ping to the next; 0 is silence."""
    garbage: bytes | None = None
    """Sent in the middle of the stream, as it is, between two pieces; the stream goes on after it."""
    body: bytes | None = None
    """Sent instead of the whole body, with any status."""

    times: int = 0
    """Above 0: good for so many requests of its prompt, then the next reply stands in its place."""

    def __post_init__(self) -> None:
        if self.chunks < 1:
            raise ValueError(f"chunks is {self.chunks}: a text comes in one piece or more")
        if not 200 <= self.status <= 599:
            raise ValueError(f"status is {self.status}: an answer has one from 200 to 599")
        if not all(seconds >= 0 for seconds in (self.delay, self.gap, self.ping)):
            raise ValueError("delay, gap and ping are seconds: give 0 or more")
        if self.cut_at is not None and self.hang_at is not None:
            raise ValueError("give cut_at or hang_at: a stream that was cut cannot hang")

    @property
    def failed(self) -> bool:
        """Whether a client takes it for a failure, and keeps nothing of it."""
        cut = self.cut_at is not None or self.hang_at is not None or self.body is not None
        return cut or self.status != 200 or self.error_in_stream or self.finish in {None, "error", "unknown"}

    @property
    def ending(self) -> str | None:
        """The finish, with `auto` decided."""
        if self.finish == "auto":
            return "tool-calls" if self.tools else "stop"
        return self.finish


Script: TypeAlias = Mapping[str, Sequence[Reply]]


class Stamp(Struct, frozen=True, kw_only=True):
    """What an answer says of itself and of its request."""

    id: str = "local"
    model: str = "local"
    created: int = EPOCH_MS // 1000
    usage: bool = True
    """OpenAI's wire: whether the request asked for a last chunk with the usage."""


OK = Reply()
LOCAL = Stamp()


def pieces(text: str, count: int) -> list[str]:
    """The text in exactly so many pieces of about the same length."""
    size, longer = divmod(len(text), count)
    starts = [number * size + min(number, longer) for number in range(count + 1)]
    return [text[start:end] for start, end in pairwise(starts)]


def writes(head: bytes, said: list[bytes], tail: bytes, garbage: bytes | None) -> list[bytes]:
    """What is sent at one time each: the opening with the first piece, the end with the last one."""
    together = list(said) or [b""]
    if garbage is not None:
        middle = len(together) // 2
        together[middle] = garbage + together[middle]
    together[0] = head + together[0]
    together[-1] += tail
    return together
