"""Bugs in what people run themselves."""

from tests.simulation.mutant import Mutant

SHELL_MUTANTS = (
    Mutant(
        "a_command_runs_again_after_a_crash",
        "store/verb/shell.py",
        'effect="once"',
        'effect="none"',
    ),
    Mutant(
        "a_prompt_is_answered_in_the_turn_of_a_command",
        "engine/decide.py",
        "    if session.ended_person_run:\n",
        "    if False:\n",
    ),
    Mutant(
        "a_command_in_a_session_that_is_at_work",
        "store/verb/shell.py",
        "    if await _is_busy(tx, row.control):\n",
        "    if False:\n",
    ),
    Mutant(
        "the_step_of_a_command_is_never_closed",
        "store/verb/park_rest.py",
        "    await save_message(tx, replace(last, time=replace(last.time, completed=tx.now)))\n",
        "",
    ),
    Mutant(
        "a_command_without_its_key",
        "store/verb/shell.py",
        "    if known is not None:\n",
        "    if False:\n",
    ),
)
