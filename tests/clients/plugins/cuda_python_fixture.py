"""Modules that the tests of cuda-core and cuda-bindings take from the repository: the wheels leave them out."""

import sys
from pathlib import Path

import cuda.bindings
import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config):
    root = Path(early_config.rootpath)
    while root.name in ("tests", "cuda_core", "cuda_bindings"):
        root = root.parent
    cuda.bindings.__path__.append(str(root / "cuda_bindings/cuda/bindings"))
    sys.path.append(str(root / "cuda_python_test_helpers"))
