"""Files over HTTP: what a directory holds, and nothing beyond it, whatever paths and links say."""

import json
import os
import socket
import subprocess
from base64 import b64decode
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.git import write_files
from tests.support.home import root
from tests.support.http.client import Response
from tests.support.http.server import ProjectClient, serve_project

__all__ = ["root"]

SECRET = "the word that must stay outside"


async def content(at: ProjectClient, path: str) -> Response:
    return await at.get(f"/file/content?path={quote(path)}")


@pytest.mark.spec("X-01")
async def test_a_folder_is_listed_as_opencode_lists_it(tmp_path: Path, root: Path) -> None:
    write_files(root, {"x.log": "l", "src/deep/b.py": "b", "Über.txt": "u", "build/keep/x": "1"})
    (root / "link").symlink_to("src/a.py")
    async with serve_project(tmp_path, root) as at:
        top = await at.json("/file?path=.")
        same = await at.json("/file?path=")
        below = await at.json("/file?path=src/")
        nested = await at.json(f"/file?path=deep&directory={root}/src")
        missing = [(await at.get(f"/file?path={path}")).status for path in ("nope", "src/a.py")]

    assert top == same
    assert [(each["name"], each["type"], each["ignored"]) for each in top] == [
        (".git", "directory", False),
        ("build", "directory", False),
        ("src", "directory", False),
        (".gitignore", "file", False),
        ("x.log", "file", True),
        ("Über.txt", "file", False),
    ]
    assert below[0] == {
        "name": "deep",
        "path": "src/deep/",
        "absolute": f"{root}/src/deep",
        "type": "directory",
        "ignored": False,
    }
    assert [each["path"] for each in nested] == ["deep/b.py"]
    assert missing == [404, 400]


@pytest.mark.spec("X-01")
async def test_a_file_is_returned_as_text_or_as_base64(tmp_path: Path, root: Path) -> None:
    raw = bytes(range(256)) * 4
    write_files(
        root, {"empty": "", "b.png": b"\x89PNG\r\n\x1a\n" + raw, "odd.txt": b"caf\xe9\n", "s.txt": " a \n\n"}
    )
    async with serve_project(tmp_path, root) as at:
        text = await at.json("/file/content?path=src/a.py")
        spaces = await at.json("/file/content?path=s.txt")
        empty = await at.json("/file/content?path=empty")
        picture = await at.json("/file/content?path=b.png")
        latin = await at.json("/file/content?path=odd.txt")
        none = [await at.get(f"/file/content{query}") for query in ("", "?path=", "?path=nope", "?path=src")]

    assert text == {"type": "text", "content": 'def hello():\n    return "hello world"\n'}
    assert spaces["content"] == " a \n\n"
    assert empty == {"type": "text", "content": ""}
    assert picture["type"] == "binary"
    assert picture["mimeType"] == "image/png"
    assert b64decode(picture["content"])[8:] == raw
    assert latin["type"] == "binary"
    assert b64decode(latin["content"]) == b"caf\xe9\n"
    assert [each.status for each in none] == [400, 400, 404, 400]


def outside(tmp_path: Path, root: Path) -> Path:
    """A folder beside the project with a secret, and links to it from inside."""
    beyond = tmp_path / "beyond"
    write_files(beyond, {"secret.txt": SECRET, "project": SECRET})
    (root / "file-link").symlink_to(beyond / "secret.txt")
    (root / "folder-link").symlink_to(beyond)
    (root / "up-link").symlink_to("..")
    (root / "chain").symlink_to("folder-link/secret.txt")
    (root / "loop").symlink_to("loop")
    (root / "proc").symlink_to("/proc/self/environ")
    (root / "src" / "relative").symlink_to("../../beyond/secret.txt")
    return beyond


PATHS = (
    "../beyond/secret.txt",
    "src/../../beyond/secret.txt",
    "./../beyond/secret.txt",
    "..%2fbeyond/secret.txt",
    "file-link",
    "folder-link/secret.txt",
    "up-link/beyond/secret.txt",
    "chain",
    "loop",
    "proc",
    "src/relative",
    "~/../beyond/secret.txt",
    "~root/x",
    "/etc/passwd",
    "/proc/self/environ",
    "//etc//passwd",
    "file:///etc/passwd",
    "....//....//etc/passwd",
    "..\\beyond\\secret.txt",
    "x" * 5_000,
    "a/" * 2_000,
)


@pytest.mark.spec("X-01")
async def test_no_path_and_no_link_leads_out_of_a_directory(tmp_path: Path, root: Path) -> None:
    beyond = outside(tmp_path, root)
    async with serve_project(tmp_path, root) as at:
        told = [await content(at, path) for path in (*PATHS, str(beyond / "secret.txt"))]
        listed = [await at.get(f"/file?path={quote(path)}") for path in (*PATHS, str(beyond), "..", "/")]
        raw = [
            await at.get(f"/file/content?path={path}") for path in ("%00", "a%00b", "%ff", "%2e%2e%2f%2e%2e")
        ]
        twice = await at.get("/file/content?path=src/a.py&path=/etc/passwd")
        found = await at.json("/find/file?query=secret")
        lines = await at.json(f"/find?pattern={quote(SECRET)}")

    assert {each.status for each in (*told, *listed, *raw, twice)} <= {400, 404}
    assert not any(SECRET in each.text or "root:" in each.text for each in (*told, *listed, *raw))
    assert not any(str(beyond) in each.text for each in listed[:-3])
    assert found == []
    assert lines == []


async def test_a_directory_below_a_project_does_not_reach_above_itself(tmp_path: Path, root: Path) -> None:
    write_files(root, {"top.txt": SECRET, "src/in.txt": "in"})
    (root / "src/up").symlink_to("../top.txt")
    async with serve_project(tmp_path, root) as at:
        where = f"directory={root}/src"
        own = await at.json(f"/file/content?path=in.txt&{where}")
        told = [
            await at.get(f"/file/content?path={path}&{where}")
            for path in ("../top.txt", "up", quote(str(root / "top.txt")))
        ]
        absolute = await at.json(f"/file/content?path={quote(str(root / 'src/in.txt'))}&{where}")
        names = await at.json(f"/find/file?query=&dirs=false&{where}")
        lines = await at.json(f"/find?pattern=in&{where}")

    assert own["content"] == absolute["content"] == "in"
    assert [each.status for each in told] == [404] * 3
    assert sorted(names) == ["a.py", "in.txt"]
    assert [each["path"]["text"] for each in lines] == ["in.txt"]


async def test_pipes_sockets_and_devices_are_not_opened(tmp_path: Path, root: Path) -> None:
    os.mkfifo(root / "pipe")
    (root / "zero").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(root / "socket"))
        async with serve_project(tmp_path, root) as at:
            told = [await content(at, path) for path in ("pipe", "zero", "socket")]
            listed = {each["name"] for each in await at.json("/file?path=.")}
            lines = await at.json("/find?pattern=hello")

    assert [each.status for each in told] == [400, 404, 400]
    assert listed.isdisjoint({"pipe", "zero", "socket"})
    assert len(lines) == 2


async def test_a_file_that_is_too_large_is_refused_with_a_message(tmp_path: Path, root: Path) -> None:
    for name, size in (("large", 11 * 1024**2), ("huge", 10 * 1024**3)):
        with (root / name).open("wb") as file:
            file.truncate(size)
    async with serve_project(tmp_path, root) as at:
        told = [await content(at, path) for path in ("large", "huge")]

    assert [each.status for each in told] == [400, 400]
    assert all("larger than" in each.json["data"]["message"] for each in told)


@pytest.mark.spec("X-01")
async def test_a_file_that_a_rule_denies_is_not_read_and_one_it_asks_about_is(
    tmp_path: Path, root: Path
) -> None:
    rules: Any = {"permission": {"read": {"keys/*": "deny", "src/*.pem": "deny"}}}
    write_files(
        root,
        {".env": "TOKEN=1", "keys/id": SECRET, "src/x.pem": SECRET, "asyncagents.json": json.dumps(rules)},
    )
    (root / "way-round").symlink_to("keys/id")
    async with serve_project(tmp_path, root) as at:
        env = await content(at, ".env")
        denied = [await content(at, path) for path in ("keys/id", "way-round", "src/../keys/id", "keys//id")]
        below = await at.get(f"/file/content?path=x.pem&directory={root}/src")
        lines = await at.json(f"/find?pattern={quote('TOKEN|' + SECRET)}")
        diffs = await at.json("/vcs/diff?mode=git")
        raw = await at.get("/vcs/diff/raw")

    assert env.json["content"] == "TOKEN=1"
    assert [each.status for each in (*denied, below)] == [400] * 5
    assert lines == []
    assert not any(SECRET in each.get("patch", "") for each in diffs)
    assert {"keys/id", "src/x.pem"} <= {each["file"] for each in diffs}
    assert SECRET not in raw.text


@pytest.mark.spec("X-01")
async def test_lines_are_found_with_their_places_in_bytes(tmp_path: Path, root: Path) -> None:
    write_files(root, {"e.txt": "eins\nä öö zwei öö\r\n", "x.log": "öö"})
    async with serve_project(tmp_path, root) as at:
        found = await at.json(f"/find?pattern={quote('ö+')}")
        bad = [
            await at.get(f"/find{query}")
            for query in ("", "?pattern=", "?pattern=(", f"?pattern={'x' * 5000}")
        ]

    assert found == [
        {
            "path": {"text": "e.txt"},
            "lines": {"text": "ä öö zwei öö\n"},
            "line_number": 2,
            "absolute_offset": 5,
            "submatches": [
                {"match": {"text": "öö"}, "start": 3, "end": 7},
                {"match": {"text": "öö"}, "start": 13, "end": 17},
            ],
        }
    ]
    assert [each.status for each in bad] == [400] * 4


@pytest.mark.spec("X-01")
async def test_files_and_folders_are_found_by_fuzzy_search(tmp_path: Path, root: Path) -> None:
    write_files(
        root, {"src/server/file.py": "", "src/server/profile.py": "", "docs/file.md": "", "x.log": ""}
    )
    async with serve_project(tmp_path, root) as at:
        best = await at.json("/find/file?query=file")
        folders = await at.json("/find/file?query=serv&type=directory")
        files = await at.json("/find/file?query=srvfile&dirs=false")
        few = await at.json("/find/file?query=&limit=2")
        none = await at.json("/find/file?query=log")
        bad = [
            await at.get(f"/find/file?query=a&{query}")
            for query in ("limit=0", "limit=201", "limit=x", "type=both", "dirs=perhaps")
        ]

    assert best[:2] == ["docs/file.md", "src/server/file.py"]
    assert folders == ["src/server/"]
    assert files == ["src/server/file.py", "src/server/profile.py"]
    assert len(few) == 2
    assert none == []
    assert [each.status for each in bad] == [400] * 5


async def test_a_file_name_that_is_not_utf8_does_not_break_a_listing(tmp_path: Path, root: Path) -> None:
    os.close(os.open(os.fsencode(root) + b"/bad-\xff-name", os.O_CREAT | os.O_WRONLY, 0o600))
    async with serve_project(tmp_path, root) as at:
        listed = [each["name"] for each in await at.json("/file?path=.")]
        found = await at.json("/find/file?query=bad")
        status = await at.json("/vcs/status")

    assert "bad-?-name" in listed
    assert found == ["bad-?-name"]
    assert len(status) == 1


def track(root: Path, name: str) -> None:
    subprocess.run(("git", "-C", str(root), "add", "--force", name), check=True, capture_output=True)


@pytest.mark.spec("X-01")
async def test_a_file_that_git_tracks_is_found_though_a_rule_ignores_it(tmp_path: Path, root: Path) -> None:
    write_files(root, {"kept.log": "needle\n", "other.log": "needle\n"})
    track(root, "kept.log")
    async with serve_project(tmp_path, root) as at:
        lines = await at.json("/find?pattern=needle")
        names = await at.json("/find/file?query=log")
        listed = await at.json("/file?path=.")

    assert [each["path"]["text"] for each in lines] == ["kept.log"]
    assert names == ["kept.log"]
    assert {each["name"]: each["ignored"] for each in listed if each["name"].endswith(".log")} == {
        "kept.log": False,
        "other.log": True,
    }
