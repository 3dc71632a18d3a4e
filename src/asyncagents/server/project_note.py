"""What people noted of a project: a name, a picture, what starts it. Kept beside the data of the server."""

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
    """By the id of the project."""
    try:
        raw = (data / FILE).read_bytes() if data is not None else b"{}"
        return msgspec.json.decode(raw, type=dict[str, ProjectNote])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as error:
        raise Conflict(f"{FILE} in the server's data cannot be read: mend or remove it") from error


def note(data: Path | None, project_id: str, new: ProjectNote) -> ProjectNote:
    """What it does not say stays as it was."""
    notes = read_notes(data)
    known = notes.get(project_id, ProjectNote())
    said = {
        name: value for name in ProjectNote.__struct_fields__ if (value := getattr(new, name)) is not None
    }
    notes[project_id] = msgspec.structs.replace(known, **said)
    if data is None or len(notes) > MOST:
        raise Conflict(f"no more than {MOST} projects can be noted: remove some from {FILE}")
    _write(data / FILE, msgspec.json.encode(notes))
    return notes[project_id]


def _write(file: Path, content: bytes) -> None:
    """In one step, and for nobody else's eyes."""
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")
    try:
        with os.fdopen(descriptor, "wb") as draft:
            draft.write(content)
        os.replace(name, file)
    except BaseException:
        os.unlink(name)
        raise
