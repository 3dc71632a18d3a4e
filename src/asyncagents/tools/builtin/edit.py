"""`edit`: replace a piece of text in a file."""

from typing import Annotated

from msgspec import Meta, Struct

from asyncagents.domain.call.call import Completed, Failed, Result
from asyncagents.engine.tool import Ask, Tool, ToolContext
from asyncagents.errors import ToolError
from asyncagents.tools.builtin.describe import described
from asyncagents.tools.file.edit_plan import Change, do, preview
from asyncagents.tools.file.files import Files, Missing
from asyncagents.tools.file.fingerprint import Content, Stamp
from asyncagents.tools.file.path import Outside, Place
from asyncagents.tools.file.read_log import Seen
from asyncagents.tools.file.text import decode, encode, endings_of, is_binary
from asyncagents.tools.file.text_replace import replace


class Edit(Struct, frozen=True, rename="camel"):
    file_path: Annotated[str, Meta(description="The file to change.")]
    old_string: Annotated[str, Meta(description="The text to replace, exactly as it is in the file.")]
    new_string: Annotated[str, Meta(description="What is to stand there instead.")]
    replace_all: Annotated[bool, Meta(description="Replace every occurrence of oldString.")] = False


def edit(files: Files, seen: Seen) -> Tool[Edit]:
    async def plan(args: Edit, context: ToolContext) -> tuple[Ask, ...]:
        place = await files.threads.run(files.place, args.file_path, context.directory)
        return await files.threads.run(preview, files, seen, _change(args, place), context)

    async def run(args: Edit, context: ToolContext) -> Completed:
        place = seen.planned(context.call_id).place
        return await files.threads.run(do, files, seen, _change(args, place), context)

    async def reconcile(args: Edit, context: ToolContext) -> Result | None:
        return await files.threads.run(_reconciled, files, args, context)

    return Tool(
        "edit", Edit, run, plan=plan, effect="once", reconcile=reconcile, description=described("edit")
    )


def _change(args: Edit, place: Place) -> Change:
    def made(before: Content | None, known: Stamp | None) -> bytes:
        if before is None:
            raise Missing(f"{place.name} does not exist: check the path, or use write to make a file.")
        if is_binary(before.data):
            raise ToolError(f"{place.name} is a binary file; change it with a command.")
        new = replace(
            decode(before.data, place.name), args.old_string, args.new_string, every=args.replace_all
        )
        return encode(new, "newString")

    return Change(place, made)


def _reconciled(files: Files, args: Edit, context: ToolContext) -> Result | None:
    """Find out from the file whether the edit happened before a crash; None: unknown.

    Files are replaced atomically: the file holds either the old text or the new one.
    """
    place = files.place(args.file_path, context.directory)
    content = None if isinstance(place, Outside) else files.read_or_none(place)
    if content is None or not args.old_string or not args.new_string:
        return None
    text = decode(content.data, place.name)
    old, new = (endings_of(text)(each) in text for each in (args.old_string, args.new_string))
    if new and not old:
        return Completed(f"{place.name} was written.", title=place.name, metadata={"filepath": place.path})
    if old and not new:
        return Failed(f"The process stopped before {place.name} was changed: call edit again.")
    return None
