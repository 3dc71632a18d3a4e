"""An agent whose one tool takes long: it starts a deploy and ends; the result comes later."""

import argparse
import asyncio
import json
from pathlib import Path

from asyncagents import (
    Model,
    Pending,
    Runtime,
    ScriptedModel,
    Session,
    ToolContext,
    ToolResult,
    WaitingAsync,
    async_tool,
    call,
    open_runtime,
    say,
)

DATA = Path("data")
JOBS = Path("jobs")
"""Here it stands for the queue of whatever deploys for you."""


def names_a_url(result: ToolResult) -> str | None:
    """Say what is wrong with a result, or nothing; what is refused changes nothing, and the call waits on."""
    url = result.metadata.get("url")
    return None if str(url).startswith("https://") else f"metadata.url is no https address: {url!r}"


@async_tool(effect="idempotent", seconds=24 * 3600, validate_result=names_a_url)
def deploy(version: str, context: ToolContext) -> Pending:
    """Deploy a version. It takes a while; the result says where it is live.

    Args:
        version: Such as v2.
    """
    JOBS.mkdir(mode=0o700, exist_ok=True)  # for those only who may bring results
    job = JOBS / f"{context.effect_key}.json"  # the same key, if a crash makes it run again: still one job
    todo = {"pending_id": context.pending_id, "secret": context.secret, "version": version}
    whole = job.with_suffix(".new")
    whole.write_text(json.dumps(todo))
    whole.rename(job)  # at once: a crash leaves no half of it
    return Pending(note=f"{version} is being deployed", external_ref=str(job), estimated_seconds=600)


def scripted() -> Model:
    """Plays a script, so that you need no key; a real model says it in its own words."""
    script = {"Deploy v2.": [[call("deploy", version="v2")], [say("The deploy is over.")]]}
    return ScriptedModel(script, otherwise=[say("My script knows only `Deploy v2.`; give me a --model.")])


async def main(prompt: str | None, model: str | None) -> None:
    async with open_runtime(DATA, model=model or scripted(), tools=[deploy]) as runtime:
        session = await newest(runtime)
        if prompt is not None:
            await runtime.send(session.id, prompt)
        status = await runtime.wait(session.id)  # until it rests, or waits for the outside
        if isinstance(status, WaitingAsync):
            print((await runtime.tasks.why(session.id)).sentence)
            return
        for pending_call in await runtime.async_tools.list("completed", session.id):
            print(f"{pending_call.tool}: {pending_call.result.output if pending_call.result else ''}")
        for last in (await runtime.messages(session.id))[-1:]:
            print(f"agent: {last.text}")


async def newest(runtime: Runtime) -> Session:
    """The session of this folder."""
    for session in await runtime.sessions(limit=1):
        return session
    return await runtime.create_session(title="Deploys")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Without a prompt it goes on where it was.")
    parser.add_argument("prompt", nargs="?", help='what to say, such as "Deploy v2."')
    parser.add_argument("--model", help="a real one, such as anthropic/claude-sonnet-4-5; else a script")
    options = parser.parse_args()
    asyncio.run(main(options.prompt, options.model))
