"""Bugs of delegation, put in on purpose: worlds of trees must find each of them."""

from tests.simulation.mutant import Mutant

TREE_MUTANTS = (
    Mutant(
        "notice_swallowed",
        "store/verb/task_end.py",
        '    await tx.one("insert_notice", *columns, encode(task_end(done)))\n',
        '    if done.background or state == "quiet":\n'
        '        await tx.one("insert_notice", *columns, encode(task_end(done)))\n',
    ),
    Mutant(
        "notice_without_a_wake",
        "store/verb/task_end.py",
        "        await save_session(tx, parent, parent.control.after_wake())\n",
        "        await save_session(tx, parent, parent.control)\n",
    ),
    Mutant(
        "notice_told_twice",
        "store/sqlite/sql/task.sql",
        "SET state = 'told', open = 0, message_id = ?",
        "SET state = 'told', message_id = ?",
    ),
    Mutant(
        "who_waited_is_told_again",
        "store/verb/task_end.py",
        "        known = await _settle_watching_calls(tx, done, waits) or known\n",
        "        await _settle_watching_calls(tx, done, waits)\n",
    ),
    Mutant(
        "who_has_read_it_is_told_again",
        "store/verb/task.py",
        '    await tx.run("consume_notices", task.id, fact.run)\n',
        "",
    ),
    Mutant(
        "progress_counted_beside_the_rows",
        "store/verb/notice.py",
        "        counted[batch] = BatchCount(*row)\n    return counted\n",
        "        _told[batch] = _told.get(batch, 0) + sum(end.batch == batch for end in ends)\n"
        "        counted[batch] = BatchCount(_told[batch], row[1])\n    return counted\n\n\n"
        "_told: dict[str, int] = {}\n",
    ),
    Mutant(
        "notice_rendered_when_the_task_ends",
        "domain/task/notice.py",
        "    visible = tuple(_visible_text(end, batches[end.batch], notice_format) for end in ends)\n",
        "    visible = tuple(\n"
        "        _visible_text(end, BatchCount(batch.ended - later(end, n), batch.all), notice_format)\n"
        "        for later in (lambda end, n: sum(each.batch == end.batch for each in ends[n + 1 :]),)\n"
        "        for n, end in enumerate(ends)\n"
        "        for batch in (batches[end.batch],)\n"
        "    )\n",
    ),
    Mutant(
        "launched_in_a_cancelled_turn",
        "store/verb/fact.py",
        "    if row.control.is_cancelled() and any(",
        "    if False and any(",
    ),
    Mutant(
        "ended_with_live_tasks_below",
        "store/sqlite/sql/task.sql",
        "    OR EXISTS (SELECT 1 FROM task INDEXED BY task_live WHERE parent_id = ?1 AND live = 1)\n",
        "",
    ),
    Mutant(
        "notice_changes_the_agent",
        "store/verb/notice.py",
        "MessageTarget(control.id, info.agent,",
        "MessageTarget(control.id, ends[0].agent,",
    ),
    Mutant(
        "queue_not_checked_at_the_claim",
        "store/verb/claim.py",
        'row.control.state == "ready" and await is_queued(tx, row.control)',
        'row.control.state == "idle" and await is_queued(tx, row.control)',
    ),
    Mutant(
        "cleared_child_beside_the_limit",
        "store/sqlite/sql/task.sql",
        "COALESCE((SELECT crowd FROM task WHERE id = ?2), (SELECT crowd FROM session WHERE id = ?2))",
        "(SELECT crowd FROM task WHERE id = ?2)",
    ),
    Mutant(
        "limit_forgotten_with_the_task",
        "store/verb/cancel.py",
        '    await tx.run("keep_crowd", task_id)\n',
        "",
    ),
    Mutant(
        "queue_never_gets_on",
        "store/verb/queue.py",
        "    if control.parent_id is None or not await place_in_queue(tx, control):\n",
        "    if control.parent_id is None or not (control.depth > 1 or await place_in_queue(tx, control)):\n",
    ),
    Mutant(
        "follow_up_to_a_running_task_lost",
        "store/verb/task.py",
        "    if not (await admit_input(tx, fact.follow)).new:\n",
        "    if task.live or not (await admit_input(tx, fact.follow)).new:\n",
    ),
    Mutant(
        "cancel_wakes_those_it_cancels",
        "store/verb/cancel.py",
        "notice=notice if each == session_id else QUIET)",
        "notice=notice if each else QUIET)",
    ),
    Mutant(
        "abort_leaves_notices_due",
        "store/verb/cancel.py",
        '    await tx.run("hush_notices", session_id)\n',
        "",
    ),
    Mutant(
        "cancel_forgets_those_below",
        "store/sqlite/sql/session.sql",
        ")\nSELECT id FROM tree ORDER BY depth, id;\n\n-- name: insert_cancel",
        ")\nSELECT id FROM tree WHERE depth < (SELECT MIN(depth) + 2 FROM tree);\n\n-- name: insert_cancel",
    ),
    Mutant(
        "sync_call_never_settled",
        "store/verb/task_end.py",
        "        await settle_open(tx, row, call, await _result(tx, done, call))\n",
        "        assert row, await _result(tx, done, call)\n",
    ),
    Mutant(
        "fork_without_a_past",
        "delegation/launch.py",
        "            history=fork.entries if fork else (),\n",
        "            history=(),\n",
    ),
    Mutant(
        "one_deeper_than_may_be",
        "store/verb/fact.py",
        "row.control.depth >= fact.deepest",
        "row.control.depth > fact.deepest",
    ),
    Mutant(
        "feed_forgets_tasks",
        "store/sqlite/sql/task.sql",
        "  version = excluded.version, rev = excluded.rev\n",
        "  version = excluded.version\n",
    ),
    Mutant(
        "deadline_of_a_task_forgotten",
        "store/verb/read.py",
        '("next_due", "next_backoff", "next_deadline")',
        '("next_due", "next_backoff")',
    ),
    Mutant(
        "next_in_the_queue_not_woken",
        "store/verb/queue.py",
        "        tx.wake(next_id)\n",
        "        pass\n",
    ),
    Mutant(
        "progress_counts_sync_tasks",
        "store/sqlite/sql/task.sql",
        "FROM task INDEXED BY task_batch WHERE batch = ? AND kind = 'background';",
        "FROM task INDEXED BY task_batch WHERE batch = ?;",
    ),
    Mutant(
        "kind_of_a_task_kept_from_its_launch",
        "store/sqlite/sql/task.sql",
        "ended = excluded.ended, kind = excluded.kind,",
        "ended = excluded.ended,",
    ),
)
