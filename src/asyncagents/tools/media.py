"""Pictures and documents: what can be told of them in words."""

import struct

from asyncagents.domain.call import Completed

_PNG, _PDF = b"\x89PNG\r\n\x1a\n", b"%PDF-"


def about_media(name: str, data: bytes) -> Completed | None:
    """None: it is neither a picture nor a PDF."""
    mime = mime_of(data)
    if mime is None:
        return None
    size = _size(mime, data)
    words = [mime, f"{size[0]} x {size[1]} pixels" if size else "", f"{len(data)} bytes"]
    hint = (
        "use a command such as pdftotext for its text"
        if mime == "application/pdf"
        else "it is not shown here"
    )
    output = f"{name}: {', '.join(word for word in words if word)}; {hint}."
    return Completed(output, title=name, metadata={"mime": mime, "size": len(data)})


def mime_of(data: bytes) -> str | None:
    starts = {_PNG: "image/png", b"GIF8": "image/gif", b"\xff\xd8\xff": "image/jpeg", _PDF: "application/pdf"}
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((mime for start, mime in starts.items() if data.startswith(start)), None)


def _size(mime: str, data: bytes) -> tuple[int, int] | None:
    if mime == "image/png" and len(data) >= 24:
        width, height = struct.unpack(">II", data[16:24])
    elif mime == "image/gif" and len(data) >= 10:
        width, height = struct.unpack("<HH", data[6:10])
    else:
        return None
    return width, height
