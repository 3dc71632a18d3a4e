"""Bugs in copies of conversations, and in what is taken out of them."""

from tests.simulation.mutant import Mutant

TALK_MUTANTS = (
    Mutant(
        "a_copy_without_its_key",
        "store/verb/session.py",
        '    row = await tx.one("session_by_key", key)\n',
        '    row = await tx.one("session_by_key", f"{key} of another")\n',
    ),
    Mutant(
        "a_copied_call_goes_on",
        "domain/conversation/copy.py",
        "                    yield replace(part, state=self._close_state(part.state, message_id))\n",
        "                    yield part\n",
    ),
    Mutant(
        "nobody_hears_that_a_message_is_gone",
        "store/verb/drop_undone.py",
        '    await tx.one("insert_tombstone", rev, "message", message_id, encode(gone))\n',
        "",
    ),
    Mutant(
        "a_message_leaves_its_parts_behind",
        "store/verb/drop_undone.py",
        '    await tx.run("undo_parts", message_id, "")\n',
        "",
    ),
)
