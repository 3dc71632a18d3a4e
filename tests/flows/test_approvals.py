"""What was answered with always is listed and withdrawn from every door, and no longer counts then."""

from pathlib import Path

import pytest

from asyncagents.errors import InvalidInput, NotFound
from tests.support.http.sdk import serve_approvals
from tests.support.runtime import Stage, open_runtime


async def asked_again(at: Stage, word: str) -> list[str]:
    """The permissions that the two calls ask for, by now."""
    await at.runtime.send(at.session_id, word)
    await at.runtime.wait_tree(at.session_id)
    states = [each.call.open for each in await at.runtime.asks()]
    await at.abort()
    return sorted(state.ask.permission for state in states if state and state.ask)


@pytest.mark.spec("Z-06")
async def test_a_call_asks_again_after_another_process_withdrew_the_approval(tmp_path: Path) -> None:
    async with serve_approvals(tmp_path) as (at, _, _):
        before = await at.runtime.approvals.list(tmp_path / "project")
        elsewhere = await at.runtime.approvals.list(tmp_path)
        everywhere = await at.runtime.approvals.list(None)
        unasked = await asked_again(at, "again")
        async with open_runtime(tmp_path / "data", serve=False) as other:
            (bash,) = [each for each in before if each.permission == "bash"]
            await other.approvals.withdraw(bash.id)
            with pytest.raises(NotFound):
                await other.approvals.withdraw(bash.id)
        asked = await asked_again(at, "more")
        with pytest.raises(InvalidInput, match="limit must be from 1 to 1000"):
            await at.runtime.approvals.list(limit=0)

    assert {(each.permission, each.pattern, each.exact) for each in before} == {
        ("bash", "echo *", False),
        ("read", ".env", True),
    }
    assert {each.directory for each in before} == {str(tmp_path / "project")}
    assert elsewhere == ()
    assert everywhere == before
    assert unasked == []
    assert asked == ["bash"]


@pytest.mark.spec("Z-06")
async def test_approvals_are_listed_and_withdrawn_over_http(tmp_path: Path) -> None:
    async with serve_approvals(tmp_path) as (at, caller, _):
        headers, place = caller.authorization, str(tmp_path / "project")
        path = "/v1/approvals"
        refused = [(await caller.request(method, path)).status for method in ("GET", "DELETE")]
        listed = (await caller.request("GET", path, headers=headers)).json
        here = (await caller.request("GET", path, headers=headers, params={"directory": place})).json
        nowhere = (await caller.request("GET", path, headers=headers, params={"directory": "/"})).json
        one = (await caller.request("GET", path, headers=headers, params={"limit": 1})).json
        wrong = [
            (await caller.request("GET", f"{path}?limit=0", headers=headers)).status,
            (await caller.request("DELETE", path, headers=headers)).status,
            (await caller.request("DELETE", f"{path}/apr_none", headers=headers)).status,
        ]
        first = await caller.request("DELETE", f"{path}/{listed[0]['id']}", headers=headers)
        again = await caller.request("DELETE", f"{path}/{listed[0]['id']}", headers=headers)
        left = (await caller.request("GET", path, headers=headers)).json
        all_of_it = await caller.request("DELETE", path, headers=headers, params={"directory": place})
        asked = await asked_again(at, "again")

    assert refused == [401, 401]
    assert {(each["permission"], each["pattern"], each.get("exact", False)) for each in listed} == {
        ("bash", "echo *", False),
        ("read", ".env", True),
    }
    assert here == listed
    assert nowhere == []
    assert one == listed[:1]
    assert wrong == [400, 400, 404]
    assert first.status == 200
    assert first.json is True
    assert again.status == 404
    assert left == listed[1:]
    assert all_of_it.json == {"withdrawn": 1}
    assert asked == ["bash", "read"]


@pytest.mark.spec("Z-06")
async def test_the_client_lists_and_withdraws_as_a_runtime_does(tmp_path: Path) -> None:
    async with serve_approvals(tmp_path) as (at, _, client):
        project = tmp_path / "project"
        listed, stored = await client.approvals.list(project), await at.runtime.approvals.list(project)
        same, elsewhere = await client.approvals.list(), await client.approvals.list(tmp_path)
        none = await client.approvals.withdraw_all(project, "edit")
        one = await client.approvals.withdraw_all(project, "bash")
        (left,) = await client.approvals.list()
        await client.approvals.withdraw(left.id)
        with pytest.raises(NotFound):
            await client.approvals.withdraw(left.id)
        asked = await asked_again(at, "again")

    assert listed == stored == same
    assert elsewhere == ()
    assert none == 0
    assert one == 1
    assert left.permission == "read"
    assert asked == ["bash", "read"]
