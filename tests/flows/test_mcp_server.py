"""An MCP client launches agents, waits for them, answers their questions, and reads what they did."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult, ResourceUpdatedNotification

from asyncagents import approval
from asyncagents.client.client import Client as OwnClient
from asyncagents.config.config import Config
from asyncagents.domain.id import SessionId
from asyncagents.errors import InvalidInput
from asyncagents.llm.scripted import Script, call, fail, pause, say
from asyncagents.mcp_server.tools import TOOLS
from asyncagents.server.in_process import open_in_process_client
from tests.support.mcp.client import (
    MODES,
    Mode,
    Person,
    TaskTaker,
    call_tool,
    fail_tool,
    fill,
    launch_task,
    open_mcp_client,
    request_task,
)
from tests.support.runtime import Stage, open_stage
from tests.support.wait import wait_until

QUESTION = {
    "questions": [
        {
            "question": "Which color?",
            "header": "Color",
            "options": [
                {"label": "red", "description": "Like fire"},
                {"label": "blue", "description": "Sky"},
            ],
        }
    ]
}
SCRIPT: Script = {
    "hi": [[say("Hello.")]],
    "long": [[call("write", filePath="b.txt", content="x\n" * 5_000 + "the end")], [say("Written.")]],
    "ship": [[call("may_ship", version="v2")], [say("Shipped.")]],
    "fail": [[fail("The key is not valid.", status=401)]],
    "slow": [[pause(3600), say("Late.")]],
    "write": [[call("write", filePath="a.txt", content="new\n")], [say("Written.")]],
    "ask": [[call("question", **QUESTION)], [say("Noted.")]],
    "fan out": [
        [
            call("asyncagents_task", description="One", prompt="hi", agent="general"),
            call("asyncagents_task", description="Two", prompt="hi", agent="general"),
        ],
        [say("I wait.")],
        *[[say("All are in.")]] * 2,
    ],
}


@approval(who="release managers")
def may_ship(version: str) -> str:
    """Asks whether a version may be shipped."""
    return f"May {version} be shipped?"


modes = pytest.mark.parametrize("mode", MODES)


@asynccontextmanager
async def open_project(tmp_path: Path, **permission: Any) -> AsyncIterator[tuple[Stage, OwnClient, Path]]:
    """A runtime with the coding tools, and a client of ours."""
    data, project = tmp_path / "data", tmp_path / "project"
    project.mkdir(exist_ok=True)
    coding = Config(data_dir=data, permission={"*": "allow", **permission})
    async with (
        open_stage(data, SCRIPT, tools=[may_ship], coding=coding, directory=project) as at,
        open_in_process_client(at.runtime, data, str(project)) as client,
    ):
        yield at, client, project


@asynccontextmanager
async def open_pair(tmp_path: Path, mode: Mode, **options: Any) -> AsyncIterator[Client]:
    permission = options.pop("permission", {})
    async with (
        open_project(tmp_path, **permission) as (_, client, project),
        open_mcp_client(client, project, mode=mode, **options) as opened,
    ):
        yield opened


@pytest.mark.spec("X-04")
@modes
async def test_tools_are_listed_in_one_order_with_self_contained_schemas(tmp_path: Path, mode: Mode) -> None:
    async with open_pair(tmp_path, mode) as client:
        listed = (await client.list_tools()).tools

    assert [each.name for each in listed] == [each.name for each in TOOLS]
    assert all(each.description and each.title and each.annotations for each in listed)
    assert "$ref" not in str([(each.input_schema, each.output_schema) for each in listed])


@pytest.mark.spec("X-04")
@modes
async def test_agent_run_returns_the_answer_of_the_agent(tmp_path: Path, mode: Mode) -> None:
    async with open_pair(tmp_path, mode) as client:
        found = await call_tool(client, "agent_run", prompt="hi", description="Say hi")

    assert found["status"] == "completed"
    assert found["result"] == "Hello."
    assert found["description"] == "Say hi"
    assert found["agent"] == "build"


@modes
async def test_a_subagent_answers_itself_in_a_session_of_its_own(tmp_path: Path, mode: Mode) -> None:
    async with (
        open_project(tmp_path) as (at, own, project),
        open_mcp_client(own, project, mode=mode) as client,
    ):
        found = await call_tool(client, "agent_run", prompt="hi", agent="general")
        session = await at.runtime.session(found["task_id"])
        tasks = await at.runtime.tasks.list(session.id)

    assert found["result"] == "Hello."
    assert session.agent == "general"
    assert session.metadata == {"mcp": {"client": "mcp"}}
    assert tasks == ()


@modes
async def test_a_call_that_is_not_done_in_time_returns_its_task(tmp_path: Path, mode: Mode) -> None:
    async with open_pair(tmp_path, mode) as client:
        found = await call_tool(client, "agent_run", prompt="slow", wait=0)
        cancelled = await call_tool(client, "agent_cancel", task_id=found["task_id"])

    assert found["status"] == "working"
    assert found["result"] is None
    assert cancelled["status"] == "cancelled"


@modes
async def test_launched_tasks_work_in_parallel_and_are_waited_for(tmp_path: Path, mode: Mode) -> None:
    async with open_pair(tmp_path, mode) as client:
        slow = await call_tool(client, "agent_launch", prompt="slow")
        first, second = [await call_tool(client, "agent_launch", prompt="hi") for _ in range(2)]
        ids = [slow["task_id"], first["task_id"], second["task_id"]]
        both = await call_tool(client, "agent_wait", task_ids=ids, until=2)
        every = await call_tool(client, "agent_wait", task_ids=ids[1:], until="all")
        late = await call_tool(client, "agent_wait", task_ids=ids[:1], seconds=0)

    assert [each["status"] for each in both["tasks"]] == ["working", "completed", "completed"]
    assert [each["result"] for each in every["tasks"]] == ["Hello.", "Hello."]
    assert [each["status"] for each in late["tasks"]] == ["working"]


async def test_the_same_key_launches_once(tmp_path: Path) -> None:
    async with open_pair(tmp_path, "auto") as client:
        first = await call_tool(client, "agent_launch", prompt="hi", key="k")
        again = await call_tool(client, "agent_run", prompt="hi", key="k")
        listed = await call_tool(client, "agent_list")

    assert again["task_id"] == first["task_id"]
    assert len([each for each in listed["tasks"] if each["task_id"] == first["task_id"]]) == 1


@pytest.mark.parametrize("key", ["", "日本語", "a\nb", "x" * 181])
async def test_a_key_that_cannot_be_sent_is_refused(tmp_path: Path, key: str) -> None:
    async with open_pair(tmp_path, "auto") as client:
        refused = await fail_tool(client, "agent_launch", prompt="hi", key=key)

    assert refused == "key must have 1 to 180 printable ASCII characters"


async def test_a_prompt_with_half_a_character_is_refused_and_others_go_on(tmp_path: Path) -> None:
    async with open_project(tmp_path) as (_, own, project):
        with pytest.raises(InvalidInput, match="cannot be sent"):
            await own.conversations.begin("\ud800", agent=None, directory=str(project))
        async with open_mcp_client(own, project) as client:
            found = await call_tool(client, "agent_run", prompt="hi")

    assert found["result"] == "Hello."


@modes
async def test_a_task_that_is_deleted_ends_the_wait_for_it(tmp_path: Path, mode: Mode) -> None:
    async with (
        open_project(tmp_path) as (at, own, project),
        open_mcp_client(own, project, mode=mode) as client,
    ):
        slow = await call_tool(client, "agent_launch", prompt="slow")
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(call_tool(client, "agent_wait", task_ids=[slow["task_id"]]))
            await wait_until(lambda: at.runtime.counters.streams)
            await at.runtime.delete_session(SessionId(slow["task_id"]))

    (ended,) = waiting.result()["tasks"]
    assert ended["status"] == "cancelled"
    assert ended["message"] == "It was deleted."


async def test_a_list_of_one_status_has_old_tasks_too(tmp_path: Path) -> None:
    async with open_pair(tmp_path, "auto", permission={"edit": "ask"}) as client:
        asking = await call_tool(client, "agent_run", prompt="write")
        for _ in range(3):
            await call_tool(client, "agent_run", prompt="hi")
        (found,) = (await call_tool(client, "agent_list", status="input_required", limit=2))["tasks"]

    assert found["task_id"] == asking["task_id"]


async def test_a_stored_prompt_that_wakes_nobody_does_not_hide_the_answer(tmp_path: Path) -> None:
    async with (
        open_project(tmp_path) as (at, own, project),
        open_mcp_client(own, project) as client,
    ):
        done = await call_tool(client, "agent_run", prompt="hi")
        await at.runtime.send(SessionId(done["task_id"]), "For later.", wakes=False)
        found = await call_tool(client, "agent_output", task_id=done["task_id"])

    assert found["task"]["status"] == "completed"
    assert found["task"]["result"] == "Hello."


@pytest.mark.spec("X-04")
@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
async def test_a_subscriber_is_notified_until_it_unsubscribes(tmp_path: Path) -> None:
    updates: list[str] = []

    async def receive(message: Any) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            updates.append(message.params.uri)

    async with (
        open_project(tmp_path) as (at, own, project),
        open_mcp_client(own, project, mode="legacy", messages=receive) as client,
    ):
        found = await call_tool(client, "agent_run", prompt="hi")
        uri = f"asyncagents://tasks/{found['task_id']}/transcript"
        await client.subscribe_resource(uri)
        await wait_until(lambda: at.runtime.counters.streams == 1)
        await call_tool(client, "agent_resume", task_id=found["task_id"], prompt="hi again")
        await wait_until(lambda: updates)
        await client.unsubscribe_resource(uri)
        await wait_until(lambda: at.runtime.counters.streams == 0)
        with pytest.raises(MCPError, match="cannot be subscribed to: subscribe to one task"):
            await client.subscribe_resource("asyncagents://tasks")

    assert set(updates) == {uri}


async def test_a_long_argument_in_a_form_says_what_is_left_out(tmp_path: Path) -> None:
    person = Person(fill(answer="reject"))
    async with open_pair(tmp_path, "auto", permission={"edit": "ask"}, person=person) as client:
        await client.call_tool("agent_run", {"prompt": "long"})

    assert "characters are not shown here: `asyncagents asks --json` has them]" in person.asked[0].message
    assert "+the end" in person.asked[0].message


async def test_a_task_is_completed_when_all_that_it_launched_has_ended(tmp_path: Path) -> None:
    async with open_pair(tmp_path, "auto") as client:
        found = await call_tool(client, "agent_run", prompt="fan out")
        read = await call_tool(client, "agent_output", task_id=found["task_id"], transcript=True)

    assert found["status"] == "completed"
    assert found["result"] == "All are in."
    assert read["transcript"].startswith("## user\nfan out\n\n## assistant\n[asyncagents_task: ")


async def test_a_follow_up_has_the_conversation_and_a_fork_leaves_it_unchanged(tmp_path: Path) -> None:
    async with open_pair(tmp_path, "auto") as client:
        first = await call_tool(client, "agent_run", prompt="hi", agent="general")
        task_id = first["task_id"]
        await call_tool(client, "agent_resume", task_id=task_id, prompt="hi again")
        await call_tool(client, "agent_wait", task_ids=[task_id])
        fork = await call_tool(client, "agent_fork", task_id=task_id, prompt="and again")
        await call_tool(client, "agent_wait", task_ids=[fork["task_id"]])
        old, new = [
            (await call_tool(client, "agent_output", task_id=each, transcript=True))["transcript"]
            for each in (task_id, fork["task_id"])
        ]

    assert old.count("## user") == 2
    assert new.count("## user") == 3
    assert fork["agent"] == "general"


@pytest.mark.spec("A-04", "X-04")
@modes
async def test_a_permission_is_asked_of_the_person_by_a_form(tmp_path: Path, mode: Mode) -> None:
    person = Person(fill(answer="once"))
    async with open_pair(tmp_path, mode, permission={"edit": "ask"}, person=person) as client:
        found = await call_tool(client, "agent_run", prompt="write")

    assert found["result"] == "Written."
    assert (tmp_path / "project/a.txt").read_text() == "new\n"
    (asked,) = person.asked
    assert "asks for permission: edit" in asked.message
    assert "always" not in str(asked)


@modes
async def test_a_person_rejects_with_a_reason(tmp_path: Path, mode: Mode) -> None:
    person = Person(fill(answer="reject", reason="Not that file."))
    async with open_pair(tmp_path, mode, permission={"edit": "ask"}, person=person) as client:
        found = await call_tool(client, "agent_run", prompt="write")
        read = await call_tool(client, "agent_output", task_id=found["task_id"], transcript=True)

    assert not (tmp_path / "project/a.txt").exists()
    assert "Not that file." in read["transcript"]


@modes
async def test_a_form_that_is_cancelled_answers_nothing(tmp_path: Path, mode: Mode) -> None:
    person = Person(ElicitResult(action="cancel"))
    async with open_pair(tmp_path, mode, permission={"edit": "ask"}, person=person) as client:
        found = await call_tool(client, "agent_run", prompt="write")
        (task,) = (await call_tool(client, "agent_list", status="input_required"))["tasks"]

    assert found["status"] == "input_required"
    assert [each["kind"] for each in task["asks"]] == ["permission"]
    assert len(person.asked) == 1


@pytest.mark.spec("A-04", "X-04")
@modes
async def test_a_model_answers_questions_but_no_permissions(tmp_path: Path, mode: Mode) -> None:
    async with open_pair(tmp_path, mode, permission={"edit": "ask"}) as client:
        asks = await call_tool(client, "agent_run", prompt="ask")
        wants = await call_tool(client, "agent_run", prompt="write")
        (question,), (permission,) = asks["asks"], wants["asks"]
        empty = await fail_tool(client, "agent_answer", ask_id=question["id"])
        await call_tool(client, "agent_answer", ask_id=question["id"], answers=[["blue"]])
        (answered,) = (await call_tool(client, "agent_wait", task_ids=[asks["task_id"]]))["tasks"]
        refused = await fail_tool(client, "agent_answer", ask_id=permission["id"], allow=True)
        rejected = await call_tool(client, "agent_answer", ask_id=permission["id"], reject="no")

    assert question["questions"] == ["Which color?"]
    assert question["options"] == [["red", "blue"]]
    assert empty == "answers is empty: give a list of answers for each question"
    assert answered["result"] == "Noted."
    assert refused.startswith("a person decides this, not a model: `asyncagents answer ")
    assert rejected["task_id"] == wants["task_id"]
    assert not (tmp_path / "project/a.txt").exists()


async def test_a_model_decides_no_approval_that_names_a_person(tmp_path: Path) -> None:
    async with open_pair(tmp_path, "auto") as client:
        asks = await call_tool(client, "agent_run", prompt="ship")
        (ask,) = asks["asks"]
        refused = await fail_tool(client, "agent_answer", ask_id=ask["id"], answers=[["Approve"]])
        (task,) = (await call_tool(client, "agent_list", status="input_required"))["tasks"]

    assert ask["kind"] == "permission"
    assert "release managers" in ask["text"]
    assert refused.startswith("a person decides this, not a model: `asyncagents answer ")
    assert task["task_id"] == asks["task_id"]


async def test_a_model_allows_a_call_once_where_the_person_lets_it(tmp_path: Path) -> None:
    async with open_pair(tmp_path, "auto", permission={"edit": "ask"}, may_allow=True) as client:
        wants = await call_tool(client, "agent_run", prompt="write")
        await call_tool(client, "agent_answer", ask_id=wants["asks"][0]["id"], allow=True)
        (ended,) = (await call_tool(client, "agent_wait", task_ids=[wants["task_id"]]))["tasks"]

    assert ended["result"] == "Written."


@pytest.mark.spec("X-04")
async def test_a_call_becomes_a_task_that_is_polled(tmp_path: Path) -> None:
    async with open_pair(tmp_path, "auto", extensions=[TaskTaker()]) as client:
        created = await launch_task(client, prompt="hi")

        async def read() -> Any:
            found = await request_task(client, "tasks/get", created.task_id)
            return found if found["status"] != "working" else None

        ended = await wait_until(read)

    assert created.status == "working"
    assert ended["status"] == "completed"
    assert ended["result"]["structuredContent"]["result"] == "Hello."
    assert {"createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs", "statusMessage"} <= ended.keys()


@pytest.mark.spec("A-04", "X-04")
async def test_a_task_asks_by_input_requests_and_goes_on_with_the_answer(tmp_path: Path) -> None:
    async with open_pair(
        tmp_path, "auto", extensions=[TaskTaker()], person=Person(), permission={"edit": "ask"}
    ) as client:
        created = await launch_task(client, prompt="write")

        async def read(status: str) -> Any:
            found = await request_task(client, "tasks/get", created.task_id)
            return found if found["status"] == status else None

        asking = await wait_until(lambda: read("input_required"))
        ((ask_id, form),) = asking["inputRequests"].items()
        answer = {"action": "accept", "content": {"answer": "once"}}
        await request_task(client, "tasks/update", created.task_id, inputResponses={ask_id: answer})
        ended = await wait_until(lambda: read("completed"))
        again = await request_task(client, "tasks/update", created.task_id, inputResponses={ask_id: answer})

    assert form["method"] == "elicitation/create"
    assert form["params"]["requestedSchema"]["properties"]["answer"]["enum"] == ["once", "reject"]
    assert ended["result"]["structuredContent"]["result"] == "Written."
    assert again == {"resultType": "complete"}


@modes
async def test_an_agent_that_fails_is_an_error_of_the_call(tmp_path: Path, mode: Mode) -> None:
    async with open_pair(tmp_path, mode) as client:
        result = await client.call_tool("agent_run", {"prompt": "fail"})

    assert result.is_error
    assert result.structured_content["status"] == "failed"
    assert result.structured_content["error"] == "APIError: The key is not valid."


async def test_a_task_whose_agent_fails_is_completed_with_an_error(tmp_path: Path) -> None:
    """The status `failed` is for errors of the protocol."""
    async with open_pair(tmp_path, "auto", extensions=[TaskTaker()]) as client:
        created = await launch_task(client, prompt="fail")

        async def read() -> Any:
            found = await request_task(client, "tasks/get", created.task_id)
            return found if found["status"] != "working" else None

        ended = await wait_until(read)

    assert ended["status"] == "completed"
    assert ended["result"]["isError"]


async def test_a_task_is_cancelled(tmp_path: Path) -> None:
    async with open_pair(tmp_path, "auto", extensions=[TaskTaker()]) as client:
        created = await launch_task(client, prompt="slow")
        await request_task(client, "tasks/cancel", created.task_id)
        ended = await request_task(client, "tasks/get", created.task_id)

    assert ended["status"] == "cancelled"


async def test_an_older_protocol_has_no_tasks_though_the_extension_is_declared(tmp_path: Path) -> None:
    async with open_pair(tmp_path, "legacy", extensions=[TaskTaker()]) as client:
        found = await call_tool(client, "agent_run", prompt="hi")
        with pytest.raises(MCPError, match="tasks need the protocol 2026-07-28"):
            await request_task(client, "tasks/get", found["task_id"])

    assert found["result"] == "Hello."


@pytest.mark.spec("X-04")
async def test_a_client_sees_no_tasks_of_other_projects(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    async with open_project(tmp_path, edit="ask") as (_, own, project):
        async with open_mcp_client(own, other) as client:
            hidden = await call_tool(client, "agent_run", prompt="hi")
            asking = await call_tool(client, "agent_run", prompt="write")
        async with open_mcp_client(own, project, extensions=[TaskTaker()], may_allow=True) as client:
            listed = await call_tool(client, "agent_list")
            task_id, ask_id = hidden["task_id"], asking["asks"][0]["id"]
            errors = [
                await fail_tool(client, "agent_output", task_id=task_id),
                await fail_tool(client, "agent_wait", task_ids=[task_id]),
                await fail_tool(client, "agent_cancel", task_id=task_id),
                await fail_tool(client, "agent_resume", task_id=task_id, prompt="hi"),
                await fail_tool(client, "agent_fork", task_id=task_id, prompt="hi"),
                await fail_tool(client, "agent_answer", ask_id=ask_id, allow=True),
            ]
            for method in ("tasks/get", "tasks/update", "tasks/cancel"):
                with pytest.raises(MCPError, match="no task of this project with id"):
                    await request_task(client, method, task_id)
            with pytest.raises(MCPError, match="no task of this project with id"):
                await client.read_resource(f"asyncagents://tasks/{task_id}/transcript")

    assert task_id not in {each["task_id"] for each in listed["tasks"]}
    assert all("no task of this project" in each or "no open ask" in each for each in errors), errors


@modes
async def test_wrong_arguments_are_errors_that_say_what_to_do(tmp_path: Path, mode: Mode) -> None:
    async with open_pair(tmp_path, mode) as client:
        agent = await fail_tool(client, "agent_run", prompt="hi", agent="nope")
        missing = await fail_tool(client, "agent_run")
        unknown = await fail_tool(client, "agent_list", page=2)
        task = await fail_tool(client, "agent_output", task_id="ses_x")
        with pytest.raises(MCPError, match="unknown tool 'agent_fly': use one of agent_run, "):
            await client.call_tool("agent_fly", {})

    assert agent == "there is no agent 'nope' here: use one of build, explore, general, plan"
    assert "missing required field `prompt`" in missing
    assert "unknown field `page`" in unknown
    assert task.startswith("no session with id 'ses_x'")


@modes
async def test_tasks_and_transcripts_are_resources(tmp_path: Path, mode: Mode) -> None:
    async with open_pair(tmp_path, mode) as client:
        found = await call_tool(client, "agent_run", prompt="hi")
        uri = f"asyncagents://tasks/{found['task_id']}"
        listed = [each.uri for each in (await client.list_resources()).resources]
        offered = (await client.list_resource_templates()).resource_templates
        task, transcript, every = [
            (await client.read_resource(each)).contents[0].text  # type: ignore[union-attr]
            for each in (uri, f"{uri}/transcript", "asyncagents://tasks")
        ]
        with pytest.raises(MCPError, match="unknown resource"):
            await client.read_resource("asyncagents://other")

    assert listed[0] == "asyncagents://tasks"
    assert uri in listed
    assert [each.uri_template for each in offered] == [
        "asyncagents://tasks/{id}",
        "asyncagents://tasks/{id}/transcript",
    ]
    assert '"result":"Hello."' in task
    assert transcript == "## user\nhi\n\n## assistant\nHello."
    assert found["task_id"] in every
