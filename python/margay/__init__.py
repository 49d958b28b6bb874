"""Margay runs CUDA programs on CPUs. This package contains its plugin for pytest (``margay.pytest_plugin``)."""
