"""Files that go along with a prompt: what they are, and in which form they travel."""

from base64 import b64encode
from mimetypes import guess_type
from pathlib import Path

from asyncagents.cli.exit import USAGE, Complaint
from asyncagents.llm.model import Attachment

LARGEST = 10 * 1024 * 1024
_BEGINNINGS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
)


def attach(path: Path) -> Attachment:
    """Raises `Complaint` for what no model could read."""
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST + 1)
    except OSError as error:
        raise Complaint(f"--file {path}: {error.strerror}", code=USAGE) from error
    if len(raw) > LARGEST:
        raise Complaint(
            f"--file {path} is larger than 10 MiB",
            hint="attach a part of it, or make it smaller",
            code=USAGE,
        )
    mime = _mime(path, raw)
    name = path.name.encode("utf-8", "replace").decode()
    return Attachment(mime, f"data:{mime};base64,{b64encode(raw).decode()}", name)


def _mime(path: Path, raw: bytes) -> str:
    """By what is in it; by its name only where that does not tell."""
    for beginning, mime in _BEGINNINGS:
        if raw.startswith(beginning):
            return mime
    if raw[:4] == b"RIFF" and raw[8:12] == b"WEBP":
        return "image/webp"
    if _is_text(raw):
        return "text/plain"
    by_name = guess_type(path.name)[0] or ""
    if by_name.startswith("image/"):
        return by_name
    raise Complaint(
        f"--file {path} is neither text nor an image nor a PDF",
        hint="if it is text, save it as UTF-8",
        code=USAGE,
    )


def _is_text(raw: bytes) -> bool:
    try:
        return "\0" not in raw.decode()
    except UnicodeDecodeError:
        return False
