"""`patch`: change several files together, all or none.

The context lines of a patch prove that the model knows them, so a file may be patched that this session
never read; one that it read and that changed since may not, as with edit. A file must have been read before
it is deleted, and moving a file needs permission to read it.
"""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from asyncagents.domain.agent.guarded import Guard
from asyncagents.domain.call.call import Completed, Result
from asyncagents.engine.tool import Ask, Tool, ToolContext
from asyncagents.errors import ToolError
from asyncagents.tools.builtin.describe import described
from asyncagents.tools.file.edit_plan import sha_of, surprise
from asyncagents.tools.file.files import Files
from asyncagents.tools.file.fingerprint import Content, Stamp
from asyncagents.tools.file.path import Outside, Place, edit_asks, read_asks
from asyncagents.tools.file.read_log import Planned, Seen
from asyncagents.tools.file.text_replace import NoMatch
from asyncagents.tools.patch.bind import Target, bound, look, made, places_of, shown, targets
from asyncagents.tools.patch.commit import Step, carry_out
from asyncagents.tools.patch.parse import parse
from asyncagents.tools.patch.reconcile import reconciled

MOST_DIFF = 50_000


class Patch(Struct, frozen=True, rename="camel"):
    patch_text: Annotated[str, Meta(description="The whole patch, from Begin Patch to End Patch.")]


def patch(files: Files, seen: Seen) -> Tool[Patch]:
    async def plan(args: Patch, context: ToolContext) -> tuple[Ask, ...]:
        return await files.threads.run(_planned, files, seen, args, context)

    async def run(args: Patch, context: ToolContext) -> Completed:
        return await files.threads.run(_run, files, seen, args, context)

    async def reconcile(args: Patch, context: ToolContext) -> Result | None:
        found = await files.threads.run(targets, files, parse(args.patch_text), context.directory)
        return await files.threads.run(reconciled, files, found)

    return Tool(
        "patch", Patch, run, plan=plan, effect="once", reconcile=reconcile, description=described("patch")
    )


def _planned(files: Files, seen: Seen, args: Patch, context: ToolContext) -> tuple[Ask, ...]:
    diffs: list[str] = []
    planned: list[Planned] = []
    chosen = targets(files, parse(args.patch_text), context.directory)
    guards = files.guards(places_of(chosen))
    guarded = any(guard is not None for guard in guards)
    hidden = any(guard is not None and guard.level != "guarded" for guard in guards)
    for target in chosen:
        diff, shas = _previewed(files, seen, (target, hidden), context)
        diffs.append(diff)
        planned += (Planned(*each, guarded=guarded) for each in zip(target.places, shas, strict=True))
    first = planned[0]
    seen.plan(context.call_id, replace(first, more=tuple(planned[1:])))
    moved = [target.place for target in chosen if target.to is not None]
    return (*_asks(planned, _joined(diffs), guards), *_reads(moved))


def _previewed(
    files: Files, seen: Seen, wanted: tuple[Target, bool], context: ToolContext
) -> tuple[str, tuple[str, ...]]:
    """Return the diff of one target and the hashes of its files.

    An error that would reveal content the session has not read does not raise: the diff names it instead.
    """
    target, hidden = wanted
    known = seen.known(context.session_id, target.place)
    befores: tuple[Content | None, ...] = (None,) * len(target.places)
    try:
        befores = look(files, target)
        diff = shown(target, made(target, befores, known))
    except ToolError as error:
        outside = hidden or any(isinstance(place, Outside) for place in target.places)
        if known is not None or not (outside or isinstance(error, NoMatch)):
            raise
        diff = f"(no preview of {target.place.name}: {error})\n"
    return diff, tuple(map(sha_of, befores))


def _asks(planned: list[Planned], diff: str, guards: Sequence[Guard | None]) -> tuple[Ask, ...]:
    places = [each.place for each in planned]
    metadata = {
        "filepath": places[0].path,
        "files": [place.path for place in places],
        "diff": diff,
        "before": " ".join(each.before or "" for each in planned),
    }
    return edit_asks(places, metadata, guards)


def _reads(moved: Sequence[Place]) -> tuple[Ask, ...]:
    """Ask to read the moved files: under its new name a file could be read by other rules."""
    return tuple(read_asks("read", place)[-1] for place in moved)


def _run(files: Files, seen: Seen, args: Patch, context: ToolContext) -> Completed:
    first = seen.planned(context.call_id)
    planned = (first, *first.more)
    chosen = bound(parse(args.patch_text), [each.place for each in planned])
    shown_before = {each.place.path: each for each in planned}
    places = places_of(chosen)
    with files.holding(places), files.guarded_as(places, unguarded=[] if first.guarded else places):
        diffs: list[str] = []
        steps: list[Step] = []
        for target in chosen:
            befores = look(files, target)
            for place, before in zip(target.places, befores, strict=True):
                known = seen.known(context.session_id, place)
                _as_planned(shown_before[place.path], before, known)
            part = made(target, befores, seen.known(context.session_id, target.place))
            diffs.append(shown(target, part))
            steps += part
        done = carry_out(files, steps, context.call_id)
        for each in done:
            if each.stamp is not None:
                seen.note(context.session_id, each.step.place, each.stamp)
    return _told(chosen, _joined(diffs))


def _as_planned(planned: Planned, before: Content | None, known: Stamp | None) -> None:
    """Raise `ToolError` if a file changed since the preview, other than by this session."""
    sha = sha_of(before)
    if sha != planned.before and (known is None or known.sha256 != sha):
        raise surprise(planned.place)


def _told(chosen: tuple[Target, ...], diff: str) -> Completed:
    places = places_of(chosen)
    title = chosen[0].place.name if len(chosen) == 1 else f"{len(chosen)} files"
    metadata = {"filepath": places[0].path, "files": [place.path for place in places], "diff": diff}
    lines = [target.told for target in chosen]
    return Completed("\n".join(["The patch was applied:", *lines]), title=title, metadata=metadata)


def _joined(diffs: list[str]) -> str:
    text = "".join(diffs)
    return text if len(text) <= MOST_DIFF else f"{text[:MOST_DIFF]}\n(the rest of the diff is not shown)\n"
