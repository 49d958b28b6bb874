"""A pytest plugin with what numba-cuda's tests take from files that its wheel does not hold."""

import sys

import pytest


@pytest.fixture(scope="class")
def initialize_from_pytest_config(request):
    """Whether a failed FileCheck leaves a reproducer."""
    request.cls._dump_failed_filechecks = False


def pytest_collection_modifyitems(items):
    """Gives test modules the names under which other processes can import them, for what is pickled there."""
    for module in {item.module for item in items if item.module.__name__.startswith("cuda.")}:
        short = module.__name__
        module.__name__ = "numba." + short
        sys.modules[module.__name__] = module
        for value in vars(module).values():
            if getattr(value, "__module__", None) == short:
                try:
                    value.__module__ = module.__name__
                except AttributeError:
                    pass
