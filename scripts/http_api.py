"""Writes the tables of routes into docs/http-api.md, from the table that the server routes by."""

import sys
from collections import defaultdict
from pathlib import Path

from asyncagents.server.openapi import statuses
from asyncagents.server.route import Route
from asyncagents.server.routes import ROUTES

PAGE = Path(__file__).resolve().parent.parent / "docs" / "http-api.md"
BEGIN, END = "<!-- routes: made by `python scripts/http_api.py` -->\n", "<!-- end of routes -->"
EVERYWHERE = {400, 401, 403, 408, 413, 415, 503}
"""Errors that many routes have; the tables list only the others."""
HEAD = ("| route | access | does | errors |", "|---|---|---|---|")
SECTIONS = {
    "Sessions": ("opencode.session", "opencode.session_update", "v1.sessions"),
    "Prompts": ("v1.prompts", "opencode.prompt", "opencode.actions"),
    "Messages": ("opencode.message", "opencode.revert"),
    "Asks and approvals": ("v1.asks", "v1.approvals", "opencode.ask"),
    "Tasks": ("v1.tasks",),
    "Results of async tools": ("v1.async_tool",),
    "Streams of events": ("v1.session_events", "opencode.event"),
    "Agents, models and configuration": ("opencode.agent", "opencode.provider", "opencode.config"),
    "Projects, files and git": ("opencode.project", "opencode.file", "opencode.mention", "opencode.vcs"),
    "MCP servers": ("opencode.mcp", "v1.mcp_servers"),
    "The server": ("v1.metrics", "openapi", "opencode.experimental"),
    "OpenCode's terminal": ("opencode.tui",),
}
"""Headings of the page, each with the modules below `asyncagents.server` that have its routes."""


def sections() -> str:
    """Return a heading with a table for each section. Raises `ValueError` for a route without a section."""
    rows: dict[str, list[str]] = defaultdict(list)
    for route in ROUTES:
        rows[route.handler.__module__.removeprefix("asyncagents.server.")].append(_row(route))
    tables = [
        "\n".join([f"### {title}", "", *HEAD, *(row for name in modules for row in rows.pop(name)), ""])
        for title, modules in SECTIONS.items()
    ]
    if rows:
        raise ValueError(f"the routes of {', '.join(rows)} have no section: add the module to SECTIONS")
    return "\n".join(tables)


def _row(route: Route) -> str:
    errors = ", ".join(str(status) for status in statuses(route) if status not in EVERYWHERE)
    query = "".join(f"{'&' if at else '?'}{param.name}=" for at, param in enumerate(route.query))
    return f"| `{route.method} {route.path}{query}` | {route.access} | {route.summary}. | {errors} |"


def page(text: str) -> str:
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{sections()}\n{END}{after}"


def main() -> int:
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
