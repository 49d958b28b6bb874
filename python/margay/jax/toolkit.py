"""Makes XLA find Margay's ``ptxas``.

XLA starts ``bin/ptxas`` of the folder that JAX takes for the CUDA toolkit (``jax._src.lib.cuda_path``), and reads
NVIDIA's device library from ``nvvm`` in the same folder. Margay gives JAX a folder of links to the files of the original
toolkit, in which ``bin/ptxas`` is Margay's.

``bin/nvlink`` is omitted, because NVIDIA's linker accepts only machine code.
"""

import hashlib
import os
import shutil

from . import note, replace

STAND_IN = b"--stand-in-for=ptxas"
OMITTED = ("ptxas", "nvlink")


def assembler():
    """Returns the path of Margay's ``ptxas``, or None if there is none."""
    folder = os.path.abspath(__file__)
    for _ in range(4):
        folder = os.path.dirname(folder)
    places = [os.path.join(folder, "bin", "ptxas"), os.environ.get("TRITON_PTXAS_PATH"), shutil.which("ptxas")]
    for place in places:
        if place and _is_stand_in(place):
            return place
    return None


def _is_stand_in(path):
    try:
        with open(path, "rb") as file:
            start = file.read(8192)
    except OSError:
        return False
    return start.startswith(b"#!") and STAND_IN in start


def install(assembler):
    """Makes JAX use a toolkit folder with ``assembler``."""
    from jax._src import lib

    original = getattr(lib, "cuda_path", None)
    try:
        folder = mirror(original, assembler)
    except OSError as error:
        note(f"kernels will not load, because the folder for Margay's ptxas cannot be written: {error}")
        return
    replace("jax._src.lib", "cuda_path", folder)


def mirror(original, assembler):
    """Returns a folder with links to the files of the toolkit ``original`` (None: no toolkit) and to ``assembler``. The
    folder is beside the folder of ``assembler``, which belongs to the user alone."""
    key = hashlib.sha256(repr((original, assembler)).encode()).hexdigest()[:16]
    folder = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(assembler))), "jax", key)
    tools = os.path.join(folder, "bin")
    os.makedirs(tools, mode=0o700, exist_ok=True)
    _link(assembler, os.path.join(tools, "ptxas"))
    if original and os.path.isdir(original):
        for name in sorted(os.listdir(original)):
            if name != "bin":
                _link(os.path.join(original, name), os.path.join(folder, name))
        own = os.path.join(original, "bin")
        for name in sorted(os.listdir(own)) if os.path.isdir(own) else ():
            if name not in OMITTED:
                _link(os.path.join(own, name), os.path.join(tools, name))
    return folder


def _link(target, path):
    try:
        os.symlink(target, path)
    except FileExistsError:
        pass
