"""`edit`: replace a piece of text in a file."""

from typing import Annotated

from msgspec import Meta, Struct

from asyncagents.domain.call.call import Completed, Failed, Result
from asyncagents.engine.tool import Ask, Tool, ToolContext
from asyncagents.errors import ToolError
from asyncagents.tools.builtin.describe import load_description
from asyncagents.tools.file.edit_plan import FileEdit, apply_edit, preview_edit
from asyncagents.tools.file.files import Files, MissingFile
from asyncagents.tools.file.fingerprint import FileState, Fingerprint
from asyncagents.tools.file.path import OutsidePath, ResolvedPath
from asyncagents.tools.file.read_log import ReadLog
from asyncagents.tools.file.text import decode, encode, ending_converter, is_binary
from asyncagents.tools.file.text_replace import replace_text


class EditArgs(Struct, frozen=True, rename="camel"):
    file_path: Annotated[str, Meta(description="The file to change.")]
    old_string: Annotated[str, Meta(description="The text to replace, exactly as it is in the file.")]
    new_string: Annotated[str, Meta(description="What is to stand there instead.")]
    replace_all: Annotated[bool, Meta(description="Replace every occurrence of oldString.")] = False


def edit(files: Files, read_log: ReadLog) -> Tool[EditArgs]:
    async def plan(args: EditArgs, context: ToolContext) -> tuple[Ask, ...]:
        place = await files.threads.run(files.resolve, args.file_path, context.directory)
        return await files.threads.run(preview_edit, files, read_log, _build_edit(args, place), context)

    async def run(args: EditArgs, context: ToolContext) -> Completed:
        place = read_log.plan_of(context.call_id).place
        return await files.threads.run(apply_edit, files, read_log, _build_edit(args, place), context)

    async def reconcile(args: EditArgs, context: ToolContext) -> Result | None:
        return await files.threads.run(_reconcile, files, args, context)

    return Tool(
        "edit",
        EditArgs,
        run,
        plan=plan,
        effect="once",
        reconcile=reconcile,
        description=load_description("edit"),
    )


def _build_edit(args: EditArgs, place: ResolvedPath) -> FileEdit:
    def build_content(before: FileState | None, known: Fingerprint | None) -> bytes:
        if before is None:
            raise MissingFile(f"{place.name} does not exist: check the path, or use write to make a file.")
        if is_binary(before.data):
            raise ToolError(f"{place.name} is a binary file; change it with a command.")
        new = replace_text(
            decode(before.data, place.name), args.old_string, args.new_string, every=args.replace_all
        )
        return encode(new, "newString")

    return FileEdit(place, build_content)


def _reconcile(files: Files, args: EditArgs, context: ToolContext) -> Result | None:
    """Find out from the file whether the edit happened before a crash; None: unknown.

    Files are replaced atomically: the file holds either the old text or the new one.
    """
    place = files.resolve(args.file_path, context.directory)
    content = None if isinstance(place, OutsidePath) else files.read_or_none(place)
    if content is None or not args.old_string or not args.new_string:
        return None
    text = decode(content.data, place.name)
    old, new = (ending_converter(text)(each) in text for each in (args.old_string, args.new_string))
    if new and not old:
        return Completed(f"{place.name} was written.", title=place.name, metadata={"filepath": place.path})
    if old and not new:
        return Failed(f"The process stopped before {place.name} was changed: call edit again.")
    return None
