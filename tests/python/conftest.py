"""Prints the seed of a run, so that it can be repeated."""

import seed


def pytest_report_header():
    return f"repeat the drawn inputs with {seed.seed_text()}"


def pytest_terminal_summary(terminalreporter, exitstatus):
    if exitstatus:  # quiet runs have no head
        terminalreporter.write_line(f"Repeat with {seed.seed_text()}")
