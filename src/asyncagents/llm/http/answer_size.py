"""Limits on the size of one provider answer, so that it cannot fill memory and disk."""

MOST_BYTES = 256 * 1024 * 1024
"""Bytes of one stream, including the JSON around each word (some hundred bytes)."""
MOST_CHARACTERS = 16 * 1024 * 1024
"""Characters of text, reasoning, signatures, arguments and names together: a hundred times what the largest
models write."""
MOST_ARGUMENTS = 4 * 1024 * 1024
"""Characters of the arguments of one call."""
MOST_CALLS = 512
MOST_BLOCKS = 4_096
"""Text, reasoning and call blocks; each is stored as a part."""


class AnswerTooLarge(ValueError):
    """An answer exceeds a limit; the message names the limit and completes "sent more than …"."""


class AnswerSize:
    """Count the size of one answer; every method raises `AnswerTooLarge` above its limit."""

    def __init__(self) -> None:
        self._bytes = self._characters = self._calls = self._blocks = 0
        self._arguments: dict[str, int] = {}

    def add_bytes(self, count: int) -> None:
        self._bytes += count
        if self._bytes > MOST_BYTES:
            raise AnswerTooLarge(f"{MOST_BYTES // 1024**2} MiB")

    def add_text(self, text: str) -> None:
        self._characters += len(text)
        if self._characters > MOST_CHARACTERS:
            raise AnswerTooLarge(f"{MOST_CHARACTERS // 1024**2} Mi characters")

    def add_block(self) -> None:
        self._blocks += 1
        if self._blocks > MOST_BLOCKS:
            raise AnswerTooLarge(f"{MOST_BLOCKS} texts and thoughts")

    def add_call(self, *names: str | None) -> None:
        """Count a call, and its id and name as text."""
        for name in names:
            self.add_text(name or "")
        self._calls += 1
        if self._calls > MOST_CALLS:
            raise AnswerTooLarge(f"{MOST_CALLS} calls of tools")

    def add_arguments(self, call: str, piece: str) -> None:
        self.add_text(piece)
        size = self._arguments[call] = self._arguments.get(call, 0) + len(piece)
        if size > MOST_ARGUMENTS:
            raise AnswerTooLarge(f"{MOST_ARGUMENTS // 1024**2} Mi characters of arguments for one call")
