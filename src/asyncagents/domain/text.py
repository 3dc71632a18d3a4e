"""Text functions: unpaired surrogates, shortening, reminders, error texts."""

from typing import Any

_REMINDER = "<system-reminder>"


def replace_surrogates(text: str) -> str:
    """Replace unpaired surrogates, which cannot be stored; streams, headers and file names may hold them."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def replace_surrogates_in(value: Any) -> Any:
    """Replace unpaired surrogates in all texts of a JSON value."""
    match value:
        case str():
            return replace_surrogates(value)
        case dict():
            return {replace_surrogates_in(name): replace_surrogates_in(item) for name, item in value.items()}
        case list() | tuple():
            return [replace_surrogates_in(item) for item in value]
        case _:
            return value


def shorten_middle(text: str, most: int) -> str:
    """Shorten a text to `most` characters of its beginning and end, with a note of what is left out."""
    if len(text) <= most:
        return text
    tail = most // 2
    return f"{text[: most - tail]}\n\n[… {len(text) - most:,} characters left out …]\n\n{text[-tail:]}"


RESULT_CHARACTERS = 200_000


def shorten_result(text: str) -> str:
    """Shorten a tool result for the model; one that fills the window would end the session."""
    return shorten_middle(text, RESULT_CHARACTERS)


def reminder(text: str) -> str:
    """Wrap a text in the reminder tag, so that the model does not take it for a person's prompt."""
    return f"{_REMINDER}\n{text}\n</system-reminder>"


def without_reminders(text: str) -> str:
    """Return a person's prompt without the reminders appended to it."""
    return text.partition(f"\n{_REMINDER}")[0]


def error_text(error: BaseException) -> str:
    """Return the type and text of an error; its `__str__` is foreign code and may raise."""
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001  the edge of foreign code
        text = ""
    return f"{type(error).__name__}: {text[:500]}" if text else type(error).__name__
