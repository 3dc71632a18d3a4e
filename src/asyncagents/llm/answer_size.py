"""How much one answer of a provider may hold: what comes beyond would fill memory and disk."""

MOST_BYTES = 256 * 1024 * 1024
"""Of a stream, with all that its wire puts around the words: some hundred bytes for each of them."""
MOST_CHARACTERS = 16 * 1024 * 1024
"""Of text, thoughts, their signatures, arguments and names together: a hundred times what the largest models
write."""
MOST_ARGUMENTS = 4 * 1024 * 1024
"""Characters of the arguments of one call."""
MOST_CALLS = 512
MOST_BLOCKS = 4_096
"""Texts, thoughts and calls, each of which is kept as a part of its own."""


class AnswerTooLarge(ValueError):
    """Say what there was too much of, as the end of a sentence about an answer."""


class AnswerSize:
    """Count what an answer holds; every method raises `AnswerTooLarge` once it is too much."""

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
        """Count a call, and what names it: names are kept as the rest is."""
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
