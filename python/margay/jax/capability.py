"""Chooses the compute capability that JAX's plugin for CUDA 13 needs.

The images in the wheels of the plugin for CUDA 12 hold PTX for older architectures. Those of the plugin for CUDA 13 hold
machine code, and PTX for compute capability 12.0 only, so the driver must report 12.0 to get the PTX.
"""

import os

VARIABLE = "MARGAY_COMPUTE_CAPABILITY"
NEEDED = "12.0"


def choose():
    """Makes the driver report compute capability 12.0, if JAX uses its plugin for CUDA 13 and the user has not chosen a
    capability. The driver reads the variable when the first call initialises it."""
    if not os.environ.get(VARIABLE) and _is_installed("jax-cuda13-plugin") and not _is_installed("jax-cuda12-plugin"):
        os.environ[VARIABLE] = NEEDED


def _is_installed(package):
    from importlib import metadata

    try:
        metadata.distribution(package)
    except metadata.PackageNotFoundError:
        return False
    return True
