"""Replies of the local provider as data, independent of the wire."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

from msgspec import Struct

from asyncagents.testing.clock import EPOCH_MS


class ToolUse(Struct, frozen=True, forbid_unknown_fields=True):
    """A tool call of the model; without an `id` the provider generates one."""

    name: str
    args: dict[str, Any] = {}
    id: str | None = None
    raw: str | None = None
    """The raw arguments instead of `args`, e.g. invalid JSON."""


class TokenUsage(Struct, frozen=True, forbid_unknown_fields=True):
    """Disjoint token counts: `input` excludes cached tokens, `output` excludes reasoning."""

    input: int = 10
    output: int = 5
    reasoning: int = 0
    cache_read: int = 0
    cache_write: int = 0


class Reply(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer to one request: its content, its timing and its faults."""

    text: str = "ok"
    chunks: int = 1
    """The number of pieces of the text, and of the reasoning; the last ones are empty if it is too short."""
    reasoning: str = ""
    reasoning_field: str = "reasoning_content"
    """The field of the reasoning on OpenAI's wire, which differs between servers."""
    signature: str = "bG9jYWwgc2lnbmF0dXJl"
    """The signature of the reasoning on Anthropic's wire; empty: none."""
    tools: tuple[ToolUse, ...] = ()
    finish: str | None = "auto"
    """`stop`, `tool-calls`, `length`, `content-filter`, `error`, `unknown`; any other word is sent unchanged.

    `auto` is `tool-calls` with tools and `stop` without. None: the stream ends well formed, but without
    finish, usage and last event. Anthropic's wire has no `error`: it sends its error event.
    """
    usage: TokenUsage | None = TokenUsage()

    delay: float = 0
    """Seconds between the headers and the first byte of the body."""
    gap: float = 0
    """Seconds between two pieces."""

    status: int = 200
    headers: dict[str, str] = {}
    error: str = "The local provider was told to fail."
    """The message of an error; its type and code follow from the status, unless given."""
    error_type: str | None = None
    error_code: str | None = None
    error_in_stream: bool = False
    """Send everything but the finish, with status 200, then the wire's error event."""

    cut_at: int | None = None
    """Close the connection after this many bytes of the body; below 0: before the first header."""
    hang_at: int | None = None
    """Send no content after this many bytes until the client leaves; below 0: not even a header."""
    ping: float = 1.0
    """Seconds between two comments or pings while the stream hangs between events; 0: none."""
    garbage: bytes | None = None
    """Raw bytes sent in the middle of the stream, between two pieces."""
    body: bytes | None = None
    """Raw bytes sent instead of the body, with any status."""

    times: int = 0
    """Above 0: used for this many requests of its prompt, then the next reply follows."""

    def __post_init__(self) -> None:
        if self.chunks < 1:
            raise ValueError(f"chunks is {self.chunks}: give 1 or more")
        if not 200 <= self.status <= 599:
            raise ValueError(f"status is {self.status}: give one from 200 to 599")
        if not all(seconds >= 0 for seconds in (self.delay, self.gap, self.ping)):
            raise ValueError("delay, gap and ping are seconds: give 0 or more")
        if self.cut_at is not None and self.hang_at is not None:
            raise ValueError("give cut_at or hang_at: a stream that was cut cannot hang")

    @property
    def is_failure(self) -> bool:
        """Return whether a client treats the reply as a failure and keeps nothing of it."""
        cut = self.cut_at is not None or self.hang_at is not None or self.body is not None
        return cut or self.status != 200 or self.error_in_stream or self.finish in {None, "error", "unknown"}

    @property
    def ending(self) -> str | None:
        """The finish, with `auto` resolved."""
        if self.finish == "auto":
            return "tool-calls" if self.tools else "stop"
        return self.finish


Script: TypeAlias = Mapping[str, Sequence[Reply]]


class Stamp(Struct, frozen=True, kw_only=True):
    """The metadata of an answer."""

    id: str = "local"
    model: str = "local"
    created: int = EPOCH_MS // 1000
    usage: bool = True
    """OpenAI's wire: whether the request asked for a last chunk with the usage."""


OK = Reply()
LOCAL = Stamp()


def split_text(text: str, count: int) -> list[str]:
    """Split the text into exactly `count` pieces of about the same length."""
    size, longer = divmod(len(text), count)
    starts = [number * size + min(number, longer) for number in range(count + 1)]
    return [text[start:end] for start, end in pairwise(starts)]


def join_writes(head: bytes, pieces: list[bytes], tail: bytes, garbage: bytes | None) -> list[bytes]:
    """Return the writes of a stream: the head joins the first piece, the tail the last one."""
    together = list(pieces) or [b""]
    if garbage is not None:
        middle = len(together) // 2
        together[middle] = garbage + together[middle]
    together[0] = head + together[0]
    together[-1] += tail
    return together
