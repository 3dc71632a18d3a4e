"""While a thread swaps a folder and a link to the outside, no search and no patch gets out."""

import os
from collections import Counter
from pathlib import Path

import pytest

from asyncagents.domain.agent.permission import LineageRules
from asyncagents.engine.workplace.agents import default_rules
from asyncagents.errors import ToolError
from asyncagents.tools.builtin.patch import patch
from asyncagents.tools.file.open_beneath import OpenFolder
from asyncagents.tools.file.path import InsidePath
from asyncagents.tools.search.grep import GrepSearch, search_lines
from asyncagents.tools.search.name_search import NameSearch, search_names
from tests.support.workspace.file_tool import OPEN_WAYS, SECRET, ToolDesk, swap_forever

pytestmark = pytest.mark.slow

ROUNDS = 300

USUAL = LineageRules.from_rules(default_rules())


@pytest.fixture(params=OPEN_WAYS)
def way(request: pytest.FixtureRequest) -> OpenFolder:
    found: OpenFolder = request.param
    return found


@pytest.fixture
def desk(tmp_path: Path, way: OpenFolder) -> ToolDesk:
    desk = ToolDesk(tmp_path, way)
    desk.tools["patch"] = patch(desk.files, desk.seen)
    (desk.outside / "only-outside.txt").write_text(SECRET)
    return desk


@pytest.mark.spec("A-05")
def test_a_glob_never_shows_a_name_from_outside(desk: ToolDesk) -> None:
    told: Counter[str] = Counter()
    root = desk.files.root
    search = NameSearch(root=root, place=InsidePath(root, ()), pattern="*.txt", seconds=60)
    with swap_forever(desk):
        while told.total() < ROUNDS or len(told) < 2:  # the thread may be slow to get its turn
            told["\n".join(search_names(desk.files, search, lambda: False).paths)] += 1
    # It is found under one of its two names, under both, or under none.
    assert all("only-outside" not in each for each in told)


@pytest.mark.spec("A-05")
def test_a_grep_never_shows_a_line_from_outside(desk: ToolDesk) -> None:
    lines: Counter[str] = Counter()
    search = GrepSearch(
        rules=USUAL, root=desk.files.root, place=InsidePath(desk.files.root, ()), pattern="mine|secret"
    )
    with swap_forever(desk):
        for _ in range(ROUNDS):
            lines.update(match.text for match in search_lines(search).matches)
        while not lines:
            lines.update(match.text for match in search_lines(search).matches)
    assert set(lines) == {"mine"}


@pytest.mark.spec("A-05")
async def test_a_patch_without_leave_never_writes_outside(desk: ToolDesk) -> None:
    ends: Counter[str] = Counter()
    with swap_forever(desk):
        while ends.total() < ROUNDS or len(ends) < 2:
            ends[await _patched(desk, ends.total())] += 1
    assert (desk.outside / "secret.txt").read_text() == SECRET
    assert sorted(os.listdir(desk.outside)) == ["only-outside.txt", "secret.txt"]
    assert ends["done"] or ends["refused"]


async def _patched(desk: ToolDesk, number: int) -> str:
    lines = [f"*** Add File: d/new{number}", "+x", f"*** Add File: beside{number}", "+x"]
    text = "\n".join(["*** Begin Patch", *lines, "*** End Patch"])
    context = desk.context()
    try:
        asks = await desk.plan("patch", context, patchText=text)
        if asks[0].permission == "external_directory":
            return "asked"
        await desk.run("patch", context, patchText=text)
    except ToolError:
        assert not (desk.root / f"beside{number}").exists()
        return "refused"
    assert (desk.root / f"beside{number}").exists()
    return "done"
