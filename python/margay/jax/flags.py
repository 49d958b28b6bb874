"""Adds the options to ``XLA_FLAGS`` that XLA needs on Margay.

XLA ends the process if ``XLA_FLAGS`` contains an option that it does not know, and its options differ between versions.
A child process therefore tries the options once for each version of JAX; the answer is stored in Margay's cache folder.

Options that the user sets stay as they are, except those in ``REQUIRED``, without which no kernel loads. XLA reads the
variable when it compiles or creates a backend for the first time, and the last of several equal options counts.
"""

import hashlib
import json
import os
import shlex
import subprocess
import sys
import tempfile

from . import note

REQUIRED = {
    # XLA contains an assembler that produces machine code, and a linker that accepts only machine code.
    "xla_gpu_enable_libnvptxcompiler": "false",
    "xla_gpu_enable_libnvjitlink": "false",
}

PRODUCTS = "xla_gpu_enable_triton_gemm"

PREFERRED = {
    # XLA compiles up to some hundred versions of a matrix product and measures them for a GPU that is not there.
    "xla_gpu_autotune_level": "0",
    # XLA's Triton kernels for matrix products take some 500 times as long as Margay's cuBLAS.
    PRODUCTS: "false",
}

_PROBE = """
from jaxlib import xla_client
xla_client.CompileOptions().executable_build_options.debug_options
print("accepted")
"""


def install():
    """Sets ``XLA_FLAGS`` for this process and its children."""
    known = accepted()
    for name in REQUIRED:
        if name not in known:
            note(f"this version of XLA has no option --{name}, so kernels may arrive as machine code, which Margay cannot run")
    if os.environ.get("MARGAY_CUBLAS") == "nvidia":
        known = [name for name in known if name != PRODUCTS]
    text, ignored = merged(os.environ.get("XLA_FLAGS", ""), known)
    for name in ignored:
        note(f"--{name} of XLA_FLAGS is ignored, because it makes XLA produce machine code")
    if text:
        os.environ["XLA_FLAGS"] = text


def merged(text, known):
    """Returns the value of ``XLA_FLAGS`` that consists of the user's value ``text`` and of Margay's options as far as
    they are in ``known``, and the names of the user's options that it overrides."""
    # A value that does not begin with a dash is the name of a file with options.
    if text.strip() and not text.lstrip().startswith("-"):
        try:
            with open(text.strip(), encoding="utf-8") as file:
                text = file.read()
        except OSError:
            return text, []
    given = _options(text)
    parts = [text] if text.strip() else []
    ignored = []
    for name, value in REQUIRED.items():
        if name not in known:
            continue
        if given.get(name) not in (None, "false", "False", "0"):
            ignored.append(name)
        if given.get(name) != value:
            parts.append(f"--{name}={value}")
    parts += [f"--{name}={value}" for name, value in PREFERRED.items() if name in known and name not in given]
    return " ".join(parts), ignored


def _options(text):
    """Returns the names and values of the options in ``text``."""
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    found = {}
    for word in words:
        name, has_value, value = word.lstrip("-").partition("=")
        found[name] = value if has_value else "true"
    return found


def accepted():
    """Returns the names of those of Margay's options that the installed XLA accepts."""
    names = [*REQUIRED, *PREFERRED]
    path = _cache(names)
    try:
        with open(path, encoding="utf-8") as file:
            stored = json.load(file)
        if isinstance(stored, list) and all(name in names for name in stored):
            return stored
    except (OSError, TypeError, ValueError):
        pass
    found = _probe(names)
    if found is None:
        # Without an answer, an unknown option would end the process.
        note("the options of XLA could not be tried in a child process, so kernels may arrive as machine code")
        return []
    _store(path, found)
    return found


def _probe(names):
    """Returns the names that XLA accepts, or None if the child process does not work."""
    every = {**REQUIRED, **PREFERRED}
    if _try([f"--{name}={every[name]}" for name in names]):
        return names
    if not _try([]):
        return None
    return [name for name in names if _try([f"--{name}={every[name]}"])]


def _try(options):
    """Returns whether XLA accepts the options."""
    if not sys.executable:
        return False
    environment = dict(os.environ, XLA_FLAGS=" ".join(options), PYTHONPATH=os.pathsep.join(filter(None, sys.path)))
    try:
        ended = subprocess.run([sys.executable, "-c", _PROBE], env=environment, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=120, check=False)
    except (OSError, subprocess.SubprocessError):
        return False
    return ended.returncode == 0 and ended.stdout.split() == [b"accepted"]


def _cache(names):
    """Returns the path of the file with the stored answer, or None if there is no folder for it."""
    versions = [(package, _version(package)) for package in ("jaxlib", "jax-cuda12-pjrt", "jax-cuda13-pjrt")]
    key = hashlib.sha256(repr((sorted(names), versions)).encode()).hexdigest()[:16]
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "margay", "jax", f"flags-{key}.json") if os.path.isabs(base) else None


def _version(package):
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _store(path, found):
    """Stores the answer. Without a writable folder, the next process asks again."""
    if path is None:
        return
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=os.path.dirname(path), suffix=".part", delete=False) as file:
            json.dump(found, file)
        os.replace(file.name, path)
    except OSError:
        pass
