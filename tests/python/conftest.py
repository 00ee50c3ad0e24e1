"""Prints the seed of a run, so that it can be repeated, and stops a run that asks for a GPU where none works."""

import os

import pytest
import seed


def pytest_sessionstart():
    # The tests of GPUs skip themselves where there is none; a run that names one must not pass that way.
    if os.environ.get("FACULA_GPU") in ("cuda", "hip"):
        import facula

        if not facula.cuda.is_available():
            pytest.exit(f"FACULA_GPU={os.environ['FACULA_GPU']}, but: {facula.cuda.why_not_available()}", returncode=3)


def pytest_sessionfinish(session, exitstatus):
    # A file that skips itself as a whole, for want of a package, is said to have collected nothing.
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and reporter and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.OK


def pytest_report_header():
    return f"repeat the drawn inputs with {seed.seed_text()}"


def pytest_terminal_summary(terminalreporter, exitstatus):
    if exitstatus:  # quiet runs have no head
        terminalreporter.write_line(f"Repeat with {seed.seed_text()}")
