"""The file door: hostile trees, swaps while it opens, and writes that are whole or not at all."""

import os
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from asyncagents.domain.id import CallId, SessionId
from asyncagents.errors import ToolError
from asyncagents.tools.file.files import Files, MissingFile
from asyncagents.tools.file.fingerprint import FileState, Fingerprint
from asyncagents.tools.file.open_beneath import OpenFolder, has_openat2, open_by_openat2, open_by_walk
from asyncagents.tools.file.path import InsidePath, OutsidePath, ResolvedPath, edit_asks, read_asks
from asyncagents.tools.file.read_log import CallPlan, ReadLog
from tests.support.workspace.file_tool import OPEN_WAYS, SECRET, ToolDesk, swap_forever


@pytest.fixture(params=OPEN_WAYS)
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> ToolDesk:
    return ToolDesk(tmp_path, request.param)


def _chain(root: Path, count: int, last: str) -> None:
    for number in range(count):
        (root / f"l{number}").symlink_to(f"l{number + 1}" if number + 1 < count else last)


def _deep(root: Path, at: int) -> None:
    """a/b/c/d, with the component `at` a link to the same outside."""
    parts = ["a", "b", "c", "d"]
    folder = root.joinpath(*parts[:at])
    folder.mkdir(parents=True, exist_ok=True)
    away = root.parent / "outside"
    (away.joinpath(*parts[at + 1 :])).mkdir(parents=True, exist_ok=True)
    (away.joinpath(*parts[at + 1 :]) / "secret.txt").write_text(SECRET)
    (folder / parts[at]).symlink_to(away)


Make = Callable[[Path], object]


def _nothing(root: Path) -> None:
    pass


def _link(name: str, target: str) -> Make:
    def make(root: Path) -> None:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(
            target.replace("ROOT", str(root)).replace("OUT", str(root.parent / "outside"))
        )

    return make


# Each leads out of the project: the door says so, and opens nothing of it as if it were inside.
ESCAPES: dict[str, tuple[Make, str]] = {
    "dotdot": (_nothing, "../outside/secret.txt"),
    "dotdot after a missing folder": (_nothing, "no/../../outside/secret.txt"),
    "dotdot many": (_nothing, "../../../../../../../../../../../../etc/passwd"),
    "dotdot in the middle": (_nothing, "./x/.././../outside/secret.txt"),
    "absolute": (_nothing, "OUT/secret.txt"),
    "absolute with slashes": (_nothing, "//OUT//secret.txt"),
    "absolute through the project": (_nothing, "ROOT/../outside/secret.txt"),
    "a name that begins like the project": (lambda r: Path(f"{r}2").mkdir(), "../project2/x"),
    "case of the project": (_nothing, "../PROJECT/x"),
    "link to a file": (_link("l", "OUT/secret.txt"), "l"),
    "relative link to a file": (_link("l", "../outside/secret.txt"), "l"),
    "link to a folder": (_link("l", "OUT"), "l/secret.txt"),
    "relative link to a folder": (_link("l", "../outside"), "l/secret.txt"),
    "link to the parent": (_link("l", ".."), "l/outside/secret.txt"),
    "link to the root": (_link("l", "/"), "l/etc/passwd"),
    "link with a slash after it": (_link("l", "../outside/"), "l/"),
    "link, then dotdot": (_link("l", "OUT"), "l/../outside/secret.txt"),
    "link through a missing folder": (_link("l", "no/../../outside/secret.txt"), "l"),
    "link through itself and out": (_link("l", "./../project/../outside"), "l/secret.txt"),
    "dangling link out": (_link("l", "OUT/not-yet"), "l"),
    "dangling folder link out": (_link("l", "OUT/not-yet"), "l/deep/file"),
    "first of four": (lambda r: _deep(r, 0), "a/b/c/d/secret.txt"),
    "second of four": (lambda r: _deep(r, 1), "a/b/c/d/secret.txt"),
    "third of four": (lambda r: _deep(r, 2), "a/b/c/d/secret.txt"),
    "last of four": (lambda r: _deep(r, 3), "a/b/c/d/secret.txt"),
    "a chain of links": (lambda r: _chain(r, 20, "../outside/secret.txt"), "l0"),
    "a newline in the link": (_link("a\nb", "../outside"), "a\nb/secret.txt"),
    "unicode in the link": (_link("ä\u0308\u202e", "../outside"), "ä\u0308\u202e/secret.txt"),
    "a link named like a wildcard": (_link("*", "../outside"), "*/secret.txt"),
    "a link named tilde": (_link("~x", "../outside"), "~x/secret.txt"),
    "home": (_nothing, "~/notes"),
    "home and up": (_nothing, "~/../outside/secret.txt"),
}

# Each is refused outright: there is no place to ask about.
REFUSED: dict[str, tuple[Make, str]] = {
    "loop of one": (_link("l", "l"), "l"),
    "loop of two": (lambda r: (_link("a", "b")(r), _link("b", "a")(r)), "a/x"),
    "loop through folders": (_link("d/l", "../d/l/x"), "d/l/y"),
    "too long a chain": (lambda r: _chain(r, 60, "x"), "l0"),
    "magic link to the root": (_nothing, "/proc/self/root/etc/passwd"),
    "magic link to the working folder": (_nothing, "/proc/self/cwd/x"),
    "magic link to a handle": (_nothing, "/proc/self/fd/0"),
    "a link to a magic link": (_link("l", "/proc/self/root"), "l/etc/passwd"),
    "the environment of a process": (_nothing, "/proc/self/environ"),
    "standard input": (_link("l", "/dev/stdin"), "l"),
    "NUL": (_nothing, "a\0b"),
    "empty": (_nothing, ""),
    "half a character": (_nothing, "a\ud800"),
    "a byte that is no text": (lambda r: os.symlink(b"\xff", os.fsencode(r / "l")), "l"),
    "overlong name": (_nothing, "n" * 300),
    "overlong path": (_nothing, "a/" * 5000),
}


@pytest.mark.spec("A-05")
@pytest.mark.parametrize("case", ESCAPES)
def test_a_path_that_leads_out_asks_for_the_folder_it_leads_to(desk: ToolDesk, case: str) -> None:
    make, path = ESCAPES[case]
    make(desk.root)
    path = path.replace("ROOT", str(desk.root)).replace("OUT", str(desk.outside))
    place = desk.files.resolve(path)
    assert isinstance(place, OutsidePath)
    assert os.path.realpath(place.path) == place.path
    for asks in (read_asks("read", place), edit_asks([place], {}, [None])):
        assert asks[0].permission == "external_directory"
        assert asks[0].patterns == (f"{os.path.dirname(place.path).rstrip('/')}/*",)
        assert asks[1].patterns == (place.path,)


@pytest.mark.parametrize("case", [case for case in ESCAPES if case != "home"])  # inside, ~ is a name
def test_an_inside_path_that_leads_outside_is_not_opened(desk: ToolDesk, case: str) -> None:
    make, path = ESCAPES[case]
    make(desk.root)
    relative = path.replace("ROOT/", "").replace("OUT", "../outside")
    place = InsidePath(str(desk.root), tuple(relative.split("/")))
    with pytest.raises(ToolError):
        desk.files.read(place)
    with pytest.raises(ToolError):
        desk.files.rewrite(place, "key", lambda _: b"broken in")
    assert (desk.outside / "secret.txt").read_text() == SECRET


@pytest.mark.spec("A-05")
@pytest.mark.parametrize("case", REFUSED)
def test_a_path_that_leads_nowhere_is_refused_in_one_sentence(desk: ToolDesk, case: str) -> None:
    make, path = REFUSED[case]
    make(desk.root)
    with pytest.raises(ToolError) as told:
        desk.files.read(desk.files.resolve(path))
    assert str(told.value).endswith(".")
    assert len(str(told.value)) < 500


@pytest.mark.parametrize(
    ("make", "path", "name"),
    [
        (_nothing, "a/f", "a/f"),
        (_nothing, "./a//./f", "a/f"),
        (_nothing, "a/../a/f", "a/f"),
        (_nothing, "a/f/", "a/f"),
        (_nothing, "ROOT/a/f", "a/f"),
        (_nothing, "../project/a/f", "a/f"),
        (_link("l", "a"), "l/f", "a/f"),
        (_link("l", "ROOT/a"), "l/f", "a/f"),
        (_link("l", "../project/a/f"), "l", "a/f"),
        (_link("l", "."), "l/l/l/a/f", "a/f"),
        (lambda r: os.symlink("ROOT".replace("ROOT", str(r)), r.parent / "back"), "../back/a/f", "a/f"),
    ],
)
def test_a_path_that_stays_inside_is_named_by_its_real_name(
    desk: ToolDesk, make: Make, path: str, name: str
) -> None:
    desk.put("a/f", "inside")
    make(desk.root)
    place = desk.files.resolve(path.replace("ROOT", str(desk.root)))
    assert place.name == name
    assert desk.files.read(place).data == b"inside"
    assert isinstance(place, InsidePath)


@pytest.mark.parametrize(
    "name", ["new\nline", "ünï", "u\u0308", "*", " ", "-rf", "a" * 255, "\u202e", "...", "~"]
)
def test_files_with_odd_names_are_written_listed_and_read(desk: ToolDesk, name: str) -> None:
    place = desk.files.resolve(f"./{name}")
    desk.files.rewrite(place, "key", lambda _: b"x")
    assert [each.name for each in desk.files.list_folder(desk.files.resolve("."))] == [name]
    assert desk.files.read(place).data == b"x"


@pytest.mark.spec("A-05")
def test_devices_pipes_sockets_and_folders_are_not_read(desk: ToolDesk) -> None:
    os.mkfifo(desk.root / "pipe")
    (desk.root / "folder").mkdir()
    (desk.root / "zero").symlink_to("/dev/zero")
    (desk.root / "terminal").symlink_to("/dev/tty")
    with socket.socket(socket.AF_UNIX) as server:
        here = os.open(desk.root, os.O_RDONLY)
        try:
            server.bind(f"/proc/self/fd/{here}/socket")  # the real path may be too long for a socket
        finally:
            os.close(here)
        for name, word in [
            ("pipe", "pipe"),
            ("socket", "socket"),
            ("zero", "device"),
            ("folder", "folder"),
            ("/dev/null", "device"),
        ]:
            place = desk.files.resolve(name)
            with pytest.raises(ToolError, match=word):
                desk.files.read(place)
            with pytest.raises(ToolError, match=word):
                desk.files.rewrite(place, "key", lambda _: b"x")


def test_a_place_that_was_granted_outside_is_opened_and_its_neighbour_by_a_link_is_not(
    desk: ToolDesk,
) -> None:
    place = desk.files.resolve("../outside/secret.txt")
    assert desk.files.read(place).data.decode() == SECRET
    moved = desk.outside.rename(desk.outside.parent / "moved")
    desk.outside.symlink_to(moved)
    with pytest.raises(ToolError):
        desk.files.read(place)


def test_a_folder_that_becomes_a_link_after_the_plan_is_not_followed(desk: ToolDesk) -> None:
    desk.put("a/secret.txt", "mine")
    place = desk.files.resolve("a/secret.txt")
    (desk.root / "a").rename(desk.root / "b")
    (desk.root / "a").symlink_to(desk.outside)
    with pytest.raises(ToolError):
        desk.files.read(place)
    with pytest.raises(ToolError):
        desk.files.rewrite(place, "key", lambda _: b"x")


@pytest.mark.parametrize("top", ["project", "outside"])
def test_a_link_to_a_neighbour_is_not_followed_after_the_plan(desk: ToolDesk, top: str) -> None:
    """The rules were asked about one name: a link to a neighbour would give another."""
    folder = desk.root.parent / top
    for name in ("open", "private"):
        (folder / name).mkdir()
        (folder / name / "key").write_text(name)
    place = desk.files.resolve(str(folder / "open/key"))
    assert desk.files.read(place).data == b"open"
    (folder / "open").rename(folder / "was")
    (folder / "open").symlink_to("private")
    with pytest.raises(ToolError):
        desk.files.read(place)
    with pytest.raises(ToolError):
        desk.files.rewrite(place, "key", lambda _: b"x")
    assert (folder / "private/key").read_text() == "private"


def test_the_read_log_is_bounded_and_forgets_the_oldest_entries(desk: ToolDesk) -> None:
    read_log = ReadLog(files=2, calls=1)
    session = SessionId("ses_1")
    places = [desk.files.resolve(name) for name in ("a", "b", "c")]
    for place in places:
        read_log.record(session, place, Fingerprint(1, 2, 3, 4, "sha"))
    assert [read_log.known_fingerprint(session, place) is not None for place in places] == [False, True, True]
    for place in places:
        read_log.record_plan(CallId(place.name), CallPlan(place))
    assert read_log.plan_of(CallId("c")).place == places[2]
    with pytest.raises(ToolError, match="call the tool again"):
        read_log.plan_of(CallId("a"))


@pytest.mark.parametrize("name", ["read", "write", "edit", "list"])
def test_each_tool_and_each_argument_has_a_description(desk: ToolDesk, name: str) -> None:
    told = desk.tools[name].spec()
    assert "\n- " in told.description
    (shape,) = msgspec.json.schema(desk.tools[name].args)["$defs"].values()
    assert all(field["description"] for field in shape["properties"].values())


@pytest.fixture
def swapping(desk: ToolDesk) -> Iterator[ToolDesk]:
    with swap_forever(desk):
        yield desk


@pytest.mark.spec("A-05")
def test_swapping_a_folder_and_a_link_never_opens_a_file_outside(swapping: ToolDesk) -> None:
    files = swapping.files
    inside = InsidePath(str(swapping.root), ("d", "secret.txt"))
    read = refused = number = 0
    while number < 2000 or not (read and refused):  # the thread may be slow to get its turn
        number += 1
        try:
            assert files.read(inside).data in {b"mine", b"new"}
            if number % 10 == 0:
                files.rewrite(inside, str(number), lambda _: b"new")
            read += 1
        except ToolError:
            refused += 1
    assert (swapping.outside / "secret.txt").read_text() == SECRET
    assert os.listdir(swapping.outside) == ["secret.txt"]


@pytest.mark.spec("A-05")
def test_while_a_folder_is_swapped_only_the_resolved_file_is_opened(swapping: ToolDesk) -> None:
    """The outside content comes only from a place that asked for the outside."""
    opened: set[tuple[type[ResolvedPath], bytes]] = set()
    tries = 0
    while tries < 2000 or len(opened) < 2:  # the thread may be slow to get its turn
        tries += 1
        try:
            place = swapping.files.resolve("d/secret.txt")
            opened.add((type(place), swapping.files.read(place).data))
        except ToolError:
            pass
    assert opened == {(InsidePath, b"mine"), (OutsidePath, SECRET.encode())}


def test_a_hard_link_to_the_outside_is_cut_not_written_through(desk: ToolDesk) -> None:
    os.link(desk.outside / "secret.txt", desk.root / "hard")
    desk.files.rewrite(desk.files.resolve("hard"), "key", lambda _: b"mine now")
    assert (desk.outside / "secret.txt").read_text() == SECRET
    assert (desk.root / "hard").read_bytes() == b"mine now"


@pytest.mark.parametrize("mode", [0o644, 0o755, 0o600, 0o664])
def test_a_write_keeps_the_mode_and_leaves_nothing_beside(desk: ToolDesk, mode: int) -> None:
    path = desk.put("a", "old")
    path.chmod(mode)
    desk.files.rewrite(desk.files.resolve("a"), "key", lambda _: b"new")
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert os.listdir(desk.root) == ["a"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file away")
def test_a_write_by_root_keeps_the_owner(desk: ToolDesk) -> None:
    os.chown(desk.put("a", "old"), 1234, 4321)
    desk.files.rewrite(desk.files.resolve("a"), "key", lambda _: b"new")
    about = (desk.root / "a").stat()
    assert about.st_uid == 1234
    assert about.st_gid == 4321


def test_a_read_only_file_is_not_replaced(desk: ToolDesk) -> None:
    path = desk.put("a", "old")
    path.chmod(0o444)
    with pytest.raises(ToolError, match="read-only"):
        desk.files.rewrite(desk.files.resolve("a"), "key", lambda _: b"new")
    assert path.read_text() == "old"


def test_a_write_through_a_link_changes_the_file_and_keeps_the_link(desk: ToolDesk) -> None:
    desk.put("real", "old")
    (desk.root / "l").symlink_to("real")
    desk.files.rewrite(desk.files.resolve("l"), "key", lambda _: b"new")
    assert (desk.root / "l").is_symlink()
    assert (desk.root / "real").read_bytes() == b"new"


def test_a_new_file_gets_its_folders(desk: ToolDesk) -> None:
    stamp = desk.files.rewrite(
        desk.files.resolve("a/b/c"), "key", lambda before: b"new" if not before else b""
    )
    assert desk.files.read(desk.files.resolve("a/b/c")).fingerprint == stamp


@pytest.mark.parametrize("there", [True, False])
def test_a_file_that_another_program_writes_meanwhile_is_not_overwritten(desk: ToolDesk, there: bool) -> None:
    path = desk.root / "a"
    if there:
        path.write_text("old")

    def slow(before: FileState | None) -> bytes:
        path.write_text("theirs, and longer")
        return b"ours"

    with pytest.raises(ToolError, match="read it again"):
        desk.files.rewrite(desk.files.resolve("a"), "key", slow)
    assert path.read_text() == "theirs, and longer"
    assert os.listdir(desk.root) == ["a"]


def test_a_file_that_changed_since_it_was_read_is_not_removed(desk: ToolDesk) -> None:
    path = desk.put("a", "old")
    place = desk.files.resolve("a")
    before = desk.files.read(place).fingerprint
    path.write_text("theirs, and longer")
    with pytest.raises(ToolError, match="changed meanwhile"):
        desk.files.remove(place, before)
    assert path.read_text() == "theirs, and longer"
    desk.files.remove(place, desk.files.read(place).fingerprint)
    assert not path.exists()


def test_only_an_empty_folder_is_removed_and_no_link_to_one(desk: ToolDesk) -> None:
    desk.put("full/a", "x")
    (desk.root / "empty").mkdir()
    (desk.root / "link").symlink_to(desk.outside)
    for name in ("full", "link"):
        with pytest.raises(ToolError):
            desk.files.remove_folder(InsidePath(str(desk.root), (name,)))
    desk.files.remove_folder(desk.files.resolve("empty"))
    assert sorted(os.listdir(desk.root)) == ["full", "link"]


def test_a_failure_while_the_content_is_made_leaves_the_file(desk: ToolDesk) -> None:
    path = desk.put("a", "old")

    def fail(before: FileState | None) -> bytes:
        raise ToolError("no.")

    with pytest.raises(ToolError, match="no"):
        desk.files.rewrite(desk.files.resolve("a"), "key", fail)
    assert path.read_text() == "old"


def test_changes_from_many_threads_are_all_there(desk: ToolDesk) -> None:
    place = desk.files.resolve("count")

    def add(number: int) -> None:
        desk.files.rewrite(place, str(number), lambda before: (before.data if before else b"") + b"x")

    threads = [threading.Thread(target=add, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (desk.root / "count").read_bytes() == b"x" * 20


def test_a_temporary_file_of_a_crash_is_reused_by_the_same_call(
    desk: ToolDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = desk.files.resolve("a")
    seen: list[str] = []

    class Crash(BaseException):
        pass

    def crash(*args: object, **kwargs: object) -> None:
        seen.extend(os.listdir(desk.root))
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", crash)
        with pytest.raises(Crash):
            desk.files.rewrite(place, "key", lambda _: b"new")
    assert len(seen) == 1
    (desk.root / seen[0]).write_text("left by a process that was killed")
    desk.files.rewrite(place, "key", lambda _: b"new")
    assert os.listdir(desk.root) == ["a"]
    assert (desk.root / "a").read_bytes() == b"new"


def test_no_handle_is_left_open(desk: ToolDesk) -> None:
    before = len(os.listdir("/proc/self/fd"))
    desk.put("a/b", "x")
    (desk.root / "l").symlink_to("l")
    for path in ("a/b", "a", "a/b/c", "no", "l", "../outside/secret.txt", "."):
        for work in (desk.files.read, desk.files.list_folder, desk.files.is_folder):
            with suppress(ToolError):
                work(desk.files.resolve(path))
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_missing_project_is_an_error_that_names_it(tmp_path: Path) -> None:
    files = Files(tmp_path / "gone")
    with pytest.raises(MissingFile, match="does not exist"):
        files.read(files.resolve("a"))


def test_openat2_and_the_walk_agree_on_every_tree(tmp_path: Path) -> None:
    if not has_openat2():
        pytest.skip("needs openat2")
    outcomes: list[list[str]] = []
    for number, way in enumerate((open_by_openat2, open_by_walk)):
        outcomes.append(_outcomes(tmp_path / str(number), way))
    assert outcomes[0] == outcomes[1]


def _outcomes(folder: Path, way: OpenFolder) -> list[str]:
    found: list[str] = []
    for number, (make, path) in enumerate([*ESCAPES.values(), *REFUSED.values()]):
        top = folder / str(number)
        top.mkdir(parents=True)
        desk = ToolDesk(top, way)
        make(desk.root)
        try:
            place = desk.files.resolve(path.replace("ROOT", str(desk.root)).replace("OUT", str(desk.outside)))
            found.append(f"{type(place).__name__} {desk.files.read(place).data!r}")
        except ToolError as error:
            found.append(str(error).replace(str(folder), ""))
    return found
