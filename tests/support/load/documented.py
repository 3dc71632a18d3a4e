"""Requests made of the document of the API, by schemathesis, to a server with something in it.

`python -m tests.support.load.documented --cases 20000` goes on with new seeds until so many were sent.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.request import urlopen

import msgspec
import schemathesis
from msgspec import Struct
from schemathesis.engine import events, from_schema
from schemathesis.hooks import GLOBAL_HOOK_DISPATCHER

from asyncagents.app.runtime import open_runtime
from asyncagents.config.config import DelegationConfig
from asyncagents.domain.call.ask import Question
from asyncagents.domain.call.call import Call
from asyncagents.domain.conversation.message import UserMessage
from asyncagents.domain.event import MessageUpdated, PermissionAsked, QuestionAsked
from asyncagents.domain.id import SessionId
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.engine.tool import Ask, ToolContext
from asyncagents.errors import RequestError
from asyncagents.llm.scripted import ScriptedModel, call, say
from asyncagents.server.discovery import Listing
from tests.support.delegation import call_task, launch_task
from tests.support.http.server import serve_runtime
from tests.support.runtime import assert_nothing_is_half_open
from tests.support.tool import CAREFUL, ECHO, build_pending_tool
from tests.support.wait import PATIENCE
from tests.support.webhook.delivery import WaitingService

SCENES = {
    "ship": [[call("deploy")], [say("Shipped.")]],
    "delegate": [[launch_task("one", "dig"), launch_task("two", "ship")], [say("Launched.")]],
    "dig": [[call("echo", text="deep")], [say("Dug.")]],
    "be careful": [[call("careful", text="boo")], [say("Done.")]],
    "wonder": [[call("wonder")], [say("I see.")]],
    "wait for it": [[call_task("three", "dig")], [say("It is dug.")]],
}
WONDER = build_pending_tool(
    "wonder", kind="question", questions=(Question(question="Why?", header="Why", options=()),), seconds=None
)
LARGE = (
    "POST /session/{id}/prompt_async",
    "POST /v1/sessions/{id}/prompts",
    "POST /session/{id}/command",
    "PATCH /session/{id}/message/{messageID}/part/{partID}",
)
"""Hundreds of bodies each, of parts that prompts take as well."""

T = TypeVar("T")
UNCHECKED = ("positive_data_acceptance", "use_after_free", "ensure_resource_availability")
"""A text may be refused for what no schema says of it; a call that was cancelled is still shown; and what was
made is not what is asked for then, since we put other ids into requests."""


class KnownIds(Struct, frozen=True, kw_only=True):
    """Ids of what there is, by the word before their place in a path."""

    messages: tuple[tuple[str, str, str], ...]
    """Each with its session, and its first part."""
    spare: tuple[str, ...]
    """Sessions that may be deleted; of the others something else is known."""
    tasks: tuple[str, ...]
    batches: tuple[str, ...]
    calls: tuple[str, ...]
    permissions: tuple[str, ...]
    questions: tuple[str, ...]

    def hit(self, label: str, number: int, values: Any) -> Any:
        found = self._message(number) | {"permissionID": self._one(self.permissions, number)}
        for word, ids in self._words():
            if f"{word}/{{id}}" in label:
                found["id"] = found["pendingID"] = self._one(ids, number)
        if label == "DELETE /session/{id}":
            found["id"] = self._one(self.spare, number)
        if not isinstance(values, dict):
            return values
        hits = {
            name: found[name] for name, value in values.items() if name in found and isinstance(value, str)
        }
        return {**values, **hits}

    def say(self, label: str, number: int, body: dict[str, Any]) -> dict[str, Any]:
        """What is said of something that there is."""
        session_id, message_id, part_id = self._one(self.messages, number)
        if label.endswith("/revert"):
            return body | {"messageID": message_id}
        if label.endswith("/{partID}"):
            return body | {"sessionID": session_id, "messageID": message_id, "id": part_id}
        if label.endswith("/resume"):
            return body | {"prompt": body.get("prompt") or "Go on."}
        return self.hit("/pending/{id}", number, body) if "pendingID" in body else body

    def _message(self, number: int) -> dict[str, str]:
        return dict(zip(("id", "messageID", "partID"), self._one(self.messages, number), strict=True))

    def _words(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        return (
            ("/tasks", self.tasks),
            ("/task-groups", self.batches),
            ("/pending", self.calls),
            ("/permission", self.permissions),
            ("/question", self.questions),
            ("/asks", self.permissions + self.questions),
        )

    @staticmethod
    def _one(ids: tuple[T, ...], number: int) -> T:
        return ids[number % len(ids)]


class Outcome(Struct):
    """What was sent, what it was answered, and what should not have been."""

    cases: int = 0
    seconds: float = 0
    answers: Counter[tuple[str, int]] = msgspec.field(default_factory=Counter)
    """By method and path, and status."""
    failures: list[str] = msgspec.field(default_factory=list)

    def statuses(self) -> dict[int, int]:
        found: Counter[int] = Counter()
        for (_, status), many in self.answers.items():
            found[status] += many
        return dict(sorted(found.items()))


def only_careful(ask: Ask, context: ToolContext) -> Any:
    return "ask" if ask.permission == "echo" else "allow"


@asynccontextmanager
async def open_populated_server(data: Path) -> AsyncIterator[tuple[Listing, KnownIds]]:
    """Tasks that ended, calls that wait, people who are asked; and the server."""
    service, model = WaitingService(), ScriptedModel(SCENES, remember=False)
    async with open_runtime(
        data,
        model=model,
        tools=[service.tool, ECHO, CAREFUL, WONDER],
        delegation=DelegationConfig(tools="both"),
        policy=only_careful,
    ) as runtime:
        for prompt in ("ship", "ship", "wait for it", "delegate"):
            session = await runtime.create_session(directory=data)
            await runtime.prompt(session.id, prompt)
        known = await _known(runtime, data, service, await _asked(runtime, data))
        async with serve_runtime(runtime, data) as caller, asyncio.TaskGroup() as group:
            person = group.create_task(_answer_open_asks(runtime))
            yield caller.listing, known
            person.cancel()
        await assert_nothing_is_half_open(runtime, data)


async def _asked(runtime: Runtime, data: Path) -> tuple[Call, ...]:
    async with asyncio.timeout(PATIENCE), runtime.events() as events:
        for prompt in ("be careful", "wonder") * 2:
            session = await runtime.create_session(directory=data)
            await runtime.send(session.id, prompt)
        asked = 0
        while asked < 4:
            asked += isinstance(await anext(events), PermissionAsked | QuestionAsked)
    return tuple(each.call for each in await runtime.asks())


async def _answer_open_asks(runtime: Runtime) -> None:
    """Else a prompt to a session that asks somebody would be answered when that is, and that is never."""
    async with runtime.events() as events:
        async for event in events:
            if isinstance(event, MessageUpdated) and isinstance(event.info, UserMessage):
                for asked in await runtime.asks():
                    if asked.call.session_id == event.info.session_id and asked.call.ask_id:
                        with suppress(RequestError):
                            await runtime.answer(asked.call.ask_id, "reject")


async def _known(runtime: Runtime, data: Path, service: WaitingService, asked: tuple[Call, ...]) -> KnownIds:
    held = {call.session_id for call in asked}
    sessions = [each.id for each in await runtime.sessions(data) if each.id not in held]
    tasks = {task.session_id: task for each in sessions for task in await runtime.tasks.list(each)}
    asks = [call.open for call in asked if call.open]
    return KnownIds(
        messages=tuple([await _first(runtime, each) for each in sessions]),
        spare=tuple([(await runtime.create_session(directory=data)).id for _ in range(4)]),
        tasks=tuple(tasks),
        batches=tuple(dict.fromkeys(task.batch_id for task in tasks.values())),
        calls=tuple(pending_id for pending_id, _ in service.calls),
        permissions=tuple(each.ask.id for each in asks if each.ask),
        questions=tuple(each.question.id for each in asks if each.question),
    )


async def _first(runtime: Runtime, session_id: SessionId) -> tuple[str, str, str]:
    message = (await runtime.messages(session_id))[0]
    return session_id, message.info.id, message.parts[0].id or ""


def read_document(listing: Listing) -> Any:
    with urlopen(f"{listing.url}/doc", timeout=30) as answer:
        return msgspec.json.decode(answer.read())


class Plan(Struct, frozen=True, kw_only=True):
    """`examples`: for each operation. `once`: parts of prompts are tried at one of them."""

    examples: int
    seed: int
    once: bool = False


def send_storm(listing: Listing, known: KnownIds, plan: Plan, said: Any = None) -> Outcome:
    """All operations but streams: what the document allows, and what it does not.

    `said`: another document than the server's own.
    """
    outcome, begin = Outcome(), time.process_time()
    schema = _schema(said or read_document(listing), _config(listing, plan))
    with _hitting(known):
        for event in from_schema(schema).execute():
            _note(outcome, event)
    outcome.seconds = time.process_time() - begin
    return outcome


def _note(outcome: Outcome, event: events.EngineEvent) -> None:
    match event:
        case events.ScenarioFinished(recorder=recorder):
            _count(outcome, recorder)
        case events.NonFatalError(label=label, value=error):
            outcome.failures.append(f"{label}: {error}")
        case events.FatalError(exception=error):
            outcome.failures.append(f"schemathesis failed: {error!r}")
        case _:
            pass


@contextmanager
def _hitting(known: KnownIds) -> Iterator[None]:
    """Three of four requests are about something that there is."""
    many: Counter[str] = Counter()

    def before_call(context: Any, case: Any, kwargs: Any) -> None:
        label = case.operation.label
        many[label] += 1
        if many[label] % 4 == 0 or case.meta is None or case.meta.generation.mode.is_negative:
            return  # what is wrong on purpose stays so
        path = known.hit(label, many[label], case.path_parameters)
        if path != case.path_parameters:
            case.path_parameters = path
        if isinstance(case.body, dict):
            case.body = known.say(label, many[label], case.body)

    GLOBAL_HOOK_DISPATCHER.register_hook_with_name(before_call, "before_call")
    try:
        yield
    finally:
        GLOBAL_HOOK_DISPATCHER.unregister(before_call)


def _config(listing: Listing, plan: Plan) -> schemathesis.Config:
    return schemathesis.Config.from_dict(
        {
            "seed": plan.seed,
            "base-url": listing.url,
            "request-timeout": 30,
            "auth": {"openapi": {"token": {"bearer": listing.token}}},
            "generation": {"max-examples": plan.examples, "database": "none", "no-shrink": True},
            "checks": {name: {"enabled": False} for name in UNCHECKED},
            "operations": [
                {"include-name": name, "phases": {"coverage": {"enabled": False}}}
                for name in (LARGE if plan.once else ())
            ],
        }
    )


def _schema(said: Any, config: schemathesis.Config) -> Any:
    return schemathesis.openapi.from_dict(_without_streams(said), config=config)


def _without_streams(document: Any) -> Any:
    paths = {
        path: {method: each for method, each in methods.items() if not _is_stream(each)}
        for path, methods in document["paths"].items()
    }
    return document | {"paths": {path: methods for path, methods in paths.items() if methods}}


def _is_stream(operation: Any) -> bool:
    return "text/event-stream" in operation["responses"].get("200", {}).get("content", {})


def _count(outcome: Outcome, recorder: Any) -> None:
    for case_id, interaction in recorder.interactions.items():
        outcome.cases += 1
        status = interaction.response.status_code if interaction.response else 0
        case = recorder.cases[case_id].value
        outcome.answers[f"{case.method} {case.operation.path}", status] += 1
    outcome.failures += _failures(recorder)


def _failures(recorder: Any) -> Iterator[str]:
    for checks in recorder.checks.values():
        for check in checks:
            if check.failure_info is not None:
                failure = check.failure_info.failure
                yield f"{check.name}: {failure.title}: {failure.message}\n{check.failure_info.code_sample}"


async def _storms(cases: int, seed: int) -> Outcome:
    total = Outcome()
    while total.cases < cases and not total.failures:
        with tempfile.TemporaryDirectory() as folder:
            async with open_populated_server(Path(folder)) as (listing, known):
                one = await asyncio.to_thread(send_storm, listing, known, Plan(examples=100, seed=seed))
        total.cases += one.cases
        total.seconds += one.seconds
        total.answers.update(one.answers)
        total.failures += one.failures
        seed += 1
        _tell(total, seed)
    return total


def _tell(outcome: Outcome, seed: int) -> None:
    answers = ", ".join(f"{many} × {status}" for status, many in outcome.statuses().items())
    sys.stdout.write(f"{outcome.cases} requests up to seed {seed}, {outcome.seconds:.0f} s: {answers}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    outcome = asyncio.run(_storms(options.cases, options.seed))
    for failure in outcome.failures:
        sys.stdout.write(f"{failure}\n\n")
    return int(bool(outcome.failures))


if __name__ == "__main__":
    sys.exit(main())
