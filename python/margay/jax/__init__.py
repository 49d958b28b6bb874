"""JAX on Margay: XLA's kernels for ``platform="cuda"`` reach Margay as PTX.

JAX finds the package through the entry point group ``jax_plugins`` and calls :func:`initialize` before it creates its
backends. The function does the following, if the process uses Margay's driver library and the program does not exclude
CUDA (``JAX_PLATFORMS=cpu``):

- It makes JAX create its CUDA backend although the machine has no device files of NVIDIA's driver.
- It adds options to ``XLA_FLAGS`` with which XLA assembles kernels by the program ``ptxas`` (``flags``), and makes
  Margay's ``ptxas``, which returns PTX, the one that XLA finds (``toolkit``).
- It computes convolutions by matrix products instead of cuDNN (``convolution``).
- It warns if JAX uses its CPU backend although the program runs on Margay (``fallback``).

JAX has no public interface for these changes. If a part of JAX is not as expected, the function names it in a warning
and continues.
"""

import sys

_started = False


def note(text):
    """Prints a message of Margay about JAX."""
    print(f"margay: JAX: {text}", file=sys.stderr, flush=True)


def replace(module, name, value):
    """Sets the attribute ``name`` of the module named ``module`` to ``value``. Without such a module or attribute,
    prints a warning and returns False."""
    import importlib

    try:
        owner = importlib.import_module(module)
        getattr(owner, name)
    except (ImportError, AttributeError):
        note(f"this version of JAX has no {module}.{name}, which Margay replaces; "
             "JAX may use its CPU backend or fail to load kernels")
        return False
    setattr(owner, name, value)
    return True


def wants_cuda(platforms):
    """Returns whether ``platforms``, the value of ``JAX_PLATFORMS``, permits the CUDA backend."""
    names = [name.strip() for name in (platforms or "").split(",") if name.strip()]
    return not names or "cuda" in names or "gpu" in names


def initialize():
    """Prepares JAX for Margay. JAX calls this function when it looks for its plugins; with any other driver library, or
    with none, it does nothing."""
    global _started
    from .._program import library

    if _started or library() is None:
        return
    import jax

    if not wants_cuda(getattr(jax.config, "jax_platforms", None)):
        return
    _started = True
    from . import convolution, fallback, flags, toolkit

    replace("jax._src.hardware_utils", "has_visible_nvidia_gpu", lambda: True)
    fallback.watch()
    assembler = toolkit.assembler()
    if assembler is None:
        note("kernels will not load, because Margay's ptxas is not found; start the program with `margay run`")
        return
    toolkit.install(assembler)
    flags.install()
    convolution.install()
