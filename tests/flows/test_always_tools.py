"""What "always" covers of tools other than the shell."""

from pathlib import Path

import pytest

from asyncagents.delegation.launch import launch_asks
from asyncagents.domain.agent.permission import LineageRules, exact_permission
from asyncagents.domain.conversation.session import Rule
from asyncagents.engine.tool import Ask
from asyncagents.engine.workplace.project import judge_ask
from asyncagents.errors import ToolError
from asyncagents.llm.scripted import call
from asyncagents.tools.builtin.webfetch import page_ask
from asyncagents.tools.file.path import InsidePath, OutsidePath, edit_asks, read_asks
from asyncagents.tools.web.url import parse_address
from tests.support.hostile.yard import asks_after_always, create_yard

ASKED = LineageRules.from_rules((Rule(permission="*", pattern="*", action="ask"),))


def asks_again(shown: tuple[Ask, ...], later: tuple[Ask, ...]) -> bool:
    known = [
        Rule(
            permission=exact_permission(ask.permission) if ask.exact else ask.permission,
            pattern=pattern,
            action="allow",
        )
        for ask in shown
        for pattern in ask.always
    ]
    return any(judge_ask(ask, ASKED, known) == "ask" for ask in later)


def page(url: str) -> tuple[Ask, ...]:
    return (page_ask(parse_address(url), {}),)


SHOWN = "https://docs.example/a"


@pytest.mark.spec("Z-06")
@pytest.mark.parametrize(
    ("shown", "later"),
    [
        (SHOWN, "http://docs.example/a"),
        (SHOWN, "https://docs.example:8443/a"),
        (SHOWN, "https://other.example/a"),
        (SHOWN, "https://docs.example.evil/a"),
        ("https://bücher.example/a", "https://xn--bcher-kva.example.evil/a"),
    ],
)
def test_an_approved_page_opens_no_other_site(shown: str, later: str) -> None:
    assert asks_again(page(shown), page(later))
    assert not asks_again(page(shown), page(shown))


@pytest.mark.spec("Z-06")
@pytest.mark.parametrize(
    "later",
    [
        "https://docs.example@evil.example/a",
        "https://docs.example\\@evil.example/a",
        "https://docs.example/a\\..\\@evil.example",
        "https://me:key@docs.example/a",
        "https://*/a",
        "https://*.example/a",
        "https://docs.example\t.evil/a",
    ],
)
def test_an_address_with_two_readings_is_refused_or_asks(later: str) -> None:
    try:
        assert asks_again(page(SHOWN), page(later))
    except ToolError:
        return  # it is not even asked about


@pytest.mark.spec("Z-06")
@pytest.mark.parametrize("later", [SHOWN, "https://docs.example/", "https://docs.example/b/c?d=*#e"])
def test_an_approved_page_opens_its_site(later: str) -> None:
    assert not asks_again(page(SHOWN), page(later))


@pytest.mark.spec("Z-06")
def test_an_approved_agent_name_with_a_wildcard_matches_no_other_agent() -> None:
    assert asks_again(launch_asks("*", "All"), launch_asks("general", "One"))
    assert not asks_again(launch_asks("general", "One"), launch_asks("general", "Another"))
    assert asks_again(launch_asks("general", "One"), launch_asks("explore", "One"))


@pytest.mark.spec("Z-06")
def test_a_special_file_is_approved_under_its_own_name_alone() -> None:
    def read(*parts: str) -> tuple[Ask, ...]:
        return read_asks("read", InsidePath("/project", parts))

    assert asks_again(read("*.env"), read("a.env"))
    assert asks_again(read("a\\b.env"), read("a", "b.env"))
    assert not asks_again(read("a.env"), read("a.env"))


@pytest.mark.spec("Z-06")
def test_an_approval_of_edits_in_the_project_does_not_cover_edits_outside() -> None:
    def edit(place: InsidePath | OutsidePath) -> tuple[Ask, ...]:
        return edit_asks([place], {}, [None])

    inside = edit(InsidePath("/project", ("a.py",)))
    outside = edit(OutsidePath(("srv", "a.py")))
    seen = read_asks("read", OutsidePath(("srv", "a.py")))
    folder = read_asks("list", OutsidePath(("srv", "data")), folder=True)
    below = edit(OutsidePath(("srv", "data", "a.py")))
    assert not asks_again(inside, edit(InsidePath("/project", ("b.py",))))
    assert asks_again((*inside, *seen), outside)
    assert asks_again((*inside, *folder), below)
    assert not asks_again(folder, read_asks("read", OutsidePath(("srv", "data", "a.py")))[:1])
    assert not asks_again(outside, outside)
    assert asks_again(outside, edit(OutsidePath(("srv", "b.py"))))


@pytest.mark.spec("Z-06")
async def test_a_patch_outside_the_project_asks_after_edits_inside_were_approved(tmp_path: Path) -> None:
    place = create_yard(tmp_path)
    first = [call("write", filePath="a.txt", content="x")]
    text = f"*** Begin Patch\n*** Add File: {place.outside}/new\n+x\n*** End Patch"
    then = [call("patch", patchText=text), call("write", filePath="b.txt", content="x")]
    asked = await asks_after_always(tmp_path, place, first, then, permission={"edit": "ask"})
    assert [ask.permission for ask in asked] == ["external_directory"]
    assert asked[0].always == (f"change {place.outside}/new",)
