"""`asyncagents approvals`: a person sees what was allowed for good, and takes it back."""

from pathlib import Path

import pytest

from asyncagents.testing.provider import Reply, Script, ToolUse
from tests.support.process.command_line import open_desk, open_terminal
from tests.support.process.server import open_desk_server

MAY_I = "[?] more > "
ASK_ALL = {"bash": "ask"}


def steps(*commands: str) -> Script:
    """One step for each command, and the end."""
    calls = [ToolUse("bash", {"command": command}) for command in commands]
    return {"go": [*(Reply(text="", tools=(call,)) for call in calls), Reply(text="Done.")]}


@pytest.mark.spec("Z-06", "X-06")
async def test_approvals_are_listed_and_withdrawn(tmp_path: Path) -> None:
    async with open_desk(tmp_path, steps("echo $(date)", "ls", "ls -la")) as (desk, _):
        desk.configure(permission=ASK_ALL)
        async with open_terminal(desk, "run", "go", env={"NO_COLOR": "1"}) as terminal:
            await terminal.answer("a", to=MAY_I)
            await terminal.answer("a", to=MAY_I)
            code = await terminal.end()
        listed, as_json = await desk.run("approvals"), await desk.run("approvals", "--json")
        other = tmp_path / "other"
        other.mkdir()
        elsewhere = await desk.run("approvals", "-C", str(other))
        everywhere = await desk.run("approvals", "--all", "-C", str(other))
        newest, oldest = as_json.json
        wrong = await desk.run("approvals", "withdraw", newest["id"], "apr_none")
        unsaid = await desk.run("approvals", "withdraw")
        withdrawn = await desk.run("approvals", "withdraw", newest["id"][:10])
        left = await desk.run("approvals", "--json")
        rest = await desk.run("approvals", "withdraw", "--all")
        none = await desk.run("approvals")
        nothing = await desk.run("approvals", "withdraw", "--all")

    assert code == 0
    assert "[a] always (this exact line)" in terminal.text
    assert "[a] always (bash: ls *)" in terminal.text
    assert listed.code == 0
    assert len(listed.out.splitlines()) == 2
    assert "just now  bash: ls *\n" in listed.out
    assert "just now  bash: exactly echo $(date)\n" in listed.out
    assert [(each["pattern"], each.get("exact", False)) for each in (newest, oldest)] == [
        ("ls *", False),
        ("echo $(date)", True),
    ]
    assert newest["directory"] == str(desk.project)
    assert elsewhere.err == f"no approvals in {other}; --all looks everywhere\n"
    assert everywhere.out.count(str(desk.project)) == 2
    assert wrong.code == 2
    assert ("no approval with id 'apr_none'" in wrong.err) is True
    assert unsaid.code == 2
    assert ("by their ids, or all with --all" in unsaid.err) is True
    assert withdrawn.code == 0
    assert withdrawn.out == "withdrawn: 1; these calls ask again from now on\n"
    assert left.json == [oldest]
    assert rest.out == "withdrawn: 1; these calls ask again from now on\n"
    assert none.code == 0
    assert none.out == ""
    assert nothing.out == "nothing to withdraw\n"


@pytest.mark.spec("Z-06")
async def test_a_running_server_asks_again_after_an_approval_is_withdrawn(tmp_path: Path) -> None:
    script: Script = {
        "go": [Reply(text="", tools=(ToolUse("bash", {"command": "ls"}),)), Reply(text="Done.")],
        "again": [Reply(text="", tools=(ToolUse("bash", {"command": "ls"}),)), Reply(text="Done.")],
        "more": [Reply(text="", tools=(ToolUse("bash", {"command": "ls"}),)), Reply(text="Done.")],
    }
    async with open_desk(tmp_path, script) as (desk, _):
        desk.configure(permission=ASK_ALL)
        async with open_desk_server(desk):
            first = await desk.run("run", "go")
            asks = await desk.run("asks")
            [ask] = (await desk.run("asks", "--json")).json["asks"]
            answered = await desk.run("answer", ask["id"], "always")
            again = await desk.run("run", "again")
            withdrawn = await desk.run("approvals", "withdraw", "--all")
            more = await desk.run("run", "more")

    assert first.code == 3
    assert answered.code == 0
    assert again.code == 0
    assert withdrawn.code == 0
    assert more.code == 3
    assert f"the answer `always` allows, in the project from then on:\n{ask['id']}  bash: ls *\n" in asks.out


async def test_listing_approvals_without_a_store_creates_none(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as (desk, _):
        listed, as_json = await desk.run("approvals"), await desk.run("approvals", "--json")
        withdrawn = await desk.run("approvals", "withdraw", "apr_1")
        made = desk.data.exists()
    assert listed.code == 0
    assert as_json.json == []
    assert withdrawn.code == 2
    assert made is False
