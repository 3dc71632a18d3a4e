"""Text of files: encoding, line endings, byte order mark, and detection of binary files."""

from collections.abc import Callable

from asyncagents.errors import ToolError

BOM = "\ufeff"
MOST_TEXT = 10 * 1024 * 1024
MOST_TEXT_LINES = 200_000
"""Bounds each operation on a text to a few milliseconds, in which no other thread runs."""
_SAMPLE_BYTES = 8_192
_MOST_ODD = 0.3
_CONTROL = bytes(set(range(32)) - {7, 8, 9, 10, 12, 13, 27})


def is_binary(data: bytes) -> bool:
    """Return whether the first bytes have a NUL or too many control and invalid characters."""
    head = data[:_SAMPLE_BYTES]
    if b"\0" in head:
        return True
    control = len(head) - len(head.translate(None, _CONTROL))
    odd = control + head.decode("utf-8", "replace").count("\ufffd")
    return odd > _MOST_ODD * max(1, len(head))


def is_large(data: bytes | str) -> bool:
    """Return whether a text is too large to be compared or edited in this process."""
    newline = b"\n" if isinstance(data, bytes) else "\n"
    return len(data) > MOST_TEXT or data.count(newline) > MOST_TEXT_LINES  # type: ignore[arg-type]


def decode(data: bytes, name: str) -> str:
    """Decode UTF-8 strictly, so that the text can be written back unchanged; else raise `ToolError`."""
    if is_large(data):
        raise ToolError(
            f"{name} has more than {MOST_TEXT // 1024**2} MiB or {MOST_TEXT_LINES:,} lines; "
            "change it with a command."
        )
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ToolError(f"{name} is not UTF-8 text; convert it first, or change it with bash.") from error


def encode(text: str, field: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ToolError(f"{field} has half a character in it; write it again in valid Unicode.") from error


def is_crlf(text: str) -> bool:
    """Return whether most lines end with CRLF."""
    return text.count("\r\n") * 2 > text.count("\n")


def ending_converter(text: str) -> Callable[[str], str]:
    """Return a function that gives other texts the line endings of `text`."""
    return _to_crlf if is_crlf(text) else _to_lf if "\n" in text else _keep_text


def _to_crlf(text: str) -> str:
    return _to_lf(text).replace("\n", "\r\n")


def _to_lf(text: str) -> str:
    return text.replace("\r\n", "\n")


def _keep_text(text: str) -> str:
    return text


def keep_format(before: str, content: str) -> str:
    """Give `content` the byte order mark and line endings of `before`."""
    content = ending_converter(before)(content)
    return BOM + content if before.startswith(BOM) and not content.startswith(BOM) else content
