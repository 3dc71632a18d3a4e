"""The promises about outgoing webhooks: one is owed for each settled call that wants one, once."""

import json
import sqlite3

from asyncagents.domain.call import ABORTED, Call, Failed, Settled
from asyncagents.domain.delivery import told
from asyncagents.domain.shape import encode
from tests.simulation.park_stage import ParkStage
from tests.simulation.stage import Violation


def check_deliveries(book: ParkStage, db: sqlite3.Connection, calls: dict[str, Call]) -> None:
    rows = db.execute("SELECT call_id, url, body FROM delivery").fetchall()
    owed = {row[0]: (row[1], json.loads(row[2])) for row in rows}
    book.counts["deliveries"] = len(rows)
    if len(owed) != len(rows):
        raise Violation(f"P-12: of one call two are told: {rows}")
    for call in calls.values():
        errand = book.errands.get(call.id)
        wanted = errand is not None and errand.webhook and call.id in book.heard
        aborted = isinstance(call.state, Settled) and call.state.result == Failed(ABORTED)
        kept = call.later is not None and call.later.webhook_url
        if call.id not in owed and (kept or (wanted and not aborted)):
            raise Violation(f"P-12: nobody is told that {call.id} is settled")
        if call.id not in owed:
            continue
        if errand is None or owed[call.id] != (errand.webhook, json.loads(encode(told(call)))):
            raise Violation(f"P-12: of {call.id} is told {owed[call.id]}, and it is {call.state}")
