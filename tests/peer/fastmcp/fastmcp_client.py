# mypy: ignore-errors
"""Runs in an environment with fastmcp: calls `agent_run` over stdio and over HTTP, and answers its form.

`python fastmcp_client.py PROGRAM PROJECT URL TOKEN PROMPT` prints a line of JSON for each transport: the
messages of the forms, and the structured result.
"""

import asyncio
import json
import os
import sys

import fastmcp_tasks  # noqa: F401  declares the extension for tasks
from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport


async def call(transport, prompt: str) -> None:
    asked = []

    async def answer(message, response_type, params, context):
        asked.append(message)
        return {"answer": "once"}

    async with Client(transport, elicitation_handler=answer) as client:
        result = await client.call_tool("agent_run", {"prompt": prompt})
    sys.stdout.write(json.dumps({"asked": asked, "result": result.structured_content}) + "\n")
    sys.stdout.flush()


async def main(program: str, project: str, *server: str) -> None:
    url, token, prompt = server
    stdio = StdioTransport(command=program, args=["mcp", "serve"], env=dict(os.environ), cwd=project)
    http = StreamableHttpTransport(f"{url}/mcp-server", headers={"authorization": f"Bearer {token}"})
    for transport in (stdio, http):
        await call(transport, prompt)


asyncio.run(main(*sys.argv[1:]))
