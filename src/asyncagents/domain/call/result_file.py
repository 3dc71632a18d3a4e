"""Files of a tool result: which of them a model can be shown, and the notes for the others."""

import struct
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Sequence

from msgspec import Struct

from asyncagents.domain.conversation.part import FilePart
from asyncagents.domain.id import MessageId, PartId, SessionId
from asyncagents.errors import InvalidInput

MOST_FILES = 8
MOST_IMAGE_BYTES = 3_932_160
"""5 MiB as base64, the providers' limit for one image. A larger one would fail every later request."""
MOST_PDF_BYTES = 500_000
"""Tokens of a document are estimated from its bytes; a larger one would fill many models' windows."""
MOST_BYTES_TOGETHER = 10 * 1024 * 1024
MOST_PIXELS_A_SIDE = 8_000

PDF = "application/pdf"
UNSUPPORTED_TYPE = "it is neither a PNG, JPEG, GIF or WebP image nor a PDF"
_PNG, _PDF = b"\x89PNG\r\n\x1a\n", b"%PDF-"
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


class ResultFile(Struct, frozen=True, omit_defaults=True):
    """An image (PNG, JPEG, GIF, WebP) or a PDF beside a result; its bytes are in `url`, a `data:` URL."""

    mime: str
    url: str
    filename: str = ""

    @classmethod
    def from_bytes(cls, data: bytes, filename: str = "") -> "ResultFile":
        """Build the file from its bytes, which determine its type. Raises `InvalidInput` for other types."""
        mime = mime_of(data)
        if mime is None:
            raise InvalidInput(f"{filename or 'a file'} cannot be shown to a model: {UNSUPPORTED_TYPE}")
        return cls(mime, f"data:{mime};base64,{b64encode(data).decode()}", filename)


class FileCollector:
    """Collects the files of one result, as many as a model can be shown."""

    def __init__(self) -> None:
        self.files: list[ResultFile] = []
        self._room = MOST_BYTES_TOGETHER

    def add(self, data: bytes | None, filename: str = "") -> str | None:
        """Add a file, or return why it is left out. `data` None: its base64 is invalid."""
        why = "its base64 is broken" if data is None else self._problem(data)
        if data is None or why is not None:
            return why
        self._room -= len(data)
        self.files.append(ResultFile.from_bytes(data, filename))
        return None

    def _problem(self, data: bytes) -> str | None:
        if len(self.files) >= MOST_FILES:
            return f"a result has at most {MOST_FILES} files"
        if len(data) > self._room:
            return f"the files of a result have at most {MOST_BYTES_TOGETHER} bytes together"
        return file_problem(data)


def file_problem(data: bytes) -> str | None:
    """Return why a model cannot be shown these bytes: one broken image would fail every later request."""
    mime = mime_of(data)
    if mime is None:
        return UNSUPPORTED_TYPE
    most = MOST_PDF_BYTES if mime == PDF else MOST_IMAGE_BYTES
    if len(data) > most:
        return f"it is larger than {most} bytes"
    if mime == PDF:
        return None if b"%%EOF" in data[-2_048:] else "the document is cut short or broken"
    frame = image_size(data)
    if frame is None or not all(frame) or (mime == "image/png" and b"IEND" not in data[-4_096:]):
        return "the image is cut short or broken"
    if max(frame) > MOST_PIXELS_A_SIDE:
        return f"a side of it has more than {MOST_PIXELS_A_SIDE} pixels"
    return None


def fit_files(output: str, files: Sequence[ResultFile]) -> tuple[str, tuple[ResultFile, ...]]:
    """Keep the files that a model can be shown; the output says what was left out, and why."""
    collector = FileCollector()
    tried = [(file, collector.add(_decode_data_url(file.url), file.filename)) for file in files]
    notes = [
        f"[{file.filename or 'a file'} ({file.mime}) is not shown here: {why}]" for file, why in tried if why
    ]
    return "\n".join(filter(None, (output, *notes))), tuple(collector.files)


def file_parts(
    files: Sequence[ResultFile], part_id: PartId, session_id: SessionId, message_id: MessageId
) -> tuple[FilePart, ...]:
    """Render the files of a tool part; their ids derive from the part's, so rendering is repeatable."""
    return tuple(
        FilePart(
            id=PartId(f"{part_id}{number}"),
            session_id=session_id,
            message_id=message_id,
            mime=file.mime,
            url=file.url,
            filename=file.filename or None,
        )
        for number, file in enumerate(files, 1)
    )


def name_files(files: Sequence[ResultFile]) -> str:
    """List the files in a text, for the message that they are attached to."""
    named = ", ".join(f"{file.filename or 'a file without a name'} ({file.mime})" for file in files)
    return f"[attached: {named}]"


def decode_base64(data: str) -> bytes | None:
    """Decode base64; None if it is invalid."""
    try:
        return b64decode(data, validate=True)
    except (NotBase64, ValueError):
        return None


def _decode_data_url(url: str) -> bytes | None:
    head, comma, data = url.partition(",")
    return decode_base64(data) if comma and head.startswith("data:") and head.endswith(";base64") else None


def mime_of(data: bytes) -> str | None:
    starts = {_PNG: "image/png", b"GIF8": "image/gif", b"\xff\xd8\xff": "image/jpeg", _PDF: PDF}
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((mime for start, mime in starts.items() if data.startswith(start)), None)


def image_size(data: bytes) -> tuple[int, int] | None:
    """Read the width and height of an image; None if it is broken or not an image."""
    try:
        match mime_of(data):
            case "image/png":
                width, height = struct.unpack(">II", data[16:24])
            case "image/gif":
                width, height = struct.unpack("<HH", data[6:10])
            case "image/jpeg":
                return _jpeg_size(data)
            case "image/webp":
                return _webp_size(data)
            case _:
                return None
    except (struct.error, IndexError):
        return None
    return width, height


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    """Walk from segment to segment until the one that holds the frame."""
    at = 2
    while data[at] == 0xFF:
        marker = data[at + 1]
        if marker in _JPEG_FRAMES:
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        if marker == 0xFF:
            at += 1
        elif marker == 0x01 or 0xD0 <= marker <= 0xD7:
            at += 2
        else:
            at += 2 + struct.unpack(">H", data[at + 2 : at + 4])[0]
    return None


def _webp_size(data: bytes) -> tuple[int, int] | None:
    match data[12:16]:
        case b"VP8 ":
            width, height = struct.unpack("<HH", data[26:30])
            return width & 0x3FFF, height & 0x3FFF
        case b"VP8L":
            (bits,) = struct.unpack("<I", data[21:25])
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X" if len(data) >= 30:
            return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
        case _:
            return None
