"""Bugs in how blocking callers are answered, put in on purpose: worlds must find each of them."""

from tests.simulation.mutant import Mutant

ANSWER_MUTANTS = (
    Mutant(
        "last_reply_answers_everyone",
        "domain/session_state.py",
        '    return step.error is None and step.finish not in (None, "tool-calls")\n',
        "    return False\n",
    ),
    Mutant(
        "caller_held_though_the_task_waits",
        "store/verb/child_wait.py",
        "    return calls + [call for call in waits if _watches(call, control.id)]\n",
        "    return calls + waits[:0]\n",
    ),
    Mutant(
        "caller_never_let_go_by_a_task",
        "store/verb/child_wait.py",
        "        await save_session(tx, row, row.control.after_wake() if waits else row.control)\n",
        "        await save_session(tx, row, row.control)\n",
    ),
    Mutant(
        "task_that_waited_before_holds_a_caller",
        "store/verb/child_wait.py",
        "    if waits != state.child_waits:\n",
        "    if not waits and state.child_waits:\n",
    ),
)
