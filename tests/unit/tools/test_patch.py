"""`patch`: several files, all or nothing, only where each hunk fits once, never over what changed."""

import asyncio
import errno
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asyncagents.domain.call.call import Completed, Failed, Result
from asyncagents.errors import ToolError
from asyncagents.tools.builtin.patch import PatchArgs, patch
from tests.support.workspace.file_tool import SECRET, ToolDesk


@pytest.fixture
def desk(tmp_path: Path) -> ToolDesk:
    return patch_desk(tmp_path)


def patch_desk(folder: Path) -> ToolDesk:
    desk = ToolDesk(folder)
    desk.tools["patch"] = patch(desk.files, desk.seen)
    return desk


def _patch(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


async def _applied(desk: ToolDesk, *lines: str) -> Completed:
    return await desk.call("patch", patchText=_patch(*lines))


def _tree(desk: ToolDesk) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(desk.root)): path.read_bytes() if path.is_file() else None
        for path in desk.root.rglob("*")
    }


def _names(desk: ToolDesk) -> list[str]:
    return os.listdir(desk.root)


FOUR = (
    "*** Update File: a.py",
    "@@",
    " one",
    "-two",
    "+2",
    "*** Add File: new/deep/b.py",
    "+x = 1",
    "*** Delete File: c.py",
    "*** Update File: d.py",
    "*** Move to: moved/e.py",
    "@@",
    "-four",
    "+4",
)


async def _furnished(desk: ToolDesk) -> None:
    desk.put("a.py", "one\ntwo\nthree\n")
    desk.put("c.py", "gone\n")
    desk.put("d.py", "four\n").chmod(0o755)
    await desk.call("read", filePath="c.py")


@pytest.mark.spec("A-05")
async def test_a_patch_is_shown_as_one_diff_asked_for_once_and_then_done(desk: ToolDesk) -> None:
    await _furnished(desk)
    before = _tree(desk)
    context = desk.context()
    ask, read = await desk.plan("patch", context, patchText=_patch(*FOUR))
    assert _tree(desk) == before
    assert ask.permission == "edit"
    assert (read.permission, read.patterns) == ("read", ("d.py",))  # what is moved could be read elsewhere
    assert ask.patterns == ("a.py", "new/deep/b.py", "c.py", "d.py", "moved/e.py")
    assert ask.metadata["diff"].splitlines() == [
        *("--- a.py", "+++ a.py", "@@ -1,3 +1,3 @@", " one", "-two", "+2", " three"),
        *("--- new/deep/b.py", "+++ new/deep/b.py", "@@ -0,0 +1,1 @@", "+x = 1"),
        *("--- c.py", "+++ c.py", "@@ -1,1 +0,0 @@", "-gone"),
        *("rename from d.py", "rename to moved/e.py", "--- moved/e.py", "+++ moved/e.py"),
        *("@@ -1,1 +1,1 @@", "-four", "+4"),
    ]
    result = await desk.run("patch", context, patchText=_patch(*FOUR))
    assert _tree(desk) == {
        "a.py": b"one\n2\nthree\n",
        "new": None,
        "new/deep": None,
        "new/deep/b.py": b"x = 1\n",
        "moved": None,
        "moved/e.py": b"4\n",
    }
    assert stat.S_IMODE((desk.root / "moved/e.py").stat().st_mode) == 0o755
    assert result.output.splitlines()[1:] == ["M a.py", "A new/deep/b.py", "D c.py", "R d.py -> moved/e.py"]
    assert result.metadata["diff"] == ask.metadata["diff"]


@pytest.mark.spec("A-05")
@pytest.mark.parametrize("k", range(5))
async def test_a_patch_with_a_failed_write_changes_no_file(
    desk: ToolDesk, monkeypatch: pytest.MonkeyPatch, k: int
) -> None:
    await _furnished(desk)
    before = _tree(desk)
    context = desk.context()
    await desk.plan("patch", context, patchText=_patch(*FOUR))
    with monkeypatch.context() as patched:
        calls = _failing(patched, k)
        with pytest.raises(ToolError, match=r"disk is full.*No file is changed"):
            await desk.run("patch", context, patchText=_patch(*FOUR))
    assert len(calls) > k
    assert _tree(desk) == before
    assert stat.S_IMODE((desk.root / "d.py").stat().st_mode) == 0o755
    await _applied(desk, *FOUR)
    assert (desk.root / "moved/e.py").read_text() == "4\n"


def _failing(patched: pytest.MonkeyPatch, k: int) -> list[str]:
    """The k-th change of the tree fails, as on a full disk: three writes, two removals."""
    calls: list[str] = []

    def counted(do: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if str(args[0]).startswith(".asyncagents") and do is unlink:
                return do(*args, **kwargs)
            calls.append(str(args[0]))
            if len(calls) == k + 1:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return do(*args, **kwargs)

        return call

    unlink = os.unlink
    for name in ("rename", "link", "unlink"):
        patched.setattr(os, name, counted(getattr(os, name)))
    return calls


async def test_the_error_names_files_that_could_not_be_restored(
    desk: ToolDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _furnished(desk)
    context = desk.context()
    await desk.plan("patch", context, patchText=_patch(*FOUR))
    real, calls = os.rename, 0

    def rename(*args: Any, **kwargs: Any) -> None:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(*args, **kwargs)

    def link(*args: Any, **kwargs: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", rename)
        patched.setattr(os, "link", link)
        with pytest.raises(ToolError, match=r"could not be put back and are changed: a\.py;"):
            await desk.run("patch", context, patchText=_patch(*FOUR))
    assert not (desk.root / "new").exists()


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (("*** Update File: no.py", "@@", "-a", "+b"), "no.py does not exist"),
        (("*** Update File: dir", "@@", "-a", "+b"), "dir is a folder"),
        (("*** Update File: bin", "@@", "-a", "+b"), "binary"),
        (("*** Update File: latin", "@@", "-a", "+b"), "not UTF-8"),
        (("*** Add File: c.py", "+x"), "c.py exists already"),
        (("*** Add File: c.py/x", "+x"), "not a folder"),
        (("*** Delete File: d.py",), "read it before you delete it"),
        (("*** Delete File: no.py",), "does not exist"),
        (("*** Update File: d.py", "*** Move to: c.py"), "c.py exists already"),
        (("*** Update File: d.py", "*** Move to: dir/../d.py"), "named twice"),
        (("*** Update File: ./a.py", "@@", "-three", "+3"), "a.py is named twice"),
        (("*** Update File: d.py", "@@", "-five", "+5"), "fits nowhere"),
        (("*** Delete File: /",), "is a folder"),
    ],
)
async def test_one_file_that_cannot_be_changed_leaves_all_as_they_are(
    desk: ToolDesk, lines: tuple[str, ...], told: str
) -> None:
    await _furnished(desk)
    desk.put("dir/x", "x")
    desk.put("bin", b"a\0b")
    desk.put("latin", b"caf\xe9 au lait, one more")
    before = _tree(desk)
    with pytest.raises(ToolError, match=told):
        await _applied(desk, "*** Update File: a.py", "@@", "-two", "+2", *lines)
    assert _tree(desk) == before


@pytest.mark.spec("A-05")
async def test_a_file_never_read_may_be_patched_and_one_that_changed_since_it_was_read_may_not(
    desk: ToolDesk,
) -> None:
    path = desk.put("a.py", "one\ntwo\n")
    await _applied(desk, "*** Update File: a.py", "@@", "-one", "+1")
    assert path.read_text() == "1\ntwo\n"
    path.write_text("1\ntwo\nmore\n")
    with pytest.raises(ToolError, match="changed since it was read"):
        await _applied(desk, "*** Update File: a.py", "@@", "-two", "+2")
    await desk.call("read", filePath="a.py")
    await _applied(desk, "*** Update File: a.py", "@@", "-two", "+2")
    assert path.read_text() == "1\n2\nmore\n"


@pytest.mark.spec("A-05")
@pytest.mark.parametrize("name", ["a.py", "new/deep/b.py", "c.py", "d.py", "moved/e.py"])
async def test_a_change_between_plan_and_run_stops_the_whole_patch(desk: ToolDesk, name: str) -> None:
    await _furnished(desk)
    context = desk.context()
    await desk.plan("patch", context, patchText=_patch(*FOUR))
    desk.put(name, "one\ntwo\nfour\nsomeone else's\n")
    before = _tree(desk)
    with pytest.raises(ToolError, match="changed since it was read"):
        await desk.run("patch", context, patchText=_patch(*FOUR))
    assert _tree(desk) == before


async def test_patches_of_one_step_to_one_file_are_all_done(desk: ToolDesk) -> None:
    path = desk.put("a.py", "".join(f"<{number}>\n" for number in range(10)))
    texts = [_patch("*** Update File: a.py", "@@", f"-<{n}>", f"+[{n}]") for n in range(10)]
    contexts = [desk.context() for _ in texts]
    for context, text in zip(contexts, texts, strict=True):
        await desk.plan("patch", context, patchText=text)
    async with asyncio.TaskGroup() as group:
        for context, text in zip(contexts, texts, strict=True):
            group.create_task(desk.run("patch", context, patchText=text))
    assert path.read_text() == "".join(f"[{number}]\n" for number in range(10))


async def test_a_patch_keeps_line_endings_byte_order_mark_and_mode(desk: ToolDesk) -> None:
    path = desk.put("a.py", b"\xef\xbb\xbfone\r\ntwo\r\nthree")
    path.chmod(0o750)
    lines = ("*** Update File: a.py", "@@", " one", "-two", "+2", "+2b", " three", "+four")
    await _applied(desk, *lines)
    assert path.read_bytes() == b"\xef\xbb\xbfone\r\n2\r\n2b\r\nthree\r\nfour"
    assert stat.S_IMODE(path.stat().st_mode) == 0o750


async def test_a_read_only_file_stops_the_whole_patch(desk: ToolDesk) -> None:
    await _furnished(desk)
    (desk.root / "c.py").chmod(0o444)
    before = _tree(desk)
    with pytest.raises(ToolError, match=r"c\.py is read-only.*No file is changed"):
        await _applied(desk, *FOUR)
    assert _tree(desk) == before


@pytest.mark.parametrize("path", ["../outside/secret.txt", "link/secret.txt"])
@pytest.mark.parametrize("old", [SECRET, "a wrong guess"])
async def test_a_patch_outside_asks_for_the_folder_and_its_plan_reveals_nothing(
    desk: ToolDesk, path: str, old: str
) -> None:
    (desk.root / "link").symlink_to(desk.outside)
    text = _patch(f"*** Update File: {path}", "@@", f"-{old}", "+x", f"*** Add File: {path}2", "+x")
    asks = await desk.plan("patch", desk.context(), patchText=text)
    assert [ask.permission for ask in asks] == ["external_directory", "edit"]
    assert asks[0].patterns == (f"{desk.outside}/*",)


async def test_a_patch_with_permission_changes_a_file_outside(desk: ToolDesk) -> None:
    await _applied(desk, "*** Update File: ../outside/secret.txt", "@@", f"-{SECRET}", "+known")
    assert (desk.outside / "secret.txt").read_text() == "known"


async def test_a_folder_that_becomes_a_link_after_the_plan_is_not_followed(desk: ToolDesk) -> None:
    desk.put("d/secret.txt", SECRET)
    text = _patch("*** Update File: d/secret.txt", "@@", f"-{SECRET}", "+x", "*** Add File: d/new", "+x")
    context = desk.context()
    await desk.plan("patch", context, patchText=text)
    (desk.root / "d").rename(desk.root / "was")
    (desk.root / "d").symlink_to(desk.outside)
    with pytest.raises(ToolError):
        await desk.run("patch", context, patchText=text)
    assert os.listdir(desk.outside) == ["secret.txt"]
    assert (desk.outside / "secret.txt").read_text() == SECRET


async def test_a_file_too_large_to_be_opened_is_not_patched(desk: ToolDesk) -> None:
    os.truncate(desk.put("huge", ""), 11 * 1024 * 1024)
    with pytest.raises(ToolError, match="larger than 10 MiB"):
        await _applied(desk, "*** Add File: a", "+x", "*** Update File: huge", "@@", "-a", "+b")
    assert sorted(_names(desk)) == ["huge"]


async def test_a_patch_that_was_not_planned_is_not_applied(desk: ToolDesk) -> None:
    with pytest.raises(ToolError, match="not planned"):
        await desk.run("patch", desk.context(), patchText=_patch("*** Add File: a", "+x"))
    context = desk.context()
    await desk.plan("patch", context, patchText=_patch("*** Add File: a", "+x"))
    with pytest.raises(ToolError, match="not the patch that was planned"):
        await desk.run("patch", context, patchText=_patch("*** Add File: a", "+x", "*** Add File: b", "+x"))
    assert _tree(desk) == {}


@pytest.mark.parametrize(
    ("done", "kind", "told"),
    [
        ((), Failed, "before the patch changed anything"),
        (("a.py", "new/deep/b.py", "c.py", "d.py"), Completed, "applied"),
        (
            ("a.py", "new/deep/b.py"),
            Failed,
            r"a\.py, new/deep/b\.py is as the patch says, c\.py, d\.py is not",
        ),
    ],
)
async def test_reconcile_reads_from_the_files_how_far_the_patch_was_applied(
    desk: ToolDesk, done: tuple[str, ...], kind: type[Result], told: str
) -> None:
    await _furnished(desk)
    if "a.py" in done:
        desk.put("a.py", "one\n2\nthree\n")
        desk.put("new/deep/b.py", "x = 1\n")
    if "c.py" in done:
        (desk.root / "c.py").unlink()
        (desk.root / "d.py").unlink()
        desk.put("moved/e.py", "4\n")
    result = await _reconciled(desk, _patch(*FOUR))
    assert isinstance(result, kind)
    assert re.search(told, result.output if isinstance(result, Completed) else result.error)


async def test_reconcile_leaves_a_patch_in_doubt_if_a_file_matches_neither_state(desk: ToolDesk) -> None:
    desk.put("a.py", "someone else's\n")
    assert await _reconciled(desk, _patch("*** Update File: a.py", "@@", "-one", "+1")) is None


async def _reconciled(desk: ToolDesk, text: str) -> Result | None:
    reconcile = desk.tools["patch"].reconcile
    assert reconcile is not None
    return await reconcile(msgspec.convert({"patchText": text}, PatchArgs), desk.context())


_PATHS = st.sampled_from(
    ["a.py", "b", "dir", "dir/x", "loop", "link/x", "\0", "\ud800", "..", "/", "n" * 300]
)
_BODY = st.sampled_from(
    ["@@", "@@ one", "-one", "+1", " two", "", "+\ud800", "\\ No newline", "*** End of File"]
)
_SECTIONS = st.one_of(
    st.builds(
        "*** {}: {}".format, st.sampled_from(["Add File", "Update File", "Delete File", "Move to"]), _PATHS
    ),
    _BODY,
    _BODY,
    st.text(max_size=8),
)


@pytest.mark.spec("A-05")
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(_SECTIONS, max_size=8), framed=st.booleans())
def test_any_patch_ends_in_a_result_or_a_tool_error(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], framed: bool
) -> None:
    desk = patch_desk(tmp_path_factory.mktemp("any"))
    desk.put("a.py", "one\ntwo\n")
    desk.put("dir/y", "y")
    (desk.root / "loop").symlink_to("loop")
    (desk.root / "link").symlink_to(desk.outside)
    text = _patch(*lines) if framed else "\n".join(lines)

    async def call() -> None:
        context = desk.context()
        asks = await desk.plan("patch", context, patchText=text)
        if all(ask.permission != "external_directory" for ask in asks):
            await desk.run("patch", context, patchText=text)

    told = "."
    try:
        asyncio.run(call())
    except ToolError as error:
        told = str(error)
    assert told.endswith((".", "?"))
    assert os.listdir(desk.outside) == ["secret.txt"]
