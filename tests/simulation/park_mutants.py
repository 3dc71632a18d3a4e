"""Bugs of waiting for the outside, put in on purpose: worlds of async calls must find each of them."""

from tests.simulation.mutant import Mutant
from tests.simulation.parks import PARKS

PARK_MUTANTS = (
    Mutant(
        "result_without_a_wake",
        "store/verb/signal.py",
        "    control = row.control.woken().progressed()\n",
        "    control = row.control.progressed()\n    control = control if call.open else control.woken()\n",
        first=PARKS,
    ),
    Mutant(
        "last_result_wins",
        "store/verb/signal.py",
        "        if not _same(call.state.result, fact.result):\n",
        "        if not _same(call.state.result, fact.result) and not call.shown_pending:\n"
        "            row = await the_session(tx, call.session_id)\n"
        "            return await settle_open(tx, row, call, fact.result)\n"
        "        if not _same(call.state.result, fact.result):\n",
        first=PARKS,
    ),
    Mutant(
        "refused_with_its_own_words",
        "store/verb/signal.py",
        "raise AlreadySettled(call.id, _brief(call.state.result))",
        "raise AlreadySettled(call.id, _brief(fact.result))",
        first=PARKS,
    ),
    Mutant(
        "same_result_refused",
        "store/verb/signal.py",
        "        if not _same(call.state.result, fact.result):\n",
        "        if not _same(call.state.result, fact.result) or call.shown_pending:\n",
        first=PARKS,
    ),
    Mutant(
        "pending_after_an_early_result",
        "store/verb/step.py",
        "        if isinstance(call.state, Settled) or (cancelled",
        "        early = isinstance(move.state, Open) and not move.state.ask\n"
        "        if (isinstance(call.state, Settled) and not early) or (cancelled",
        first=PARKS,
    ),
    Mutant(
        "early_result_refused_for_ever",
        "store/verb/signal.py",
        "    _check_open(call)\n",
        "    if not call.open:\n        return call\n    _check_open(call)\n",
        first=PARKS,
    ),
    Mutant(
        "expired_before_its_time",
        "store/sqlite/sql/call.sql",
        "AND due IS NOT NULL AND due <= ? ORDER BY due",
        "AND due IS NOT NULL AND due <= ? + 2000 ORDER BY due",
        first=PARKS,
    ),
    Mutant(
        "expired_over_a_result",
        "store/verb/expire.py",
        "    if call.open is not None:  # else the expiry of a sibling has settled it\n",
        "    if call.open is None:\n"
        "        return\n"
        '    for each in await tx.all("session_calls", call.session_id):\n'
        "        from asyncagents.store.row import decode_call\n"
        "        late = decode_call(each)\n"
        "        if late.settled and late.turn == call.turn and late.state.at == tx.now:\n"
        "            await settle_open(tx, await the_session(tx, row.control.id), late, call.open.on_due)\n"
        "    if call.open is not None:\n",
        first=PARKS,
    ),
    Mutant(
        "late_result_under_a_new_key",
        "store/verb/signal.py",
        '    key = f"result:{call.id}"\n',
        '    key = f"result:{said.message.id}"\n',
        first=PARKS,
    ),
    Mutant(
        "shown_and_settled_in_its_place",
        "store/verb/signal.py",
        "    if done.shown_pending:\n        await admit(",
        "    if done.shown_pending and not call.open:\n        await admit(",
        first=PARKS,
    ),
    Mutant(
        "told_late_though_it_was_not_shown",
        "store/verb/signal.py",
        "    if done.shown_pending:\n        await admit(",
        "    if done.shown_pending or call.effect == 'idempotent':\n        await admit(",
        first=PARKS,
    ),
    Mutant(
        "resumed_by_the_first_of_several",
        "engine/decide.py",
        "    if session.waiting:\n        return Park()\n",
        "    if session.waiting and not (session.control.wake_seq % 3 == 0 and session.control.fence > 1):\n"
        "        return Park()\n",
        first=PARKS,
    ),
    Mutant(
        "parked_over_a_result",
        "store/verb/rest.py",
        "    if row.control.wake_seq > wake_seq:\n        return False\n    holding = any(",
        "    from asyncagents.store.row import inbox\n"
        "    if row.control.wake_seq > wake_seq and (await inbox(tx, row.control.id)).queued:\n"
        "        return False\n    holding = any(",
        first=PARKS,
    ),
    Mutant(
        "async_start_begun_again",
        "engine/calls.py",
        "        abandoned = snapshot.abandoned\n",
        "        abandoned = tuple(\n"
        "            replace(each, effect='none') if each.tool == 'job' else each\n"
        "            for each in snapshot.abandoned\n"
        "        )\n",
        first=PARKS,
    ),
    Mutant(
        "nobody_sweeps_at_the_start",
        "store/sqlite/sql/call.sql",
        "SELECT MIN(due) FROM call WHERE state = 'open' AND due IS NOT NULL;",
        "SELECT NULL;",
        first=PARKS,
    ),
    Mutant(
        "a_person_ends_what_the_outside_has",
        "store/verb/signal.py",
        'if isinstance(call.state, Open) and call.state.kind == "wait":',
        'if isinstance(call.state, Open) and call.state.kind in ("wait", "async"):',
        first=PARKS,
    ),
)
