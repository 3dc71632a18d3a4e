"""Attached files: decode `data:` URLs, and describe files that a wire cannot carry."""

from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from asyncagents.llm.model import Attachment

_TEXT_TYPES = frozenset(
    f"application/{kind}"
    for kind in ("javascript", "json", "sql", "toml", "typescript", "x-sh", "x-yaml", "xml", "yaml")
)
_TEXT_KINDS = ("+json", "+xml", "+yaml")


class InlineFile(Struct, frozen=True):
    mime: str
    base64: str

    @property
    def url(self) -> str:
        return f"data:{self.mime};base64,{self.base64}"


def mime_of(file: Attachment) -> str:
    mime = file.mime.partition(";")[0].strip().lower()
    return "image/jpeg" if mime == "image/jpg" else mime


def is_remote(file: Attachment) -> bool:
    return file.url.startswith(("https://", "http://"))


def inline_file(file: Attachment) -> InlineFile | None:
    """Return the content of a `data:` URL in base64; None for any other URL."""
    if not file.url.startswith("data:"):
        return None
    about, comma, data = file.url.removeprefix("data:").partition(",")
    if not comma:
        return None
    if not about.endswith(";base64"):
        data = b64encode(unquote_to_bytes(data)).decode()
    elif "%" in data:
        data = unquote_to_bytes(data).decode("ascii", "replace")
    return InlineFile(mime_of(file), data)


def decode_text(file: Attachment) -> str | None:
    """Decode a text file from its `data:` URL; None for other files and for text that is not UTF-8."""
    mime = mime_of(file)
    is_text = mime.startswith("text/") or mime in _TEXT_TYPES or mime.endswith(_TEXT_KINDS)
    held = inline_file(file) if is_text else None
    if held is None:
        return None
    try:
        return b64decode(held.base64).decode()
    except (NotBase64, UnicodeDecodeError):
        return None


def text_with_name(file: Attachment) -> str | None:
    """Return a text file's name and content as text, which every wire can carry; None for other files."""
    text = decode_text(file)
    return f"{name_of(file)}:\n{text}" if text and text.strip() else None


def placeholder_text(file: Attachment) -> str:
    where = f" at {file.url}" if is_remote(file) else ""
    return f"[A file was attached that cannot be shown here: {name_of(file)} ({mime_of(file)}){where}]"


def name_of(file: Attachment) -> str:
    return file.filename or "a file without a name"
