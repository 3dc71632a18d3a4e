"""A conversation that grows too long for its model, as a person at a terminal or a script sees it."""

from pathlib import Path

import pytest

from asyncagents.engine.workplace.agents import prompt_text
from asyncagents.testing.provider import Reply, TokenUsage, ToolUse
from tests.support.process.command_line import CTRL_C, open_desk, open_terminal

FULL = TokenUsage(input=7300, output=300)
"""The desk's model has room for 7,400 tokens."""
SUMMARY = Reply(text="Goal: be answered.", usage=TokenUsage(input=1000, output=50))
GO_ON = prompt_text("compaction-go-on")
COST = (1000 * 3 + 50 * 15) / 1_000_000


@pytest.mark.spec("S-10", "X-06")
async def test_a_summary_is_reported_on_stderr_and_not_among_the_answers(tmp_path: Path) -> None:
    work = [Reply(text="Looking.", tools=(ToolUse("list", {}),), usage=FULL)]
    async with open_desk(tmp_path, {"work": work}, otherwise=SUMMARY) as (desk, _):
        ran = await desk.run("run", "work")
        shown = await desk.run("show")

    assert (ran.code, ran.out) == (0, "Looking.\nGoal: be answered.\n")  # of the second only the answer
    assert "summarising the conversation\nthe conversation was summarised, 1.1k tokens, $0.0037\n" in ran.err
    speakers = [line.split(", ")[0] for line in shown.out.splitlines()[3:] if line and line[0] != " "]
    assert speakers == ["you", "build (local/m)", "asyncagents", "summary (local/m)", "asyncagents",
                        "build (local/m)"]  # fmt: skip


@pytest.mark.spec("S-10", "X-06", "C-07")
async def test_the_cost_of_a_turn_includes_its_summary(tmp_path: Path) -> None:
    script = {"one": [Reply(usage=FULL)], GO_ON: [Reply(text="2", usage=TokenUsage(input=100, output=10))]}
    async with open_desk(tmp_path, script, otherwise=SUMMARY) as (desk, _):
        first = await desk.run("run", "one", "--json")
        second = await desk.run("run", "-c", "two", "--json", "--key", "k")
        again = await desk.run("run", "-c", "two", "--json", "--key", "k")
        (session,) = (await desk.run("sessions", "--json")).json

    assert second.code == 0
    assert second.json["text"] == "2"
    assert second.json["summaries"] == 1
    assert second.json["cost"] == pytest.approx(COST + (100 * 3 + 10 * 15) / 1_000_000)
    assert second.json["tokens"]["input"] == 1100
    assert again.json == second.json
    assert first.json["summaries"] == 0
    assert session["cost"] == pytest.approx(first.json["cost"] + second.json["cost"])


@pytest.mark.spec("S-10", "X-06")
async def test_compact_prints_the_summary_and_continue_the_last_answer(tmp_path: Path) -> None:
    async with open_desk(tmp_path, {"one": [Reply(text="First.")]}, otherwise=SUMMARY) as (desk, provider):
        await desk.run("run", "one")
        asked = await desk.run("run", "-c", "/compact mind the tests")
        shown = await desk.run("show")
        nothing = await desk.run("run", "-c")

    assert asked.code == 0
    assert asked.out == "Goal: be answered.\n"
    assert "mind the tests" in provider.requests[-1].body["messages"][-1]["content"]
    assert "\n  /compact\n  mind the tests\n" in shown.out
    assert nothing.code == 0
    assert nothing.out == "First.\n"


@pytest.mark.spec("S-10", "X-06")
async def test_ctrl_c_cancels_a_summary_and_the_next_prompt_makes_it_anew(tmp_path: Path) -> None:
    told = "User: one\n\nAssistant: ok\n\nUser: two"
    script = {"one": [Reply(usage=FULL)], told: [Reply(hang_at=0)], GO_ON: [Reply(text="3")]}
    async with open_desk(tmp_path, script, otherwise=SUMMARY) as (desk, provider):
        await desk.run("run", "one")
        async with open_terminal(desk, "run", "-c", "two") as terminal:
            await terminal.until("summarising the conversation")
            await provider.wait_requests(2)
            terminal.press(CTRL_C)
            code = await terminal.end()
        ran = await desk.run("run", "-c", "three", "--json")

    assert code == 5
    assert "was summarised" not in terminal.text
    assert ran.code == 0
    assert ran.json["text"] == "3"
    assert ran.json["summaries"] == 1
