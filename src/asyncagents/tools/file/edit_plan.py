"""Preview an edit of one file as a diff, and apply it only to the content that was previewed."""

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from asyncagents.domain.call.call import Completed
from asyncagents.engine.tool import Ask, ToolContext
from asyncagents.errors import ToolError
from asyncagents.tools.file.diff import unified_diff
from asyncagents.tools.file.files import Files
from asyncagents.tools.file.fingerprint import FileState, Fingerprint
from asyncagents.tools.file.path import InsidePath, ResolvedPath, edit_asks
from asyncagents.tools.file.read_log import CallPlan, ReadLog
from asyncagents.tools.file.text_replace import NoMatch

BuildContent: TypeAlias = Callable[[FileState | None, Fingerprint | None], bytes]
"""Builds the new content from the current file and from the fingerprint the session knows."""

_NO_FILE = "none"


class FileEdit(Struct, frozen=True):
    place: ResolvedPath
    build_content: BuildContent


def preview_edit(files: Files, read_log: ReadLog, change: FileEdit, context: ToolContext) -> tuple[Ask, ...]:
    """Plan the edit and return its asks, with a diff.

    An error that would reveal content the session has not read does not raise: the ask carries it instead.
    """
    place = change.place
    known = read_log.known_fingerprint(context.session_id, place)
    (guard,) = files.guards([place])
    shown = isinstance(place, InsidePath) and (guard is None or guard.level == "guarded")
    before: FileState | None = None
    diff = ""
    try:
        before = files.read_or_none(place)
        diff = _diff(place, before, _build_content(change, before, known))
    except ToolError as error:
        if known is None and (isinstance(error, NoMatch) or not shown):
            diff = f"(no preview: {error})"
        else:
            raise
    sha = sha_of(before)
    read_log.record_plan(context.call_id, CallPlan(place, sha, guarded=guard is not None))
    # `before` binds the answer to the content that was previewed.
    return edit_asks([place], {"filepath": place.path, "diff": diff, "before": sha}, [guard])


def apply_edit(files: Files, read_log: ReadLog, change: FileEdit, context: ToolContext) -> Completed:
    place = change.place
    planned = read_log.plan_of(context.call_id)
    diffs: list[str] = []

    def build_checked(before: FileState | None) -> bytes:
        known = read_log.known_fingerprint(context.session_id, place)
        sha = sha_of(before)
        data = _build_content(change, before, known)
        # Changes by other calls of this session since the preview are accepted.
        if (
            sha != planned.before
            and (known is None or known.sha256 != sha)
            and not (before and before.data == data)
        ):
            raise stale_file_error(place)
        diffs.append(_diff(place, before, data))
        return data

    # Recorded under the lock: else the next writer would take this edit for a foreign change.
    with files.lock([place]), files.lock_guards([place], unguarded=[] if planned.guarded else [place]):
        stamp = files.rewrite(place, context.call_id, build_checked)
        read_log.record(context.session_id, place, stamp)
    done = f"{place.name} was written." if diffs[-1] else f"{place.name} has this content already."
    # OpenCode's clients show the written text only if there is a key `diagnostics`; none are made here.
    metadata = {"filepath": place.path, "diff": diffs[-1], "diagnostics": {}}
    return Completed(done, title=place.name, metadata=metadata)


def _build_content(change: FileEdit, before: FileState | None, known: Fingerprint | None) -> bytes:
    stale = before is not None and known is not None and known.sha256 != before.fingerprint.sha256
    try:
        data = change.build_content(before, known)
    except NoMatch as error:
        if stale:
            raise stale_file_error(change.place) from error
        raise
    if stale and before is not None and before.data != data:
        raise stale_file_error(change.place)
    return data


def sha_of(before: FileState | None) -> str:
    return before.fingerprint.sha256 if before else _NO_FILE


def stale_file_error(place: ResolvedPath) -> ToolError:
    return ToolError(f"{place.name} changed since it was read, so nothing was written: read it again first.")


def _diff(place: ResolvedPath, before: FileState | None, after: bytes) -> str:
    old = before.data if before else b""
    return unified_diff(place.name, old.decode("utf-8", "replace"), after.decode("utf-8", "replace"))
