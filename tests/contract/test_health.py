"""A write that is tried leaves nothing behind, and fails where requests would."""

from tests.support.store.lab import Lab


async def test_a_trial_write_leaves_nothing_behind(lab: Lab) -> None:
    await lab.claim_prompted()
    before = await lab.read_everything()
    lab.commits.clear()
    for _ in range(3):
        await lab.store.health.try_write()
    assert await lab.read_everything() == before
    assert lab.events == []
    assert lab.woken == []
    left = await lab.database.read(lambda tx: tx.one("idempotency", "", "try", "1"))
    assert left is None
