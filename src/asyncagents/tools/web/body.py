"""Read the body of a page: a bounded size, also after decompression, decoded as text."""

import asyncio
import codecs
import zlib
from collections.abc import Iterator

import aiohttp
from msgspec import Struct

from asyncagents.errors import ToolError

MOST_BYTES = 5 * 1024 * 1024
ENCODING = "gzip"
_PIECE_BYTES = 64 * 1024
# Charsets of the web: some of Python's other codecs are very slow, and some do not decode to text.
_CHARSETS = frozenset(
    {
        *("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "ascii"),
        *("iso8859-1", "iso8859-2", "iso8859-3", "iso8859-4", "iso8859-5", "iso8859-6", "iso8859-7"),
        *("iso8859-8", "iso8859-9", "iso8859-10", "iso8859-11", "iso8859-13", "iso8859-14", "iso8859-15"),
        *("iso8859-16", "cp1250", "cp1251", "cp1252", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257"),
        *("cp1258", "cp866", "cp874", "koi8-r", "koi8-u", "mac-roman", "mac-cyrillic", "tis-620"),
        *("gbk", "gb2312", "gb18030", "big5", "big5hkscs", "cp932", "cp949", "cp950"),
        *("euc_jp", "euc_kr", "shift_jis", "iso2022_jp"),
    }
)
_BYTE_ORDER_MARKS = {
    "utf-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
    "utf-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
}


class PageBody(Struct, frozen=True):
    content: bytes
    cut: bool


async def read_body(response: aiohttp.ClientResponse) -> PageBody:
    """Read at most `MOST_BYTES`, compressed and decompressed. Raises `ToolError`."""
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "", ENCODING, "x-gzip"):
        raise ToolError(f"{response.url} is packed as {encoding[:40]!r}, which was not asked for.")
    packed = encoding in (ENCODING, "x-gzip")
    stream = zlib.decompressobj(wbits=31)
    content = bytearray()
    wire = 0
    async for piece in response.content.iter_any():
        wire += len(piece)
        for part in _unpack(stream, piece) if packed else (piece,):
            content += part
            if len(content) > MOST_BYTES:
                return PageBody(bytes(content[:MOST_BYTES]), cut=True)
        if wire > MOST_BYTES or stream.eof:
            return PageBody(bytes(content), cut=not stream.eof)
    return PageBody(bytes(content), cut=False)


def _unpack(stream: "zlib._Decompress", piece: bytes) -> Iterator[bytes]:
    """Decompress in small parts: a few bytes may expand to gigabytes."""
    part = b"?"
    while (piece or part) and not stream.eof:
        try:
            part = stream.decompress(piece, _PIECE_BYTES)
        except zlib.error as error:
            raise ToolError("The page is packed, and damaged: it cannot be read.") from error
        piece = stream.unconsumed_tail
        yield part


async def decode_body(content: bytes, charset: str | None) -> str:
    """Decode with the page's charset if it is one of the web, else as UTF-8.

    Invalid bytes are slow to decode, so the event loop runs between two pieces.
    """
    known = _known_charset(charset)
    if known in _BYTE_ORDER_MARKS and not content.startswith(_BYTE_ORDER_MARKS[known]):
        known += "-le"  # an incremental decoder would need a byte order mark
    decoder = codecs.getincrementaldecoder(known)("replace")
    pieces: list[str] = []
    for start in range(0, len(content), _PIECE_BYTES):
        pieces.append(decoder.decode(content[start : start + _PIECE_BYTES]))
        await asyncio.sleep(0)
    return "".join([*pieces, decoder.decode(b"", final=True)])


def _known_charset(charset: str | None) -> str:
    try:
        known = codecs.lookup(charset or "utf-8").name
    except (LookupError, ValueError):  # ValueError: a NUL in it
        return "utf-8"
    return known if known in _CHARSETS else "utf-8"
