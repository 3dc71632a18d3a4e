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
from asyncagents.tools.builtin.describe import load_description
from asyncagents.tools.file.edit_plan import sha_of, stale_file_error
from asyncagents.tools.file.files import Files
from asyncagents.tools.file.fingerprint import FileState, Fingerprint
from asyncagents.tools.file.path import OutsidePath, ResolvedPath, edit_asks, read_asks
from asyncagents.tools.file.read_log import CallPlan, ReadLog
from asyncagents.tools.file.text_replace import NoMatch
from asyncagents.tools.patch.commit import FileStep, apply_steps
from asyncagents.tools.patch.parse import parse_patch
from asyncagents.tools.patch.reconcile import reconcile_patch
from asyncagents.tools.patch.targets import (
    PatchTarget,
    bind_sections,
    places_of,
    plan_steps,
    read_target,
    resolve_targets,
    target_diff,
)

MOST_DIFF = 50_000


class PatchArgs(Struct, frozen=True, rename="camel"):
    patch_text: Annotated[str, Meta(description="The whole patch, from Begin Patch to End Patch.")]


def patch(files: Files, read_log: ReadLog) -> Tool[PatchArgs]:
    async def plan(args: PatchArgs, context: ToolContext) -> tuple[Ask, ...]:
        return await files.threads.run(_plan_patch, files, read_log, args, context)

    async def run(args: PatchArgs, context: ToolContext) -> Completed:
        return await files.threads.run(_apply_patch, files, read_log, args, context)

    async def reconcile(args: PatchArgs, context: ToolContext) -> Result | None:
        found = await files.threads.run(
            resolve_targets, files, parse_patch(args.patch_text), context.directory
        )
        return await files.threads.run(reconcile_patch, files, found)

    return Tool(
        "patch",
        PatchArgs,
        run,
        plan=plan,
        effect="once",
        reconcile=reconcile,
        description=load_description("patch"),
    )


def _plan_patch(files: Files, read_log: ReadLog, args: PatchArgs, context: ToolContext) -> tuple[Ask, ...]:
    diffs: list[str] = []
    planned: list[CallPlan] = []
    chosen = resolve_targets(files, parse_patch(args.patch_text), context.directory)
    guards = files.guards(places_of(chosen))
    guarded = any(guard is not None for guard in guards)
    hidden = any(guard is not None and guard.level != "guarded" for guard in guards)
    for target in chosen:
        diff, shas = _preview_target(files, read_log, (target, hidden), context)
        diffs.append(diff)
        planned += (CallPlan(*each, guarded=guarded) for each in zip(target.places, shas, strict=True))
    first = planned[0]
    read_log.record_plan(context.call_id, replace(first, more=tuple(planned[1:])))
    moved = [target.place for target in chosen if target.to is not None]
    return (*_patch_asks(planned, _join_diffs(diffs), guards), *_move_asks(moved))


def _preview_target(
    files: Files, read_log: ReadLog, wanted: tuple[PatchTarget, bool], context: ToolContext
) -> tuple[str, tuple[str, ...]]:
    """Return the diff of one target and the hashes of its files.

    An error that would reveal content the session has not read does not raise: the diff names it instead.
    """
    target, hidden = wanted
    known = read_log.known_fingerprint(context.session_id, target.place)
    befores: tuple[FileState | None, ...] = (None,) * len(target.places)
    try:
        befores = read_target(files, target)
        diff = target_diff(target, plan_steps(target, befores, known))
    except ToolError as error:
        outside = hidden or any(isinstance(place, OutsidePath) for place in target.places)
        if known is not None or not (outside or isinstance(error, NoMatch)):
            raise
        diff = f"(no preview of {target.place.name}: {error})\n"
    return diff, tuple(map(sha_of, befores))


def _patch_asks(planned: list[CallPlan], diff: str, guards: Sequence[Guard | None]) -> tuple[Ask, ...]:
    places = [each.place for each in planned]
    metadata = {
        "filepath": places[0].path,
        "files": [place.path for place in places],
        "diff": diff,
        "before": " ".join(each.before or "" for each in planned),
    }
    return edit_asks(places, metadata, guards)


def _move_asks(moved: Sequence[ResolvedPath]) -> tuple[Ask, ...]:
    """Ask to read the moved files: under its new name a file could be read by other rules."""
    return tuple(read_asks("read", place)[-1] for place in moved)


def _apply_patch(files: Files, read_log: ReadLog, args: PatchArgs, context: ToolContext) -> Completed:
    first = read_log.plan_of(context.call_id)
    planned = (first, *first.more)
    chosen = bind_sections(parse_patch(args.patch_text), [each.place for each in planned])
    shown_before = {each.place.path: each for each in planned}
    places = places_of(chosen)
    with files.lock(places), files.lock_guards(places, unguarded=[] if first.guarded else places):
        diffs: list[str] = []
        steps: list[FileStep] = []
        for target in chosen:
            befores = read_target(files, target)
            for place, before in zip(target.places, befores, strict=True):
                known = read_log.known_fingerprint(context.session_id, place)
                _check_unchanged(shown_before[place.path], before, known)
            part = plan_steps(target, befores, read_log.known_fingerprint(context.session_id, target.place))
            diffs.append(target_diff(target, part))
            steps += part
        done = apply_steps(files, steps, context.call_id)
        for each in done:
            if each.fingerprint is not None:
                read_log.record(context.session_id, each.step.place, each.fingerprint)
    return _build_result(chosen, _join_diffs(diffs))


def _check_unchanged(planned: CallPlan, before: FileState | None, known: Fingerprint | None) -> None:
    """Raise `ToolError` if a file changed since the preview, other than by this session."""
    sha = sha_of(before)
    if sha != planned.before and (known is None or known.sha256 != sha):
        raise stale_file_error(planned.place)


def _build_result(chosen: tuple[PatchTarget, ...], diff: str) -> Completed:
    places = places_of(chosen)
    title = chosen[0].place.name if len(chosen) == 1 else f"{len(chosen)} files"
    metadata = {"filepath": places[0].path, "files": [place.path for place in places], "diff": diff}
    lines = [target.summary_line for target in chosen]
    return Completed("\n".join(["The patch was applied:", *lines]), title=title, metadata=metadata)


def _join_diffs(diffs: list[str]) -> str:
    text = "".join(diffs)
    return text if len(text) <= MOST_DIFF else f"{text[:MOST_DIFF]}\n(the rest of the diff is not shown)\n"
