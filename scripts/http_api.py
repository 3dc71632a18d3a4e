"""Writes the table of routes into docs/http-api.md, from the table that the server routes by."""

import sys
from pathlib import Path

from asyncagents.server.http.messages import STREAM
from asyncagents.server.openapi import statuses
from asyncagents.server.route import Route
from asyncagents.server.routes import ROUTES

PAGE = Path(__file__).resolve().parent.parent / "docs" / "http-api.md"
BEGIN, END = "<!-- routes: made by `python scripts/http_api.py` -->\n", "<!-- end of routes -->"
EVERYWHERE = {400, 401, 403, 408, 413, 415, 503}
"""Errors that say nothing of one route."""


def table() -> str:
    rows = ["| route | access | |", "|---|---|---|"]
    return "\n".join([*rows, *(_row(route) for route in ROUTES)]) + "\n"


def _row(route: Route) -> str:
    own = [str(status) for status in statuses(route) if status not in EVERYWHERE]
    query = "".join(f"{'&' if at else '?'}{param.name}=" for at, param in enumerate(route.query))
    stream = " A stream." if route.content_type == STREAM else ""
    errors = f" ({', '.join(own)})" if own else ""
    return f"| `{route.method} {route.path}{query}` | {route.access} | {route.summary}.{stream}{errors} |"


def page(text: str) -> str:
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


def main() -> int:
    PAGE.write_text(page(PAGE.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
