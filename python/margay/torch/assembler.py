"""The version of the assembler ``ptxas`` that old versions of Triton accept.

The Triton of PyTorch 2.5 and 2.6 refuses assemblers of CUDA versions that it does not know, so it gets a program that
reports a version that it knows, and is Margay's replacement for ``ptxas`` otherwise.
"""

import atexit
import os
import shlex
import shutil
import tempfile

import torch

VARIABLE = "TRITON_PTXAS_PATH"
NEW = (2, 7)
"""The first version of PyTorch whose Triton accepts the version that Margay's replacement reports."""

PROGRAM = """#!/bin/sh
for argument in "$@"; do
    if [ "$argument" = --version ]; then
        echo "ptxas: NVIDIA (R) Ptx optimizing assembler"
        echo "Cuda compilation tools, release 12.4, V12.4.99"
        exit 0
    fi
done
exec {} "$@"
"""


def use_known_version():
    """Replaces the assembler of an old Triton. Processes that this process starts get the program as well."""
    given = os.environ.get(VARIABLE)
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if version >= NEW or not given:
        return
    folder = tempfile.mkdtemp(prefix="margay-ptxas-")
    owner = os.getpid()
    path = os.path.join(folder, "ptxas")
    with open(path, "w") as file:
        file.write(PROGRAM.format(shlex.quote(given)))
    os.chmod(path, 0o700)
    os.environ[VARIABLE] = path

    @atexit.register
    def remove():
        if os.getpid() == owner:
            shutil.rmtree(folder, ignore_errors=True)
