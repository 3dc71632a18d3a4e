"""Bugs put into a copy of the source on purpose: the simulation must find each of them."""

from tests.simulation.answer_mutants import ANSWER_MUTANTS
from tests.simulation.external_mutants import EXTERNAL_MUTANTS
from tests.simulation.fault_mutants import FAULT_MUTANTS
from tests.simulation.mutant import Mutant
from tests.simulation.park_mutants import PARK_MUTANTS
from tests.simulation.shell_mutants import SHELL_MUTANTS
from tests.simulation.talk_mutants import TALK_MUTANTS
from tests.simulation.tree_mutants import TREE_MUTANTS
from tests.simulation.undo_mutants import UNDO_MUTANTS

MUTANTS = (
    Mutant(
        "two_transactions_instead_of_one",
        "store/store.py",
        "finish_step = write_verb(step.finish_step, inline=True)",
        """async def finish_step(self, lease, end):
        from msgspec.structs import replace
        await self._write(lambda tx: step.finish_step(tx, lease, replace(end, calls=())))
        async def late(tx):
            from asyncagents.store.row import claimed_session, put_call, snapshot
            for call in end.calls:
                await put_call(tx, call)
            return await snapshot(tx, await claimed_session(tx, lease))
        return await self._write(late)""",
    ),
    Mutant("edge_triggered_wake", "engine/dispatcher.py", "        await self._dispatch_ready()\n", ""),
    Mutant(
        "lost_park_check",
        "store/verb/park_rest.py",
        """    if row.control.wake_seq > wake_seq:
        return False
    calls = await refresh_waits""",
        "    calls = await refresh_waits",
    ),
    Mutant(
        "missing_fence",
        "store/row.py",
        ' or row.control.fence != claim.fence or row.control.state != "running"',
        "",
    ),
    Mutant(
        "tool_started_before_the_commit",
        "engine/call/executor.py",
        """        after = await self._store.advance(claim, moves)
        for call in after.executing_calls:
            if call.id in jobs:
                run.aborts[call.id] = jobs[call.id].context.abort
                if call.later is not None:
                    run.starting.add(call.id)
                work = self._execute(run, claim, call, jobs[call.id])
                run.tasks[call.id] = self._group.create_task(work)
        return after
""",
        """        for call in snapshot.requested_calls:
            if any(m.call_id == call.id and isinstance(m.state, Running) for m in moves):
                work = self._execute(run, claim, call, jobs[call.id])
                run.tasks[call.id] = self._group.create_task(work)
        return await self._store.advance(claim, moves)
""",
    ),
    Mutant(
        "rerun_of_a_once_call",
        "engine/call/executor.py",
        """if call.effect != "once" and await""",
        "if await",
    ),
    Mutant(
        "late_pending_over_a_result",
        "store/verb/fact.py",
        "    if isinstance(call.state, Settled):\n        if state.later",
        "    if False:\n        if state.later",
    ),
    Mutant(
        "savepoint_neighbour_lost",
        "store/sqlite/group_commit.py",
        """            if not self._connection.in_transaction:
                raise TransactionUndone(str(outcome.error)) from outcome.error
""",
        """            if not self._connection.in_transaction:
                self._connection.execute("BEGIN IMMEDIATE")
                self._connection.execute("SAVEPOINT members")
                done.append((outcome, tx))
                continue
""",
    ),
    Mutant(
        "abort_undone_by_recovery",
        "domain/session_state.py",
        'return replace(self, state="running", owner=owner, fence=self.fence + 1, claims=claims)',
        'return replace(self, state="running", owner=owner, fence=self.fence + 1, claims=claims,'
        " cancel_rev=0)",
    ),
    Mutant(
        "doubled_promotion",
        "store/sqlite/sql/input.sql",
        "SET state = 'promoted', turn = ?, rev = ?",
        "SET turn = ?, rev = ?",
    ),
    Mutant(
        "pending_never_marked_as_shown",
        "store/verb/compact.py",
        "await put_call(tx, replace(call, shown_pending=True))",
        "await put_call(tx, call)",
    ),
    Mutant(
        "late_result_kept_from_the_model",
        "store/verb/settle.py",
        "await put_in_inbox(tx, _late_result(tx, row.info, done, wakes=True))",
        "assert put_in_inbox, 'and not called'",
    ),
    Mutant(
        "second_result_accepted",
        "store/verb/settle.py",
        """    if isinstance(call.state, Settled):
        if not _is_same_result(call.state.result, fact.result):
            raise AlreadySettled(call.id, result_excerpt(call.state.result))
        return call
    _check_open(call)
""",
        """    if isinstance(call.state, Settled) and not call.id:
        raise AlreadySettled(call.id, result_excerpt(call.state.result))
""",
    ),
    Mutant(
        "settled_without_a_wake",
        "store/verb/settle.py",
        "control = row.control.after_wake().after_progress()",
        "control = row.control.after_progress()",
    ),
    Mutant("cut_off_step_shown_to_the_model", "store/verb/claim.py", "hidden=True", "hidden=False"),
    Mutant(
        "living_owner_robbed",
        "store/verb/claim.py",
        '(control.state == "running" and control.owner == dead)',
        'control.state == "running"',
    ),
    Mutant(
        "lost_request_charged_to_nobody",
        "store/verb/claim.py",
        "        info = add_usage(info, spent, 0.0)\n",
        "",
    ),
    Mutant(
        "abort_lets_unread_input_run",
        "store/verb/cancel.py",
        '    held_back = await tx.all("hold_inputs", rev, session_id)\n',
        "    held_back = ()\n",
    ),
    Mutant(
        "feed_forgets_parts",
        "store/sqlite/sql/message.sql",
        "body = excluded.body, version = excluded.version, rev = excluded.rev\nWHERE part",
        "body = excluded.body, version = excluded.version\nWHERE part",
    ),
    Mutant(
        "retried_before_it_is_due",
        "engine/decide.py",
        "due = session.backoff.next_at <= session.now",
        "due = True",
    ),
    Mutant(
        "retries_not_counted", "store/verb/step.py", "again = _Try(backoff.attempt + 1,", "again = _Try(1,"
    ),
    Mutant(
        "nobody_wakes_for_a_retry",
        "store/verb/expire.py",
        "            await save_session(tx, row, row.control.after_wake())\n    return len(rows)",
        "            await save_session(tx, row, row.control)\n    return 0",
    ),
    Mutant(
        "an_ask_that_nobody_waits_for",
        "engine/workplace/permission.py",
        """if action == "ask" and not""",
        """if action == "ask" and call.repeats and not""",
    ),
    Mutant(
        "arguments_of_the_model_run_though_others_were_approved",
        "store/verb/answer.py",
        "granted, input=edited, written=",
        "granted, input=edited | call.input, written=",
    ),
    Mutant(
        "one_step_too_many",
        "engine/step/step.py",
        "started.number >= brief.steps",
        "started.number > brief.steps",
    ),
    Mutant(
        "a_summary_is_forgotten_with_its_run",
        "store/verb/read.py",
        "    return ModelHistory(entries, shown, since, await _summary_head(tx, control))",
        "    return ModelHistory(entries, shown, since)",
    ),
    Mutant(
        "nobody_goes_on_after_a_summary",
        "store/verb/summary.py",
        "    if auto or _was_working(newest):\n",
        "    if auto and not auto and newest:\n",
    ),
    Mutant(
        "reminded_again_after_a_crash",
        "store/verb/remind.py",
        "        return control  # the step before",
        "        asked_by = newest  # the step before",
    ),
    *ANSWER_MUTANTS,
    *FAULT_MUTANTS,
    *TREE_MUTANTS,
    *PARK_MUTANTS,
    *SHELL_MUTANTS,
    *TALK_MUTANTS,
    *UNDO_MUTANTS,
    *EXTERNAL_MUTANTS,
)
