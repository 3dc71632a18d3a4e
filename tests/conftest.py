"""What the tests did that a count of dots does not show."""

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    counts: dict[str, int] = {}
    for report in terminalreporter.stats.get("passed", []):
        for name, value in getattr(report, "user_properties", ()):
            counts[name] = counts.get(name, 0) + int(value)
    for name, value in sorted(counts.items()):
        terminalreporter.write_line(f"{name}: {value}")
