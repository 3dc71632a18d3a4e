"""Find files whose names match a glob, the last modified first."""

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.agent.guarded import GuardedPlaces
from asyncagents.domain.text import replace_surrogates
from asyncagents.errors import ToolError
from asyncagents.tools.file.files import Files
from asyncagents.tools.file.path import ResolvedPath
from asyncagents.tools.guard.place_guard import PlaceGuard
from asyncagents.tools.search.deadline import stop_after
from asyncagents.tools.search.glob_match import glob_filter
from asyncagents.tools.search.walk import walk

MOST_FILES = 100


class NameSearch(Struct, frozen=True, kw_only=True, tag="names"):
    root: str
    place: ResolvedPath
    pattern: str
    seconds: float
    """After this time the result is what was found so far."""
    guarded: GuardedPlaces = GuardedPlaces()
    """Places that may not be read are not found either."""


class FoundNames(Struct, frozen=True, kw_only=True):
    paths: tuple[str, ...] = ()
    count: int = 0
    """Number of all matches."""
    cut: bool = False
    """There were more entries than the limit, or the time was up."""
    error: str = ""


def find_names(search: NameSearch) -> FoundNames:
    try:
        files = Files(Path(search.root), guard=PlaceGuard(search.guarded))
        return search_names(files, search, stop_after(search.seconds))
    except ToolError as error:
        return FoundNames(error=replace_surrogates(str(error)))
    except MemoryError:
        return FoundNames(error="The folder holds too much to be searched; name a deeper one in path.")


def search_names(files: Files, search: NameSearch, stopped: Callable[[], bool]) -> FoundNames:
    place = search.place
    files.list_folder(place)  # raises the error about the folder itself
    walked = walk(files, place, glob_filter(search.pattern, place.parts), stopped=stopped)
    shown = walked.files[:MOST_FILES]
    return FoundNames(
        paths=tuple(replace_surrogates(replace(place, parts=each.parts).path) for each in shown),
        count=len(walked.files),
        cut=walked.cut,
    )
