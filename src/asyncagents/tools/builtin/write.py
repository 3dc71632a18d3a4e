"""`write`: create a file, or replace one that the session has read."""

from contextlib import suppress
from typing import Annotated

from msgspec import Meta, Struct

from asyncagents.domain.call.call import Completed
from asyncagents.engine.tool import Ask, Tool, ToolContext
from asyncagents.errors import ToolError
from asyncagents.tools.builtin.describe import described
from asyncagents.tools.file.edit_plan import Change, do, preview
from asyncagents.tools.file.files import Files
from asyncagents.tools.file.fingerprint import Content, Stamp
from asyncagents.tools.file.path import Place
from asyncagents.tools.file.read_log import Seen
from asyncagents.tools.file.text import MOST_TEXT, encode, in_the_manner_of


class Write(Struct, frozen=True, rename="camel"):
    file_path: Annotated[str, Meta(description="The file to write.")]
    content: Annotated[str, Meta(description="The whole new content.")]


def write(files: Files, seen: Seen) -> Tool[Write]:
    async def plan(args: Write, context: ToolContext) -> tuple[Ask, ...]:
        place = await files.threads.run(files.place, args.file_path, context.directory)
        return await files.threads.run(preview, files, seen, _change(args, place), context)

    async def run(args: Write, context: ToolContext) -> Completed:
        place = seen.planned(context.call_id).place
        return await files.threads.run(do, files, seen, _change(args, place), context)

    return Tool("write", Write, run, plan=plan, effect="idempotent", description=described("write"))


def _beginning(data: bytes) -> bytes:
    """Return enough whole lines of a file to detect its line endings."""
    return data if len(data) <= MOST_TEXT else data[: data.rfind(b"\n", 0, MOST_TEXT) + 1]


def _change(args: Write, place: Place) -> Change:
    def made(before: Content | None, known: Stamp | None) -> bytes:
        new = encode(args.content, "content")
        if before is None:
            return new
        with suppress(UnicodeDecodeError):  # binary content has no format to keep
            new = encode(in_the_manner_of(_beginning(before.data).decode(), args.content), "content")
        # A second run after a crash finds the content written already, which is not an error.
        if known is None and new != before.data:
            raise ToolError(
                f"{place.name} exists and was not read in this session: read it before you write it."
            )
        return new

    return Change(place, made)
