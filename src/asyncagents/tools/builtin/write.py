"""`write`: create a file, or replace one that the session has read."""

from contextlib import suppress
from typing import Annotated

from msgspec import Meta, Struct

from asyncagents.domain.call.call import Completed
from asyncagents.engine.tool import Ask, Tool, ToolContext
from asyncagents.errors import ToolError
from asyncagents.tools.builtin.describe import load_description
from asyncagents.tools.file.edit_plan import FileEdit, apply_edit, preview_edit
from asyncagents.tools.file.files import Files
from asyncagents.tools.file.fingerprint import FileState, Fingerprint
from asyncagents.tools.file.path import ResolvedPath
from asyncagents.tools.file.read_log import ReadLog
from asyncagents.tools.file.text import MOST_TEXT, encode, keep_format


class WriteArgs(Struct, frozen=True, rename="camel"):
    file_path: Annotated[str, Meta(description="The file to write.")]
    content: Annotated[str, Meta(description="The whole new content.")]


def write(files: Files, read_log: ReadLog) -> Tool[WriteArgs]:
    async def plan(args: WriteArgs, context: ToolContext) -> tuple[Ask, ...]:
        place = await files.threads.run(files.resolve, args.file_path, context.directory)
        return await files.threads.run(preview_edit, files, read_log, _build_edit(args, place), context)

    async def run(args: WriteArgs, context: ToolContext) -> Completed:
        place = read_log.plan_of(context.call_id).place
        return await files.threads.run(apply_edit, files, read_log, _build_edit(args, place), context)

    return Tool(
        "write", WriteArgs, run, plan=plan, effect="idempotent", description=load_description("write")
    )


def _first_lines(data: bytes) -> bytes:
    """Return enough whole lines of a file to detect its line endings."""
    return data if len(data) <= MOST_TEXT else data[: data.rfind(b"\n", 0, MOST_TEXT) + 1]


def _build_edit(args: WriteArgs, place: ResolvedPath) -> FileEdit:
    def build_content(before: FileState | None, known: Fingerprint | None) -> bytes:
        new = encode(args.content, "content")
        if before is None:
            return new
        with suppress(UnicodeDecodeError):  # binary content has no format to keep
            new = encode(keep_format(_first_lines(before.data).decode(), args.content), "content")
        # A second run after a crash finds the content written already, which is not an error.
        if known is None and new != before.data:
            raise ToolError(
                f"{place.name} exists and was not read in this session: read it before you write it."
            )
        return new

    return FileEdit(place, build_content)
