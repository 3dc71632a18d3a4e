"""The other side: finishes the jobs that `deploy` has started, and brings the results, whoever runs then."""

import argparse
import asyncio
import json

from agent import DATA, JOBS, deploy

from asyncagents import AsyncAgentsError, PendingToolCall, Runtime, open_runtime


async def main(url: str, error: str | None) -> None:
    # serve=False: it brings results and works on no session. The tool is there to check them.
    async with open_runtime(DATA, serve=False, tools=[deploy]) as runtime:
        for job in sorted(JOBS.glob("*.json")):
            todo = json.loads(job.read_text())
            try:
                done = await bring(runtime, todo, url, error)
            except AsyncAgentsError as refused:
                print(f"{todo['version']} was refused: {refused}")
                continue
            print(f"{todo['version']} is {done.status}")
            job.unlink()  # only now: should this process die before, the same result again does no harm


async def bring(runtime: Runtime, todo: dict[str, str], url: str, error: str | None) -> PendingToolCall:
    """On the disk when it returns."""
    pending_id, version = todo["pending_id"], todo["version"]
    if error is not None:
        return await runtime.async_tools.submit_error(pending_id, error)
    title, metadata = f"Deployed {version}", {"url": url}
    return await runtime.async_tools.submit_result(
        pending_id, f"{version} is live at {url}", title=title, metadata=metadata
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Finish all jobs.")
    parser.add_argument("--url", default="https://shop.example", help="where it is live")
    parser.add_argument("--error", help="say that it failed, and why")
    options = parser.parse_args()
    asyncio.run(main(options.url, options.error))
