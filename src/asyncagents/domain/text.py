"""Text that can be kept: every character of it is whole."""

from typing import Any

_REMINDER = "<system-reminder>"


def whole(text: str) -> str:
    """Half a character cannot be kept: a stream may cut one, a header or a file name may hold one."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def whole_in(value: Any) -> Any:
    """A JSON value, all of its texts whole."""
    match value:
        case str():
            return whole(value)
        case dict():
            return {whole_in(name): whole_in(item) for name, item in value.items()}
        case list() | tuple():
            return [whole_in(item) for item in value]
        case _:
            return value


def shortened(text: str, most: int) -> str:
    """Its beginning and its end, so many characters of it, and how many are missing between them."""
    if len(text) <= most:
        return text
    tail = most // 2
    return f"{text[: most - tail]}\n\n[… {len(text) - most:,} characters left out …]\n\n{text[-tail:]}"


RESULT_CHARACTERS = 200_000


def result_read(text: str) -> str:
    """What a model reads of a result: one that fills its window would end the conversation."""
    return shortened(text, RESULT_CHARACTERS)


def reminder(text: str) -> str:
    """What the model is reminded of, so that it does not take it for a person's words."""
    return f"{_REMINDER}\n{text}\n</system-reminder>"


def without_reminders(text: str) -> str:
    """What a person said, before what was added to it."""
    return text.partition(f"\n{_REMINDER}")[0]


def said(error: BaseException) -> str:
    """A sentence of it; what it says of itself is foreign code too."""
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001  whatever it does, its name is known
        text = ""
    return f"{type(error).__name__}: {text[:500]}" if text else type(error).__name__
