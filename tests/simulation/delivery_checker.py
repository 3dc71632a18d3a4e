"""The promises about outgoing webhooks: one is owed for each settled call that wants one, once."""

import json
import sqlite3

from asyncagents.domain.call.call import ABORTED, Call, Failed, Settled
from asyncagents.domain.call.webhook import webhook_body
from asyncagents.domain.shape import encode
from tests.simulation.park_post import GONE
from tests.simulation.park_stage import ParkStage
from tests.simulation.stage import Violation


def check_deliveries(book: ParkStage, db: sqlite3.Connection, calls: dict[str, Call]) -> None:
    rows = db.execute("SELECT call_id, url, body, state, id, error FROM delivery").fetchall()
    for row in rows:
        _check_posts(book, *row[3:])
    owed = {row[0]: (row[1], json.loads(row[2])) for row in rows}
    book.counts["deliveries"] = len(rows)
    if len(owed) != len(rows):
        raise Violation(f"P-12: of one call two are told: {rows}")
    for call in calls.values():
        errand = book.errands.get(call.id)
        wanted = errand is not None and errand.webhook and call.id in book.heard
        aborted = isinstance(call.state, Settled) and call.state.result == Failed(ABORTED)
        kept = call.later is not None and call.later.webhook_url
        missing = call.id not in owed and not book.forgets
        if missing and (kept or (wanted and not aborted)):
            raise Violation(f"P-12: nobody is told that {call.id} is settled")
        if call.id not in owed:
            continue
        if errand is None or owed[call.id] != (errand.webhook, json.loads(encode(webhook_body(call)))):
            raise Violation(f"P-12: of {call.id} is told {owed[call.id]}, and it is {call.state}")


def _check_posts(book: ParkStage, state: str, delivery: str, error: str) -> None:
    """P-12: it is posted until somebody has taken it, or nobody wants it; by who could note that, no more."""
    posts = book.posts.get(delivery, [])
    answers = [post.answer for post in posts]
    over = {"delivered": {200, 204}, "dead": {GONE}}.get(state)
    crashed = state == "dead" and "its process died" in error
    if not crashed and (over is None or not over & set(answers)):
        raise Violation(f"P-12: {delivery} is {state}, and was answered with {answers}")
    for post in posts[:-1]:
        if post.answer in (200, 204, GONE) and post.process in book.lasting:
            raise Violation(f"P-12: {delivery} is posted again, though it was answered: {answers}")
    book.counts["posts"] = book.counts.get("posts", 0) + len(posts)
