"""A program: an MCP server of the tests, on the SDK, by stdio or (with a port) by streamable HTTP.

What is called is written to the file named by LEDGER, a line each: the tool, its text, and our number.
"""

import os
import subprocess
import sys
from pathlib import Path

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ImageContent, ToolAnnotations

READS = ToolAnnotations(read_only_hint=True)
server = MCPServer("kit")
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
"""A PNG of one pixel."""


def write(tool: str, text: str = "") -> int:
    """How often it has been called, also in earlier lives."""
    ledger = Path(os.environ["LEDGER"])
    with ledger.open("a") as file:
        file.write(f"{tool} {text} {os.getpid()}\n")
    return sum(line.startswith(f"{tool} ") for line in ledger.read_text().splitlines())


@server.tool(annotations=READS)
def add(a: int, b: int) -> str:
    """Adds two numbers."""
    write("add")
    return str(a + b)


@server.tool()
def note(text: str) -> str:
    """Writes a note."""
    write("note", text)
    return f"noted {text}"


@server.tool()
async def hold(text: str, context: Context) -> str:
    """Never answers."""
    write("hold", text)
    await context.report_progress(1, message="held")
    await anyio.sleep_forever()
    return "never"


@server.tool(annotations=ToolAnnotations(idempotent_hint=True))
async def hold_once(text: str, context: Context) -> str:
    """Answers only when it is called again."""
    if write("hold_once", text) == 1:
        await context.report_progress(1, message="held")
        await anyio.sleep_forever()
    return "at last"


@server.tool()
async def heed(context: Context) -> str:
    """Notes it when it is told to stop."""
    await context.report_progress(1, message="held")
    try:
        await anyio.sleep_forever()
    finally:
        write("heeded")
    return "never"


@server.tool()
async def nap(seconds: float, context: Context) -> str:
    """Takes a moment."""
    await context.report_progress(1, message="held")
    await anyio.sleep(seconds)
    return "awake"


@server.tool()
async def steps(context: Context) -> str:
    """Tells how it gets on."""
    await context.report_progress(1, 2, "half")
    return "all"


@server.tool()
async def grow(context: Context) -> str:
    """Gets another tool."""
    server.add_tool(late, name="late", description="Came later.")
    await context.notify_tools_changed()
    await context.session.send_tool_list_changed()
    return "grown"


def late() -> str:
    return "late"


@server.tool()
def fail() -> str:
    """Fails."""
    raise ValueError("no luck")


@server.tool()
def image() -> ImageContent:
    """A picture."""
    return ImageContent(data=DOT, mime_type="image/png")


@server.tool(annotations=READS)
def variables() -> str:
    """Which variables there are."""
    return "\n".join(f"{name}={value}" for name, value in sorted(os.environ.items()))


@server.tool()
def shout(lines: int) -> str:
    """Floods stderr."""
    for number in range(lines):
        sys.stderr.write(f"line {number} {os.environ.get('SHOUTED', '')}\n")
    sys.stderr.flush()
    return "done"


@server.tool()
def long(size: int) -> str:
    """Says much."""
    return "x" * size


@server.tool()
def spawn() -> str:
    """Leaves a process behind, in a session of its own."""
    child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    return str(child.pid)


@server.tool()
def die(text: str) -> str:
    """Dies at once."""
    write("die", text)
    sys.stderr.write("I am dying\n")
    sys.stderr.flush()
    os._exit(7)


@server.resource("note://hello", mime_type="text/markdown")
def hello() -> str:
    """A greeting."""
    return "Hello!"


@server.resource("note://blob", mime_type="application/x-thing")
def blob() -> bytes:
    return b"\x00\x01"


@server.prompt()
def greet(name: str) -> str:
    """Greets somebody."""
    return f"Say hello to {name}."


if __name__ == "__main__":
    write("start")
    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run()
