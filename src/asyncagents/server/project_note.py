"""Name, icon and start command of projects, stored in `projects.json` of the data directory."""

import os
import tempfile
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from asyncagents.domain.shape import Shape
from asyncagents.errors import Conflict

FILE = "projects.json"
MOST = 1_000

Line = Annotated[str, Meta(max_length=200)]
Picture = Annotated[str, Meta(max_length=20_000)]


class ProjectIcon(Shape, frozen=True, kw_only=True):
    url: Picture | None = None
    override: Picture | None = None
    color: Line | None = None


class ProjectCommands(Shape, frozen=True, kw_only=True):
    start: Annotated[str, Meta(max_length=4_000)] | None = None


class ProjectNote(Shape, frozen=True, kw_only=True):
    name: Line | None = None
    icon: ProjectIcon | None = None
    commands: ProjectCommands | None = None


def read_notes(data: Path | None) -> dict[str, ProjectNote]:
    """Read all notes, by project id."""
    try:
        raw = (data / FILE).read_bytes() if data is not None else b"{}"
        return msgspec.json.decode(raw, type=dict[str, ProjectNote])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as error:
        raise Conflict(
            f"{FILE} in the server's data directory cannot be read: repair or remove it"
        ) from error


def note(data: Path | None, project_id: str, new: ProjectNote) -> ProjectNote:
    """Merge new fields into the note of a project; fields that are None keep their values."""
    notes = read_notes(data)
    known = notes.get(project_id, ProjectNote())
    said = {
        name: value for name in ProjectNote.__struct_fields__ if (value := getattr(new, name)) is not None
    }
    notes[project_id] = msgspec.structs.replace(known, **said)
    if data is None or len(notes) > MOST:
        raise Conflict(f"too many project notes: at most {MOST}; remove some from {FILE}")
    _write(data / FILE, msgspec.json.encode(notes))
    return notes[project_id]


def _write(file: Path, content: bytes) -> None:
    """Replace the file atomically, readable by its owner only."""
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")
    try:
        with os.fdopen(descriptor, "wb") as draft:
            draft.write(content)
        os.replace(name, file)
    except BaseException:
        os.unlink(name)
        raise
