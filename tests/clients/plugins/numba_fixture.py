"""A pytest plugin with what numba-cuda's tests take from files that its wheel does not hold."""

import pytest


@pytest.fixture(scope="class")
def initialize_from_pytest_config(request):
    """Whether a failed FileCheck leaves a reproducer."""
    request.cls._dump_failed_filechecks = False
