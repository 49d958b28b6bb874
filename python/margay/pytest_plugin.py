"""A plugin for pytest: ``pytest --margay-check`` fails each test during which a kernel or call has an error.

The plugin turns the checks of Margay's driver library on and reads the findings after each phase of a test (setup,
call, teardown). It works under ``margay run`` and ``margay check``; otherwise it starts pytest again under ``margay run``.
With pytest-xdist, each worker reads its own findings and those of its child processes.
"""

import os
import re
import shutil
import sys
import tempfile

import pytest

from margay import _program
from margay._log import Log

TOOLS = "memcheck,initcheck,racecheck,synccheck,apicheck"
"""The default tools. Leaks are found when a process ends, so they belong to no test."""

RAISED = ["failed-call"]
"""Kinds of findings that fail no test, because Python clients raise an exception, which the test may expect."""

SETTLE_MILLISECONDS = 60_000
"""The maximum time for which the plugin waits, after a phase of a test, for the kernels that the test has launched."""


def pytest_addoption(parser):
    group = parser.getgroup("margay", "checks of CUDA code by Margay")
    group.addoption(
        "--margay-check",
        action="store_true",
        help="Fail tests during which a kernel or a call of CUDA does something wrong.",
    )
    group.addoption(
        "--margay-tools",
        metavar="LIST",
        help="Tools for --margay-check, with commas between them, or all [default: %s]." % TOOLS,
    )
    group.addoption(
        "--margay-check-level",
        choices=["info", "warning", "error"],
        default="error",
        help="Lowest severity that fails a test [default: error].",
    )


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config):
    # This runs before the output is captured and before the program's code can initialise the driver.
    if early_config.known_args_namespace.margay_check:
        _begin(early_config)
    yield


def _begin(config):
    if _program.library() is None:
        _start_again(config)
    if "MARGAY_CHECK_LOG" not in os.environ:
        # Workers of pytest-xdist inherit the variable, so only the first process creates and removes the folder.
        folder = tempfile.mkdtemp(prefix="margay-")
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
        os.environ["MARGAY_CHECK_LOG"] = os.path.join(folder, "log")
    tools = config.known_args_namespace.margay_tools
    if tools:
        os.environ["MARGAY_CHECK"] = tools
    else:
        # Under `margay check`, the variable already contains the tools that its option selects.
        os.environ.setdefault("MARGAY_CHECK", TOOLS)
    os.environ["MARGAY_CHECK_LABEL"] = "pytest-%d" % os.getpid()


def _start_again(config):
    arguments = config.invocation_params.args
    is_command = os.path.basename(sys.argv[0]) in ("pytest", "py.test", "__main__.py")
    if is_command and "MARGAY_PYTEST" not in os.environ:
        os.environ["MARGAY_PYTEST"] = "1"
        sys.stdout.flush()
        _program.restart(map(str, arguments))
    raise pytest.UsageError("--margay-check needs Margay's driver library: run `margay run -- pytest ...`")


def pytest_configure(config):
    config.addinivalue_line("markers", "margay_allow: findings of --margay-check do not fail this test")
    if config.getoption("margay_check"):
        if "MARGAY_CHECK_LABEL" not in os.environ:
            raise pytest.UsageError("--margay-check must be on the command line or in addopts")
        config.pluginmanager.register(Checks(config), "margay-checks")


class Checks:
    """Fails each phase of a test during which the checks report findings."""

    def __init__(self, config):
        self.level = config.getoption("margay_check_level")
        self.log = Log(os.environ["MARGAY_CHECK_LOG"], os.environ["MARGAY_CHECK_LABEL"])
        self.library = _program.library()

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item):
        outcome = yield
        self._examine(item, "setup", outcome)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item):
        outcome = yield
        self._examine(item, "call", outcome)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item):
        outcome = yield
        self._examine(item, "teardown", outcome)

    def _examine(self, item, when, outcome):
        """Fails a phase of a test if there are findings. If the phase has already failed, adds them to its report."""
        if self.library.margay_settle(SETTLE_MILLISECONDS) == _program.UNCHECKED:
            pytest.exit("--margay-check: the driver was initialised before pytest has read its options", 4)
        findings = [found for found in self.log.new(self.level) if found.get("kind") not in RAISED]
        if not findings or item.get_closest_marker("margay_allow"):
            return
        text = _program.report(list(map(_without_pytest, findings)))
        if outcome.excinfo is None:
            outcome.force_exception(_failure(text))
        else:
            item.add_report_section(when, "margay check", text)


def _without_pytest(finding):
    """Returns a finding without the frames of pytest, which called the test."""
    frames = finding.get("host") or []
    is_pytest = [re.search(r"/(_pytest|pluggy)/", frame.get("file") or "") is not None for frame in frames]
    end = is_pytest.index(True) if True in is_pytest else len(frames)
    return dict(finding, host=frames[:end] or frames)


def _failure(text):
    try:
        pytest.fail(text, pytrace=False)
    except pytest.fail.Exception as failure:
        return failure
