"""Bugs of waiting for the outside, put in on purpose: worlds of async calls must find each of them."""

from tests.simulation.mutant import Mutant

PARK_MUTANTS = (
    Mutant(
        "result_without_a_wake",
        "store/verb/settle.py",
        "    control = row.control.after_wake().after_progress()\n",
        "    control = row.control.after_progress()\n"
        "    control = control if call.open else control.after_wake()\n",
    ),
    Mutant(
        "last_result_wins",
        "store/verb/settle.py",
        "        if not _is_same_result(call.state.result, fact.result):\n",
        "        if not _is_same_result(call.state.result, fact.result) and not call.shown_pending:\n"
        "            row = await require_session(tx, call.session_id)\n"
        "            return await settle_open(tx, row, call, fact.result)\n"
        "        if not _is_same_result(call.state.result, fact.result):\n",
    ),
    Mutant(
        "refused_with_its_own_words",
        "store/verb/settle.py",
        "raise AlreadySettled(call.id, result_excerpt(call.state.result))",
        "raise AlreadySettled(call.id, result_excerpt(fact.result))",
    ),
    Mutant(
        "same_result_refused",
        "store/verb/settle.py",
        "        if not _is_same_result(call.state.result, fact.result):\n",
        "        if not _is_same_result(call.state.result, fact.result) or call.shown_pending:\n",
    ),
    Mutant(
        "reopened_over_a_result",
        "store/verb/step.py",
        "        if isinstance(call.state, Settled) or (cancelled",
        "        if (isinstance(call.state, Settled) and not call.id) or (cancelled",
    ),
    Mutant(
        "early_result_refused_for_ever",
        "store/verb/settle.py",
        "    _check_open(call)\n",
        "    if not call.open:\n        return call\n    _check_open(call)\n",
    ),
    Mutant(
        "expired_when_it_was_warned_of",
        "store/verb/expire.py",
        "state.due > tx.now:",
        "state.due > tx.now + 4000:",
    ),
    Mutant(
        "expiry_takes_its_siblings_along",
        "store/verb/expire.py",
        '    publish_reply(tx, call, "reject")\n',
        "    for each in await unsettled_calls(tx, call.session_id):\n"
        "        if each.id != call.id and each.open and each.open.kind == 'async':\n"
        "            own = await require_session(tx, row.control.id)\n"
        "            await settle_open(tx, own, each, each.open.on_due, expired=True)\n"
        '    publish_reply(tx, call, "reject")\n',
    ),
    Mutant(
        "late_result_under_a_new_key",
        "store/verb/settle.py",
        '    key = f"result:{call.id}"\n',
        '    key = f"result:{system_message.message.id}"\n',
    ),
    Mutant(
        "shown_and_settled_in_its_place",
        "store/verb/settle.py",
        "    if done.shown_pending:\n        await put_in_inbox(",
        "    if done.shown_pending and not call.open:\n        await put_in_inbox(",
    ),
    Mutant(
        "told_late_though_it_was_not_shown",
        "store/verb/settle.py",
        "    if done.shown_pending:\n        await put_in_inbox(",
        "    if done.shown_pending or call.effect == 'idempotent':\n        await put_in_inbox(",
    ),
    Mutant(
        "resumed_by_the_first_of_several",
        "engine/decide.py",
        "    if session.open_calls:\n        return Park()\n",
        "    lost = session.control.wake_seq % 3 == 0 and session.control.fence > 1\n"
        "    if session.open_calls and not lost:\n"
        "        return Park()\n",
    ),
    Mutant(
        "parked_over_a_result",
        "store/verb/park_rest.py",
        "    if row.control.wake_seq > wake_seq:\n        return False\n    calls = await refresh_waits",
        "    from asyncagents.store.row import inbox\n"
        "    if row.control.wake_seq > wake_seq and (await inbox(tx, row.control.id)).queued:\n"
        "        return False\n    calls = await refresh_waits",
    ),
    Mutant(
        "async_start_begun_again",
        "engine/call/executor.py",
        """if call.effect != "once" and await""",
        """if (call.effect != "once" or call.tool_span == "job") and await""",
    ),
    Mutant(
        "nobody_sweeps_at_the_start",
        "store/sqlite/sql/call.sql",
        "SELECT MIN(due) FROM call WHERE state = 'open' AND due IS NOT NULL;",
        "SELECT NULL;",
    ),
    Mutant(
        "a_person_ends_what_the_outside_has",
        "store/verb/admit.py",
        'if isinstance(call.state, Open) and call.state.kind == "wait":',
        'if isinstance(call.state, Open) and call.state.kind in ("wait", "async"):',
    ),
    Mutant(
        "async_start_in_doubt",
        "engine/call/executor.py",
        "        if call.later is not None:\n            doubt = self._pending_policy.reopen_state(",
        "        if False:\n            doubt = self._pending_policy.reopen_state(",
    ),
    Mutant(
        "expiry_not_said",
        "store/verb/settle.py",
        "    done = call.with_state(Settled(result, tx.now, expired))\n",
        "    done = call.with_state(Settled(result, tx.now))\n",
    ),
    Mutant(
        "webhook_owed_with_the_next_settling",
        "store/verb/settle.py",
        "    await enqueue_webhook(tx, done)\n",
        "    owing = settle_open.__dict__.setdefault('owing', [])\n"
        "    for each in owing:\n        await enqueue_webhook(tx, each)\n"
        "    owing[:] = [done]\n",
    ),
    Mutant(
        "webhook_forgotten_by_an_abort",
        "store/verb/settle.py",
        "    await put_call(tx, over)\n    await enqueue_webhook(tx, over)\n",
        "    await put_call(tx, over)\n",
    ),
    Mutant(
        "webhook_forgotten_by_an_early_result",
        "store/verb/fact.py",
        "            await enqueue_webhook(tx, call.with_state(state).with_state(call.state))\n",
        "            if not call.id:\n"
        "                await enqueue_webhook(tx, call.with_state(state).with_state(call.state))\n",
    ),
    Mutant(
        "early_result_unchecked",
        "store/verb/settle.py",
        "    if unless_checked and call.later is not None and call.later.checked:\n",
        "    if unless_checked and call.later is not None and call.later.checked and call.open:\n",
    ),
    Mutant(
        "secret_of_a_key_that_nobody_keeps",
        "engine/call/incoming_webhook.py",
        "await self._store.secret_keys() or await self._store.ensure_key(self._random_key())",
        "await self._store.secret_keys() or (self._random_key(),)",
    ),
    Mutant(
        "forgotten_that_it_was_pending",
        "store/verb/pending.py",
        "    if call.shown_pending:  #",
        "    if False:  #",
    ),
    Mutant(
        "nobody_is_warned",
        "domain/call/call.py",
        "        return self.due if self.warn is None else self.warn\n",
        "        return self.due\n",
    ),
    Mutant(
        "listed_as_it_was",
        "store/sqlite/sql/call.sql",
        "pending = excluded.pending, ",
        "",
    ),
    Mutant(
        "webhook_noted_before_it_is_posted",
        "store/sqlite/sql/delivery.sql",
        "UPDATE delivery SET attempts = attempts + 1, next_at = ?, rev = ? WHERE",
        "UPDATE delivery SET attempts = attempts + 1, state = 'delivered', ended = ?, rev = ? WHERE",
    ),
    Mutant(
        "webhook_posted_by_whoever_sees_it",
        "store/sqlite/sql/delivery.sql",
        "UPDATE delivery SET attempts = attempts + 1, next_at = ?, rev = ? WHERE",
        "UPDATE delivery SET attempts = attempts + 1, error = ?, rev = ? WHERE",
    ),
    Mutant(
        "webhook_signed_with_the_newest_key",
        "store/sqlite/sql/pending.sql",
        "-- name: secret_keys_since\n",
        "-- name: secret_keys_since\nSELECT key FROM secret_key WHERE ? > 0 ORDER BY id DESC LIMIT 1;\n"
        "-- name: unused\n",
    ),
)
