"""Tells why JAX uses its CPU backend although the program runs on Margay.

JAX calls ``_suggest_missing_backends`` once, after it has created its backends, unless the user has chosen the
platforms. Without a message, a program that finds no CUDA backend runs on JAX's own CPU code and seems to work.
"""

from . import note


def watch():
    """Checks JAX's backends after JAX has created them."""
    from jax._src import xla_bridge

    original = getattr(xla_bridge, "_suggest_missing_backends", None)
    if original is None:
        return

    def check():
        reason = missing(xla_bridge)
        if reason is None:
            original()
        else:
            note(reason)

    xla_bridge._suggest_missing_backends = check


def missing(xla_bridge):
    """Returns the message if there is no CUDA backend, else None."""
    if "cuda" in getattr(xla_bridge, "_backends", ()):
        return None
    errors = getattr(xla_bridge, "_backend_errors", {})
    if "cuda" in errors:
        return f"uses its CPU backend, because its CUDA backend did not start: {errors['cuda']}"
    if "cuda" in getattr(xla_bridge, "_backend_factories", ()):
        return "uses its CPU backend, because its CUDA backend did not start"
    if _has_plugin():
        return "uses its CPU backend, because its CUDA plugin failed to load (JAX has logged the error)"
    return ("uses its CPU backend, because this environment has no CUDA plugin of JAX; "
            'install it with `pip install "jax[cuda12]"` or `pip install "jax[cuda13]"`')


def _has_plugin():
    from importlib.util import find_spec

    for name in ("jax_plugins.xla_cuda12", "jax_plugins.xla_cuda13"):
        try:
            if find_spec(name) is not None:
                return True
        except (ImportError, ValueError):
            pass
    return False
