"""docs/architecture.md names modules that exist, and the rooms in the order of the import contract."""

import re
import tomllib

from tests.support.path import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PACKAGE = ROOT / "src" / "asyncagents"


def test_every_module_that_the_page_names_exists() -> None:
    named = re.findall(r"`([a-z_0-9]+/[a-z_0-9/]+(?:\.py)?)`", PAGE)
    assert len(named) > 15
    assert [path for path in named if not ((PACKAGE / path).exists() or (ROOT / path).exists())] == []


def test_the_rooms_stand_in_the_order_of_the_import_contract() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    contract = [[room.strip("() ") for room in layer.split("|")] for layer in layers]
    there = [[room for room in layer if list(PACKAGE.glob(f"{room}*"))] for layer in contract]
    _, _, packages = PAGE.partition("\n## Packages\n")
    rows = re.findall(r"^\| (`[a-z_]+`(?:, `[a-z_]+`)*) \|", packages, re.MULTILINE)
    assert [row.replace("`", "").split(", ") for row in rows] == [layer for layer in there if layer]


def test_the_page_links_to_every_decision() -> None:
    decisions = {path.name for path in (ROOT / "docs" / "adr").glob("*.md")}
    assert decisions <= set(re.findall(r"\(adr/([^)]+)\)", PAGE))
