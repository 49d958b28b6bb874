"""A pytest plugin: tests from tinygrad's repository meet the installed tinygrad, not the one that lies beside them."""

import pathlib
import sys

import tinygrad

INSTALLED = str(pathlib.Path(tinygrad.__file__).parent.parent)


def pytest_runtest_call():
    """Puts the installed packages first, also for the processes that compile."""
    if sys.path[0] != INSTALLED:
        sys.path.insert(0, INSTALLED)
