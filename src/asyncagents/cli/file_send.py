"""Reads files of this machine as attachments, for a server that cannot see them."""

from base64 import b64encode
from collections.abc import Iterable
from pathlib import Path

from asyncagents.cli.exit import USAGE, Complaint
from asyncagents.llm.model import Attachment
from asyncagents.tools.material import told_mime

MOST_BYTES = 7 * 1024 * 1024
"""Limit of all files together: base64 adds a third, and the server limits the request body."""


def attachments(paths: Iterable[Path]) -> list[Attachment]:
    """Read files as attachments. Raises `CliError` if they are too large or of an unsupported type."""
    found, size = [], 0
    for path in paths:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES - size + 1)
        size += len(data)
        if size > MOST_BYTES:
            raise Complaint(
                f"{path}: files of more than {MOST_BYTES // 2**20} MiB in total cannot be sent",
                hint="attach a part of it, or a smaller file",
                code=USAGE,
            )
        found.append(_attachment(path, data))
    return found


def _attachment(path: Path, data: bytes) -> Attachment:
    mime = told_mime(path.name, data)
    if mime is None:
        raise Complaint(
            f"{path} is neither text nor an image nor a PDF",
            hint="if it is text, save it as UTF-8",
            code=USAGE,
        )
    return Attachment(mime, f"data:{mime};base64,{b64encode(data).decode()}", path.name)
