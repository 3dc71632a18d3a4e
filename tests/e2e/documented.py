"""Requests made of the document of the API, by schemathesis, to a server with something in it.

`python -m tests.e2e.documented --cases 20000` goes on with new seeds until so many were sent.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import msgspec
import schemathesis
from msgspec import Struct
from schemathesis.engine import events, from_schema

from asyncagents.app import open_runtime
from asyncagents.config.config import DelegationConfig
from asyncagents.engine.runtime import Runtime
from asyncagents.llm.scripted import ScriptedModel, call, say
from asyncagents.server.discovery import Listing
from tests.flows.delegating import allow, launch, sync
from tests.flows.deliveries import Service
from tests.flows.kit import CAREFUL, ECHO, assert_nothing_is_half_open
from tests.flows.serving import serve

SCENES = {
    "ship": [[call("deploy")], [say("Shipped.")]],
    "delegate": [[launch("one", "dig"), launch("two", "ship")], [say("Launched.")]],
    "dig": [[call("echo", text="deep")], [say("Dug.")]],
    "wait for it": [[sync("three", "dig")], [say("It is dug.")]],
}
UNCHECKED = ("positive_data_acceptance", "use_after_free")
"""A text may be refused for what no schema says of it; a call that was cancelled is still shown."""


class Known(Struct, frozen=True, kw_only=True):
    """Ids of what there is, by the names that paths and bodies have for them."""

    tasks: tuple[str, ...]
    batches: tuple[str, ...]
    sessions: tuple[str, ...]
    calls: tuple[str, ...]

    def of(self, path: str) -> tuple[str, ...]:
        if "pending" in path:
            return self.calls
        if "task-groups" in path:
            return self.batches
        return self.tasks if "tasks" in path else self.sessions


class Outcome(Struct):
    """What was sent, what it was answered, and what should not have been."""

    cases: int = 0
    seconds: float = 0
    answers: Counter[tuple[str, int]] = msgspec.field(default_factory=Counter)
    """By operation and status."""
    failures: list[str] = msgspec.field(default_factory=list)

    def statuses(self) -> dict[int, int]:
        found: Counter[int] = Counter()
        for (_, status), many in self.answers.items():
            found[status] += many
        return dict(sorted(found.items()))


@asynccontextmanager
async def populated(data: Path) -> AsyncIterator[tuple[Listing, Known]]:
    """Tasks that ended, one that waits, calls that wait, sessions of both kinds; and the server."""
    service, model = Service(), ScriptedModel(SCENES, remember=False)
    delegation = DelegationConfig(tools="both")
    async with open_runtime(
        data, model=model, tools=[service.tool, ECHO, CAREFUL], delegation=delegation, policy=allow
    ) as runtime:
        for prompt in ("ship", "ship", "wait for it", "delegate"):
            session = await runtime.create_session(directory=data)
            await runtime.prompt(session.id, prompt)
        async with serve(runtime, data) as caller:
            yield caller.listing, await _known(runtime, data, service)
        await assert_nothing_is_half_open(runtime, data)


async def _known(runtime: Runtime, data: Path, service: Service) -> Known:
    sessions = [session.id for session in await runtime.sessions(data)]
    tasks = {task.session_id: task for each in sessions for task in await runtime.tasks.list(each)}
    return Known(
        tasks=tuple(tasks),
        batches=tuple(dict.fromkeys(task.batch_id for task in tasks.values())),
        sessions=tuple(sessions),
        calls=tuple(pending_id for pending_id, _ in service.told),
    )


def document(listing: Listing) -> Any:
    with urlopen(f"{listing.url}/doc", timeout=30) as answer:
        return msgspec.json.decode(answer.read())


def storm(listing: Listing, known: Known, *, examples: int, seed: int, said: Any = None) -> Outcome:
    """All operations but streams: what the document allows, and what it does not.

    `said`: another document than the server's own.
    """
    outcome, begin = Outcome(), time.process_time()
    schema = _schema(known, said or document(listing), _config(listing, examples, seed))
    for event in from_schema(schema).execute():
        match event:
            case events.ScenarioFinished(recorder=recorder):
                _count(outcome, recorder)
            case events.NonFatalError(label=label, value=error):
                outcome.failures.append(f"{label}: {error}")
            case events.FatalError(exception=error):
                outcome.failures.append(f"schemathesis failed: {error!r}")
            case _:
                pass
    outcome.seconds = time.process_time() - begin
    return outcome


def _config(listing: Listing, examples: int, seed: int) -> schemathesis.Config:
    return schemathesis.Config.from_dict(
        {
            "seed": seed,
            "base-url": listing.url,
            "request-timeout": 30,
            "auth": {"openapi": {"token": {"bearer": listing.token}}},
            "generation": {"max-examples": examples, "database": "none", "no-shrink": True},
            "checks": {name: {"enabled": False} for name in UNCHECKED},
        }
    )


def _schema(known: Known, said: Any, config: schemathesis.Config) -> Any:
    schema = schemathesis.openapi.from_dict(_without_streams(said), config=config)

    @schema.hook
    def map_path_parameters(context: Any, path_parameters: Any) -> Any:
        """Every other one is of something that there is."""
        return _hit(path_parameters, known.of(context.operation.path), "id")

    @schema.hook
    def map_body(context: Any, body: Any) -> Any:
        return _hit(body, known.calls, "pendingID")

    return schema


def _hit(values: Any, ids: tuple[str, ...], name: str) -> Any:
    if not isinstance(values, dict) or not isinstance(values.get(name), str) or not ids:
        return values
    number = sum(values[name].encode("utf-8", "replace"))
    return {**values, name: ids[number // 2 % len(ids)]} if number % 2 else values


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
        outcome.answers[recorder.cases[case_id].value.operation.label, status] += 1
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
            async with populated(Path(folder)) as (listing, known):
                one = await asyncio.to_thread(storm, listing, known, examples=100, seed=seed)
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
