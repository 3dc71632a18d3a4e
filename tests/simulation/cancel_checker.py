"""The promises about cancels: nothing goes on that one covers, in its turn or below it."""

from asyncagents.testing.clock import EPOCH_MS
from tests.simulation.forest import Cancel, Forest, fail
from tests.simulation.stage import Stage


def check_cancels(stage: Stage, forest: Forest) -> None:
    _check_cancelled_turns(forest)
    _check_acknowledged(stage, forest)


def _check_cancelled_turns(forest: Forest) -> None:
    """I9: in a turn that was cancelled nothing is launched, and no model is asked."""
    asked = (
        "SELECT session_id, turn, started FROM request WHERE attempt > 0"  # else it waits for its first try
    )
    requests = forest.db.execute(asked).fetchall()
    for cancel in forest.cancels:
        for session_id, turn, started in requests:
            began = forest.turns.get((session_id, turn))
            covered = session_id == cancel.session_id and began is not None and began < cancel.rev
            if covered and started > cancel.at:
                fail("I9", f"a model was asked for turn {turn} of {session_id} after it was cancelled")
    for task in forest.tasks.values():
        row = forest.db.execute("SELECT turn FROM message WHERE id = ?", (task.message_id,)).fetchone()
        began = forest.turns.get((task.parent_id, row[0])) if row else None
        born = forest.first.get(task.id)
        for cancel in forest.cancels:
            if began and born and cancel.session_id == task.parent_id and began < cancel.rev < born:
                fail("I9", f"{task.id} was launched in a turn of {task.parent_id} that was cancelled")


def _check_acknowledged(stage: Stage, forest: Forest) -> None:
    """I9: an acknowledged cancel covers all below: tasks have ended, nothing works on."""
    for ended in stage.ended:
        asked, acknowledged = ended.asked + EPOCH_MS, ended.acknowledged + EPOCH_MS
        own = [
            c for c in forest.cancels if c.session_id == ended.session_id and asked <= c.at <= acknowledged
        ]
        if not own:
            continue  # it has been deleted since
        tree = forest.below(ended.session_id)
        _check_ended(forest, own[0], tree)
        _check_stopped(stage, forest, own[0], tree, acknowledged=acknowledged)


def _check_ended(forest: Forest, cancel: Cancel, tree: set[str]) -> None:
    for task in forest.tasks.values():
        if task.id not in tree or task.id not in forest.first:
            continue
        if forest.first[task.id] < cancel.rev < forest.ends[task.id, 0]:
            fail("I9", f"{task.id} went on though {cancel.session_id} above it was cancelled")
        if task.began < cancel.at < (task.ended or 0):
            fail("I9", f"run {task.run} of {task.id} outlived the cancel of {cancel.session_id}")


def _ms(at: float) -> int:
    """As the clock of the loop has it: without float dust."""
    return EPOCH_MS + int(at * 1000 + 0.001)


def _check_stopped(
    stage: Stage, forest: Forest, cancel: Cancel, tree: set[str], *, acknowledged: int
) -> None:
    for ask in stage.asks:
        at = _ms(ask.at)
        if ask.process in stage.suspects or ask.session_id not in tree or at <= acknowledged:
            continue
        query = (
            "SELECT turn FROM request WHERE session_id = ? AND started <= ? ORDER BY started DESC, id DESC"
        )
        row = forest.db.execute(query, (ask.session_id, at)).fetchone()
        began = forest.turns.get((ask.session_id, row[0])) if row else None
        if began is not None and began < cancel.rev:
            fail("I9", f"a model was asked for {ask.session_id} after the cancel of {cancel.session_id}")
    for effect in stage.effects:
        call = forest.calls.get(effect.call_id)
        if call is None or effect.process in stage.suspects or call.session_id not in tree:
            continue
        began = forest.turns.get((call.session_id, call.turn))
        late = _ms(effect.at) > acknowledged
        if began is not None and began < cancel.rev and late:
            fail("I9", f"{call.tool} of {call.session_id} ran after the cancel of {cancel.session_id}")
