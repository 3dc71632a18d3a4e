"""The other side: finishes the jobs that `deploy` has started, and brings the results, whoever runs then."""

import argparse
import asyncio
import base64
import hashlib
import hmac
import json
import time

from agent import DATA, JOBS, deploy
from asyncagents import AsyncAgentsError, PendingToolCall, Runtime, open_runtime


async def main(url: str, *, webhook: bool) -> None:
    bring = by_webhook if webhook else by_library
    # serve=False: it brings results and works on no session. The tool is there because it checks them.
    async with open_runtime(DATA, serve=False, tools=[deploy]) as runtime:
        jobs = sorted(JOBS.glob("*.json"))
        if not jobs:
            print("no open job")
        for job in jobs:
            todo = json.loads(job.read_text())
            try:
                pending_call = await bring(runtime, todo, url)
            except AsyncAgentsError as refused:
                print(f"{todo['version']} was refused: {refused}")
                continue
            print(f"{todo['version']} is {pending_call.status}")
            job.unlink()  # only now: should this process die before, the same result again does no harm


async def by_library(runtime: Runtime, todo: dict[str, str], url: str) -> PendingToolCall:
    """It is on the disk when this returns."""
    version = todo["version"]
    return await runtime.async_tools.submit_result(
        todo["pending_id"], f"{version} is live at {url}", title=f"Deployed {version}", metadata={"url": url}
    )


async def by_webhook(runtime: Runtime, todo: dict[str, str], url: str) -> PendingToolCall:
    """What somebody who knows only the secret would post; here it is handed over without a server."""
    version = todo["version"]
    result = {
        "title": f"Deployed {version}",
        "output": f"{version} is live at {url}",
        "metadata": {"url": url},
    }
    body = json.dumps({"pendingID": todo["pending_id"], "result": result}).encode()
    return await runtime.async_tools.receive(signed(todo["secret"], todo["pending_id"], body), body)


def signed(secret: str, id: str, body: bytes) -> dict[str, str]:
    """The headers of Standard Webhooks."""
    now = str(int(time.time()))
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signature = hmac.digest(key, f"{id}.{now}.".encode() + body, hashlib.sha256)
    encoded = base64.b64encode(signature).decode()
    return {"webhook-id": id, "webhook-timestamp": now, "webhook-signature": f"v1,{encoded}"}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Finish all jobs, and bring their results.")
    parser.add_argument("--url", default="https://shop.example", help="where it is live")
    parser.add_argument("--webhook", action="store_true", help="as a signed webhook, not by the library")
    options = parser.parse_args()
    asyncio.run(main(options.url, webhook=options.webhook))
