"""Bugs in the work with external agents."""

from tests.simulation.mutant import Mutant

EXTERNAL_MUTANTS = (
    Mutant(
        "prompt_sent_again_whatever_the_replay_shows",
        "remote/acp/opening.py",
        "                if not replay.shows_work_on(",
        "                if last or not replay.shows_work_on(",
    ),
    Mutant(
        "prompt_sent_without_a_mark",
        "engine/external/stream.py",
        "                await self._store.external.save_session(outlet.run.claim, session)\n",
        "                unmarked = type(session)(\n"
        "                    session_id=session.session_id, external_id=session.external_id,\n"
        "                    agent=session.agent, command=session.command,\n"
        "                    newest_input=session.newest_input, prompts=session.prompts)\n"
        "                await self._store.external.save_session(outlet.run.claim, unmarked)\n",
    ),
    Mutant(
        "mark_left_by_a_cancel",
        "store/verb/park_rest.py",
        "    await end_external_prompt(tx, row.control.id)\n",
        "    if failure != aborted_error():\n        await end_external_prompt(tx, row.control.id)\n",
    ),
    Mutant(
        "replay_shown",
        "remote/acp/client.py",
        "                self._replay.add(notification.update)\n            elif self._live:\n",
        "                self._replay.add(notification.update)\n            if self._live or self._replay:\n",
    ),
    Mutant(
        "answer_given_twice",
        "engine/external/calls.py",
        "await self._store.external.take_answer(self._step.claim, call.id)\n",
        "await self._store.call(call.id)\n",
    ),
    Mutant(
        "rejection_read_as_an_allowance",
        "engine/external/calls.py",
        """            await self._respond(call, ask, "reject")\n""",
        """            await self._respond(call, ask, "allow")\n""",
    ),
    Mutant(
        "calls_left_open_by_a_program_that_ends",
        "store/verb/step.py",
        "        await end_observed_calls(tx, info, end.message.id, end.unfinished)\n",
        "        if end.message.error is None:\n"
        "            await end_observed_calls(tx, info, end.message.id, end.unfinished)\n",
    ),
    Mutant(
        "program_kept_after_a_cancel",
        "engine/external/stream.py",
        "            async with aclosing(self._agents.stream(step)) as events:\n"
        "                async for event in events:\n"
        "                    await self._apply(event, outlet, calls)\n",
        "            events = self._agents.stream(step)\n"
        "            self._kept = [*getattr(self, '_kept', ()), events]\n"
        "            if events is not None and aclosing is not None:\n"
        "                async for event in events:\n"
        "                    await self._apply(event, outlet, calls)\n",
    ),
    Mutant(
        "end_of_a_call_not_written",
        "engine/external/calls.py",
        "        if over or began or not recent or known is None:\n",
        "        if not over and (began or not recent or known is None):\n",
    ),
    Mutant(
        "new_session_after_a_crash",
        "remote/acp/opening.py",
        """            return Doubt(f"its session cannot be opened again ({error})")\n""",
        "            return await self._begin(anew=bool(str(error)))\n",
    ),
    Mutant(
        "introduction_lost_with_the_first_prompt",
        "remote/acp/opening.py",
        "        if session.introduced:\n",
        "        if session.introduced or session.prompts:\n",
    ),
    Mutant(
        "lost_program_of_a_prompt_taken_for_a_failure",
        "remote/acp/agents.py",
        "    if step.known is None or step.known.prompt is None:\n",
        "    if step.known is None or step.known.prompt is not None:\n",
    ),
    Mutant(
        "own_always_of_the_program_chosen",
        "remote/acp/client.py",
        """    "allow": ("allow_once",),""",
        """    "allow": ("allow_always", "allow_once"),""",
    ),
)
