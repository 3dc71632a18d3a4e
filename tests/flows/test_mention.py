"""Files that are offered for what a person writes after an @ in OpenCode's terminal UI."""

from pathlib import Path
from urllib.parse import quote

import pytest

from asyncagents.domain.conversation.session import project_id
from tests.support.git import write_files
from tests.support.home import root
from tests.support.http.server import serve_project

__all__ = ["root"]
PLACE = quote("location[directory]")


@pytest.mark.spec("X-01")
async def test_files_and_folders_are_found_with_their_location(tmp_path: Path, root: Path) -> None:
    write_files(root, {"docs/notes.md": "n", "docs/other.txt": "o"})
    async with serve_project(tmp_path, root) as at:
        found = await at.json("/api/fs/find?query=docs&limit=20")
        one = await at.json("/api/fs/find?query=notes&limit=1")
        below = await at.json(f"/api/fs/find?query=notes&{PLACE}={root}/docs&directory={root}/src")
        refused = [
            (await at.get(f"/api/fs/find?query=a&{wrong}")).status
            for wrong in ("type=socket", "limit=many", f"{PLACE}=../up")
        ]

    where = {"directory": str(root), "project": {"id": project_id(str(root)), "directory": str(root)}}
    assert found["location"] == where
    assert {(each["path"], each["type"]) for each in found["data"]} == {
        ("docs/", "directory"),
        ("docs/notes.md", "file"),
        ("docs/other.txt", "file"),
    }
    assert one["data"] == [{"path": "docs/notes.md", "type": "file"}]
    assert below["location"]["directory"] == f"{root}/docs"
    assert below["location"]["project"]["directory"] == str(root)
    assert below["data"] == [{"path": "notes.md", "type": "file"}]
    assert refused == [400, 400, 400]
