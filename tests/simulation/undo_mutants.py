"""Bugs in undo."""

from tests.simulation.mutant import Mutant

UNDO_MUTANTS = (
    Mutant(
        "a_call_that_is_undone_waits_on",
        "store/verb/revert.py",
        "        if later and point.cuts(call.message_id, call.part_id):\n",
        "        if later and not call:\n",
    ),
    Mutant(
        "a_history_that_is_read_before_it_is_cleared",
        "engine/call/file_changes.py",
        "                await self._store.reverts.drop_undone(claim)\n",
        "                pass\n",
    ),
    Mutant(
        "an_undo_without_its_files",
        "engine/call/undo.py",
        """await snapshots.restore_files(
            [FileToRestore(file, to, now) for file, to in _files_to_restore(undoing).items()]
        )""",
        "() if now else ()",
    ),
    Mutant(
        "messages_that_go_without_a_trace",
        "store/verb/drop_undone.py",
        '    await tx.one("insert_tombstone", rev, "message", message_id, encode(gone))\n',
        "",
    ),
)
