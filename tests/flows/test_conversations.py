"""OpenCode's session routes: begun with an agent, listed, read by the page, renamed, copied, and cut."""

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, ClientTimeout

from asyncagents.app.assemble import Setup
from asyncagents.config.config import AgentConfig
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.domain.event import MessageRemoved, PermissionAsked, SessionIdle, SessionUpdated
from asyncagents.errors import InvalidInput
from asyncagents.llm.model import UserTurn
from asyncagents.llm.scripted import ScriptedModel, call, say
from asyncagents.server.serve import ServerOptions, open_server
from asyncagents.testing.inside import inside
from tests.support.http.opencode import entry_text, text_prompt
from tests.support.http.server import GREETINGS, StageClient, serve_coding_project, serve_stage
from tests.support.runtime import EventListener, Stage, open_sqlite_runtime
from tests.support.tool import CAREFUL, Gate
from tests.support.wait import PATIENCE

PARROT = {"providerID": "scripted", "modelID": "parrot"}


async def spoken(at: StageClient, *prompts: str) -> str:
    """The path of the stage's session, in which these were said and answered."""
    where = f"/session/{at.stage.session_id}"
    for prompt in prompts:
        assert (await at.post(f"{where}/message", text_prompt(prompt))).status == 200
    return where


async def listed(at: StageClient, query: str = "") -> list[str]:
    return [each["id"] for each in (await at.get(f"/session{query}")).json]


# Begun


@pytest.mark.spec("X-01")
async def test_a_session_is_created_with_agent_model_metadata_and_rules(tmp_path: Path) -> None:
    async with serve_coding_project(tmp_path) as at:
        body = {
            "title": "Plan it",
            "agent": "plan",
            "model": {"providerID": "scripted", "id": "owl", "variant": "default"},
            "metadata": {"ticket": 7},
            "permission": [{"permission": "bash", "pattern": "*", "action": "deny"}],
            "newer": "than we know",
        }
        made = (await at.post(f"/session?directory={tmp_path}/project", body)).json
        answer = (await at.post(f"/session/{made['id']}/message", text_prompt("hi"))).json
        plain = (await at.request("POST", "/session")).json

    assert made["title"] == "Plan it"
    assert made["agent"] == "plan"
    assert made["metadata"] == {"ticket": 7}
    assert made["model"] == {"providerID": "scripted", "id": "owl"}
    assert made["permission"] == body["permission"]
    assert made["path"] == ""
    assert answer["info"]["agent"] == "plan"
    assert answer["info"]["modelID"] == "owl"
    assert not {"agent", "model", "metadata", "permission"} & plain.keys()


@pytest.mark.spec("X-01")
async def test_the_model_of_the_agent_that_a_session_begins_with_counts(tmp_path: Path) -> None:
    owl = AgentConfig(model=ModelRef(provider_id="scripted", model_id="owl"))
    async with serve_coding_project(tmp_path, agent={"plan": owl}) as at:
        made = (await at.post(f"/session?directory={tmp_path}/project", {"agent": "plan"})).json
        answer = (await at.post(f"/session/{made['id']}/message", text_prompt("hi"))).json
        chosen = await at.post(f"/session/{made['id']}/message", {**text_prompt("again"), "model": PARROT})

    assert answer["info"]["modelID"] == "owl"
    assert chosen.json["info"]["modelID"] == "parrot"


@pytest.mark.spec("X-01")
async def test_a_session_with_an_unknown_agent_or_parent_is_refused(tmp_path: Path) -> None:
    async with serve_coding_project(tmp_path) as at:
        before = await listed(at)
        refused = await at.post(f"/session?directory={tmp_path}/project", {"agent": "nobody"})
        orphan = await at.post("/session", {"parentID": "ses_none"})
        after = await listed(at)

    assert refused.status == 400
    assert refused.json["name"] == "BadRequest"
    assert "there is no agent 'nobody'" in refused.json["data"]["message"]
    assert orphan.status == 404
    assert orphan.json["data"]["message"] == "Session not found: ses_none"
    assert after == before


@pytest.mark.spec("X-01")
async def test_an_unknown_model_is_refused_and_the_session_stays_usable(tmp_path: Path) -> None:
    def check(model: ModelRef) -> None:
        if model.model_id == "nothing":
            raise InvalidInput("there is no model 'nothing': there are parrot")

    unknown = {"providerID": "scripted", "modelID": "nothing"}
    model = ScriptedModel(GREETINGS)
    async with (
        open_sqlite_runtime(tmp_path, Setup(model=model, check_model=check)) as runtime,
        ClientSession(timeout=ClientTimeout(total=PATIENCE)) as http,
        open_server(runtime, tmp_path, ServerOptions(port=0), directory=tmp_path) as listing,
    ):
        with inside(runtime).bus.subscribe() as heard:
            session = await runtime.create_session(directory=tmp_path)
            at = StageClient(http, listing, Stage(runtime, session.id, model, EventListener(heard)))
            new = await at.post("/session", {"model": {"providerID": "scripted", "id": "nothing"}})
            prompts = [
                await at.post(f"/session/{session.id}/{route}", {**text_prompt("hi"), "model": unknown})
                for route in ("message", "prompt_async")
            ]
            empty = await runtime.messages(session.id)
            answer = await at.post(f"/session/{session.id}/message", text_prompt("hi"))

    assert [said.status for said in (new, *prompts)] == [400, 400, 400]
    assert prompts[0].json["data"]["message"] == "there is no model 'nothing': there are parrot"
    assert empty == ()
    assert entry_text(answer.json) == "Hello."


# Lists


@pytest.mark.spec("X-01")
async def test_sessions_are_listed_by_directory_project_or_path(tmp_path: Path) -> None:
    async with serve_coding_project(tmp_path) as at:
        root = f"{tmp_path}/project"
        below = (await at.post(f"/session?directory={root}/docs", {"title": "Docs"})).json
        beside = (await at.post(f"/session?directory={tmp_path}/other", {"title": "Other"})).json
        at_root = at.stage.session_id
        exactly = await listed(at, f"?directory={root}")
        project = await listed(at, f"?directory={root}/docs&scope=project")
        path = await listed(at, f"?directory={root}&path=docs")
        whole = await listed(at, f"?directory={root}/docs&path=")
        found = await listed(at, f"?directory={root}&path=&search=DOC&start=5&roots=true")
        far = await listed(at, f"?directory={root}&start=9000000000000")
        every = (await at.get("/experimental/session")).json

    assert below["path"] == "docs"
    assert exactly == [at_root]
    assert project == whole == [below["id"], at_root]
    assert path == found == [below["id"]]
    assert far == []
    assert [each["id"] for each in every] == [beside["id"], below["id"], at_root]
    assert every[0]["project"] == {"id": beside["projectID"], "worktree": beside["directory"]}


@pytest.mark.spec("X-01")
async def test_all_sessions_are_read_page_by_page_also_those_of_one_moment(tmp_path: Path) -> None:
    async with serve_stage(tmp_path, GREETINGS) as at:
        for title in "abcdefgh":
            await at.post("/session", {"title": title})
        await at.request("PATCH", f"/session/{at.stage.session_id}", {"time": {"archived": 5.0}})
        seen: list[str] = []
        cursor, pages = "", 0
        while True:
            async with at.http.get(
                f"{at.listing.url}/experimental/session?limit=3{cursor}", headers=at.authorization
            ) as response:
                seen += [each["title"] for each in await response.json()]
                pages += 1
                if "x-next-cursor" not in response.headers:
                    break
                cursor = f"&cursor={response.headers['x-next-cursor']}"
        away = (await at.get("/experimental/session?archived=true")).json

    assert sorted(seen) == list("abcdefgh")
    assert pages > 1
    assert at.stage.session_id in {each["id"] for each in away}


# Pages of messages


@pytest.mark.spec("X-01")
async def test_messages_are_read_page_by_page_from_the_newest(tmp_path: Path) -> None:
    async with serve_stage(tmp_path, GREETINGS) as at:
        where = await spoken(at, "hi", "again", "more")
        whole = (await at.get(f"{where}/message")).json
        zero = (await at.get(f"{where}/message?limit=0")).json
        pages: list[Any] = []
        ended: dict[str, Any] = {}
        url: str | None = f"{at.listing.url}{where}/message?limit=4&directory={tmp_path}&auth_token=eA"
        while url:
            async with at.http.get(url, headers=at.authorization) as response:
                pages = await response.json() + pages
                cursor = response.headers.get("x-next-cursor")
                url = response.links["next"]["url"].human_repr() if cursor else None  # type: ignore[union-attr]
                exposed = response.headers.get("access-control-expose-headers")
                assert (exposed == "Link, X-Next-Cursor") == bool(cursor)
                assert "auth_token" not in str(url), "a proof is not repeated"
                if cursor:
                    ended = json.loads(base64.urlsafe_b64decode(cursor + "=="))
        alone = await at.get(f"{where}/message?before=eyJpZCI6Im1zZ18xIn0")

    assert pages == whole == zero
    assert len(whole) == 6
    assert ended["id"] == whole[2]["info"]["id"]
    assert ended["time"] == whole[2]["info"]["time"]["created"]
    assert alone.status == 400
    assert alone.json["name"] == "BadRequest"


# Changed


@pytest.mark.spec("X-01")
async def test_a_session_is_renamed_archived_and_given_metadata_and_rules(tmp_path: Path) -> None:
    rule = {"permission": "bash", "pattern": "*", "action": "deny"}
    async with serve_stage(tmp_path, GREETINGS) as at:
        where = f"/session/{at.stage.session_id}"
        renamed = (await at.request("PATCH", where, {"title": "Bees", "newer": 1})).json
        told = await at.stage.listener.until(SessionUpdated)
        noted = (await at.request("PATCH", where, {"metadata": {"a": 1}, "permission": [rule]})).json
        away = (await at.request("PATCH", where, {"time": {"archived": 1763300000000}})).json
        back = (await at.request("PATCH", where, {"time": {"archived": None}})).json
        same = (await at.request("PATCH", where, {})).json
        nobody = await at.request("PATCH", "/session/ses_none", {"title": "x"})

    assert renamed["title"] == told.info.title == noted["title"] == "Bees"
    assert noted["metadata"] == {"a": 1}
    assert noted["permission"] == [rule]
    assert away["time"]["archived"] == 1763300000000
    assert back == same
    assert "archived" not in back["time"]
    assert nobody.status == 404
    assert nobody.json["data"]["message"] == "Session not found: ses_none"


@pytest.mark.spec("X-01")
async def test_rules_added_to_a_child_do_not_lift_a_denial_of_its_parent(tmp_path: Path) -> None:
    deny = {"permission": "bash", "pattern": "*", "action": "deny"}
    allow = {"permission": "*", "pattern": "*", "action": "allow"}
    script = {"go": [[call("bash", command="touch x", description="d")], [say("Done.")]]}
    async with serve_coding_project(tmp_path, script) as at:
        root = f"?directory={tmp_path}/project"
        above = (await at.post(f"/session{root}", {"permission": [deny], "agent": "build"})).json
        child = (await at.post(f"/session{root}", {"parentID": above["id"], "agent": "build"})).json
        await at.request("PATCH", f"/session/{child['id']}", {"permission": [allow]})
        body = {**text_prompt("go"), "tools": {"bash": True}}
        answer = await at.post(f"/session/{child['id']}/message", body)
        messages = (await at.get(f"/session/{child['id']}/message")).json

    assert entry_text(answer.json) == "Done."
    (state,) = [part["state"] for each in messages for part in each["parts"] if part["type"] == "tool"]
    assert state["status"] == "error"
    assert not (tmp_path / "project/x").exists()


# Copied


@pytest.mark.spec("X-01")
async def test_a_session_is_copied_and_both_go_on(tmp_path: Path) -> None:
    async with serve_stage(tmp_path, GREETINGS) as at:
        where = await spoken(at, "hi", "again")
        await at.request("PATCH", where, {"title": "Bees", "metadata": {"a": 1}})
        messages = (await at.get(f"{where}/message")).json
        whole = (await at.request("POST", f"{where}/fork")).json
        second = (await at.post(f"/session/{whole['id']}/fork", {"messageID": None})).json
        part = await at.post(
            f"{where}/fork", {"messageID": messages[2]["info"]["id"]}, headers={"idempotency-key": "k"}
        )
        same = await at.post(
            f"{where}/fork", {"messageID": messages[2]["info"]["id"]}, headers={"idempotency-key": "k"}
        )
        copied = (await at.get(f"/session/{part.json['id']}/message")).json
        answer = (await at.post(f"/session/{part.json['id']}/message", text_prompt("more"))).json
        nobody = await at.post(f"{where}/fork", {"messageID": "msg_none"})
        told = [each.text for each in at.stage.request_messages() if isinstance(each, UserTurn)]
        at.stage.model.requests.clear()  # two sessions begin alike, and go on differently

    assert whole["title"] == "Bees (fork #1)"
    assert second["title"] == "Bees (fork #2)"
    assert whole["metadata"] == {"a": 1}
    assert whole["directory"] == str(tmp_path)
    assert "parentID" not in whole
    assert part.json == same.json
    assert [entry_text(each) for each in copied] == ["hi", "Hello."]
    assert copied[1]["info"]["parentID"] == copied[0]["info"]["id"]
    assert entry_text(answer) == "More."
    assert told == ["hi", "more"]
    assert nobody.status == 404
    assert nobody.json["data"]["message"] == "Message not found: msg_none"


@pytest.mark.spec("X-01")
async def test_a_session_is_copied_while_it_works(tmp_path: Path) -> None:
    gate = Gate("gate")
    script = {"go": [[call("gate")], [say("Through.")]], "hi": [[say("Hello.")]]}
    async with serve_stage(tmp_path, script, tools=[gate.tool]) as at, asyncio.TaskGroup() as group:
        where = f"/session/{at.stage.session_id}"
        working = group.create_task(at.post(f"{where}/message", text_prompt("go")))
        await gate.until_started()
        copy = (await at.post(f"{where}/fork")).json
        statuses = (await at.get("/session/status")).json
        answer = (await at.post(f"/session/{copy['id']}/message", text_prompt("hi"))).json
        gate.go.set()
        through = (await working).json
        at.stage.model.requests.clear()  # two sessions begin alike, and go on differently

    assert list(statuses) == [at.stage.session_id]
    assert entry_text(answer) == "Hello."
    assert entry_text(through) == "Through."
    assert gate.runs == 1


# Cut


@pytest.mark.spec("X-01")
async def test_messages_and_parts_of_a_resting_session_are_deleted_and_changed(tmp_path: Path) -> None:
    async with serve_stage(tmp_path, GREETINGS) as at:
        where = await spoken(at, "hi", "again")
        asked, answer, *_ = (await at.get(f"{where}/message")).json
        said = asked["parts"][0]
        at_part = f"{where}/message/{said['messageID']}/part/{said['id']}"
        changed = (await at.request("PATCH", at_part, {**said, "text": "hello", "newer": 1})).json
        wrong = [
            (await at.request("PATCH", at_part, {**said, "id": "prt_x"})).status,
            (await at.request("PATCH", at_part, {**said, "type": "nothing"})).status,
            (await at.request("PATCH", f"{at_part}x", {**said, "id": f"{said['id']}x"})).status,
        ]
        gone = await at.request("DELETE", f"{where}/message/{answer['info']['id']}")
        await at.stage.listener.until(MessageRemoved)
        again = await at.request("DELETE", f"{where}/message/{answer['info']['id']}")
        await at.post(f"{where}/message", text_prompt("more"))
        told = [each.text for each in at.stage.request_messages() if isinstance(each, UserTurn)]
        part = (await at.request("DELETE", at_part)).json
        left = (await at.get(f"{where}/message/{said['messageID']}")).json

    assert changed == {**said, "text": "hello"}
    assert wrong == [400, 400, 404]
    assert gone.json is True
    assert again.status == 404
    assert again.json["data"]["message"] == f"Message not found: {answer['info']['id']}"
    assert told == ["hello", "again", "more"]
    assert part is True
    assert left["parts"] == []


@pytest.mark.spec("X-01")
async def test_a_message_of_a_busy_session_cannot_be_deleted(tmp_path: Path) -> None:
    gate = Gate("gate")
    script = {"go": [[call("gate")], [say("Through.")]]}
    async with serve_stage(tmp_path, script, tools=[gate.tool]) as at, asyncio.TaskGroup() as group:
        where = f"/session/{at.stage.session_id}"
        working = group.create_task(at.post(f"{where}/message", text_prompt("go")))
        await gate.until_started()
        first = (await at.get(f"{where}/message")).json[0]["info"]["id"]
        busy = await at.request("DELETE", f"{where}/message/{first}")
        gate.go.set()
        await working

    session_id = at.stage.session_id
    assert busy.status == 409
    assert busy.json["_tag"] == "SessionBusyError"
    assert busy.json["sessionID"] == session_id
    assert busy.json["message"] == busy.json["data"]["message"] == f"Session is busy: {session_id}"


# What a prompt says besides


@pytest.mark.spec("X-01")
async def test_a_prompt_may_extend_the_system_prompt_of_its_turn(tmp_path: Path) -> None:
    async with serve_coding_project(tmp_path) as at:
        where = f"/session/{at.stage.session_id}"
        await at.post(f"{where}/message", {**text_prompt("hi"), "system": "Speak like a bee.", "newer": 1})
        await at.post(f"{where}/message", text_prompt("again"))
        asked, *_ = (await at.get(f"{where}/message")).json
        first, second = [each for each in at.stage.model.requests if "titl" not in each.system.lower()][:2]

    assert asked["info"]["system"] == "Speak like a bee."
    assert first.system == f"{second.system}\n\nSpeak like a bee."


@pytest.mark.spec("X-01")
async def test_the_same_message_again_is_the_same_prompt(tmp_path: Path) -> None:
    async with serve_stage(tmp_path, GREETINGS) as at:
        where = f"/session/{at.stage.session_id}/message"
        named = at.stage.runtime._session_factory.ids.message()
        body = {**text_prompt("hi"), "messageID": named}
        answer, same = [await at.post(where, body) for _ in range(2)]
        other = await at.post(where, {**text_prompt("again"), "messageID": named})
        late = await at.post(where, {**text_prompt("again"), "messageID": "msg_000000000001AAAAAAAAAAAAAA"})
        far = f"msg_{(int(named[4:16], 16) + (60_000 << 12)) % 2**48:012x}AAAAAAAAAAAAAA"
        early = await at.post(where, {**text_prompt("again"), "messageID": far})
        near = f"msg_{(int(named[4:16], 16) + (5_000 << 12)) % 2**48:012x}AAAAAAAAAAAAAA"
        soon = await at.post(where, {**text_prompt("again"), "messageID": near})
        messages = (await at.get(where)).json

    assert answer == same
    assert answer.json["info"]["parentID"] == named
    assert [other.status, late.status, early.status] == [409, 400, 400]
    assert "is taken" in other.json["data"]["message"]
    assert soon.json["info"]["parentID"] == near
    assert [entry_text(each) for each in messages] == ["hi", "Hello.", "again", "Again."]


@pytest.mark.spec("X-01")
async def test_parts_keep_the_ids_that_a_client_gave_them(tmp_path: Path) -> None:
    async with serve_stage(tmp_path, GREETINGS) as at:
        where = f"/session/{at.stage.session_id}/message"
        one, two = (at.stage.runtime._session_factory.ids.part() for _ in range(2))
        parts = [{"type": "text", "text": "hi", "id": one}, {"type": "text", "text": "there", "id": two}]
        wrong = await at.post(where, {"parts": parts[::-1], "noReply": True})
        kept = (await at.post(where, {"parts": parts, "noReply": True})).json
        taken = await at.post(where, {"parts": parts, "noReply": True})

    assert wrong.status == 400
    assert [part["id"] for part in kept["parts"]] == [one, two]
    assert taken.status == 409


# What is refused, and how


@pytest.mark.spec("X-01")
async def test_sharing_is_refused_in_words_and_nothing_is_shared(tmp_path: Path) -> None:
    async with serve_stage(tmp_path, GREETINGS) as at:
        where = f"/session/{at.stage.session_id}"
        refused = await at.request("POST", f"{where}/share")
        unshared = await at.request("DELETE", f"{where}/share")
        session = (await at.get(where)).json

    assert refused.status == 400
    assert "not supported" in refused.json["data"]["message"]
    assert unshared.json == session
    assert "share" not in session


@pytest.mark.spec("X-01")
async def test_an_ask_is_answered_by_the_route_of_older_clients(tmp_path: Path) -> None:
    script = {"go": [[call("careful", text="rm")], [say("Done.")]]}
    async with serve_stage(tmp_path, script, tools=[CAREFUL]) as at:
        where = f"/session/{at.stage.session_id}"
        await at.post(f"{where}/prompt_async", text_prompt("go"))
        asked = (await at.stage.listener.until(PermissionAsked)).request.id
        nowhere = await at.post(f"/session/ses_none/permissions/{asked}", {"response": "once"})
        nobody = await at.post(f"{where}/permissions/per_none", {"response": "once"})
        given = await at.post(f"{where}/permissions/{asked}", {"response": "once"})
        await at.stage.listener.until(SessionIdle)

    assert nowhere.status == 404
    assert nobody.status == 404
    assert given.json is True
    assert nobody.json["_tag"] == "PermissionNotFoundError"
    assert nobody.json["requestID"] == "per_none"


@pytest.mark.spec("X-01")
async def test_refusals_have_the_forms_that_clients_know(tmp_path: Path) -> None:
    async with serve_stage(tmp_path, GREETINGS) as at:
        where = f"/session/{at.stage.session_id}"
        missing = await at.post(f"{where}/message", {})
        nonsense = await at.send_raw("POST", f"{where}/fork", b"{")
        strange = await at.get("/session/nope")
        question = await at.post("/question/que_none/reply", {"answers": []})
        plain = await at.get("/v1/sessions/ses_none")
        gone = [(await at.request("DELETE", where)).status for _ in range(2)]
        abort = await at.post(f"{where}/abort")
        nowhere = await at.get("/nowhere")
        other = await at.request("PUT", "/session")
        late = await at.post("/session", {"title": 5})

    assert missing.status == 400
    assert missing.json["name"] == "BadRequest"
    assert missing.json["data"]["kind"] == "Payload"
    assert "`parts`" in missing.json["data"]["message"]
    assert nonsense == 400
    assert "_tag" not in missing.json
    assert late.json["_tag"] == "BadRequest"
    assert late.json["name"] == "BadRequest"
    assert strange.json == {"name": "NotFoundError", "data": {"message": "Session not found: nope"}}
    assert question.status == 404
    assert question.json["_tag"] == "QuestionNotFoundError"
    assert plain.json["data"]["message"] == "no session with id 'ses_none'"
    assert gone == [200, 404]
    assert abort.status == 200
    assert abort.json is True
    assert nowhere.status == 404
    assert nowhere.json["name"] == "NotFoundError"
    assert other.status == 405
