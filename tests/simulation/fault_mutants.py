"""Verbs that raise what no code expects: the simulation must see each, though other work goes on."""

from tests.simulation.mutant import Mutant


def raises(verb: str, file: str, before: str, *, error: str = "NameError") -> Mutant:
    """Build a mutant that raises in front of the line `before`, which stands in `file` once."""
    indent = before[: len(before) - len(before.lstrip())]
    return Mutant(
        f"{verb}_raises", f"store/verb/{file}.py", before, f'{indent}raise {error}("mutant")\n{before}'
    )


FAULT_MUTANTS = (
    raises("park", "park_rest", "    outside = waits_outside(row.control, calls)\n"),
    raises("rest", "park_rest", '    if reason == "aborted":\n'),
    raises(
        "claim",
        "claim",
        "    row = await save_session(tx, row, row.control.after_claim(owner, counts=counts), info)\n",
        error="AssertionError",
    ),
    raises("claim_of_a_dead_run", "claim", "        info = await _close_interrupted_steps(tx, info)\n"),
    raises(
        "release",
        "claim",
        "    await _release(tx, await claimed_session(tx, claim))\n",
        error="AssertionError",
    ),
    raises(
        "start_step", "step", "    before = await end_backoff(tx, row.control, reuse=not inbox.has_items)\n"
    ),
    raises("finish_step", "step", "    control = replace(control, steps=control.steps + 1)\n"),
    raises("advance", "step", "    for move in moves:\n", error="AssertionError"),
    raises("settle", "settle", "    call = await require_call(tx, fact.call_id)\n"),
    raises(
        "settle_open",
        "settle",
        "    done = call.with_state(Settled(result, tx.now, expired))\n",
        error="AssertionError",
    ),
    raises("expire", "expire", '    rows = await tx.all("due_calls", tx.now, limit)\n'),
    raises(
        "wake_of_a_retry", "expire", "            await save_session(tx, row, row.control.after_wake())\n"
    ),
    raises("deliver", "delivery", '            row = await tx.one("parcel", delivery_id)\n'),
    raises("end_of_a_delivery", "delivery", "    match verdict:\n", error="AssertionError"),
    raises("spawn", "spawn", "    info = with_agent_and_model(fact.info, fact.first.message)\n"),
    raises("end_of_a_task", "task_end", "    await put_task(tx, done)\n    try:\n"),
    raises("make_room", "queue", "        tx.wake(next_id)\n", error="AssertionError"),
)
