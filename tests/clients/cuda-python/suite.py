"""The tests of cuda-core and of cuda-bindings, one after the other. Arguments: the sources, the file of results.

Tests of files (cuFile) and of accelerators for learning (cuDLA) are left out: those libraries have devices of their own.
Tests of memory between processes run for themselves, without the repetitions that the project asks for.
"""

import os
import pathlib
import subprocess
import sys

import cuda.bindings

SUITES = {
    "cuda_core": ("-p", "cuda_core_names", "tests"),
    "cuda_bindings": ("tests", "--ignore=tests/cudla", "--ignore=tests/test_cufile.py"),
}
OPTIONS = (
    "-p no:cacheprovider -p no:randomly -p no:rerunfailures -o addopts= --rootdir=. -q "
    "--tb=short --timeout=120 --benchmark-disable --continue-on-collection-errors"
).split()


def lend(sources):
    """Puts modules of the tests, which the wheels leave out, where the tests look for them."""
    for name in ("_example_helpers", "_test_helpers"):
        link = pathlib.Path(cuda.bindings.__file__).parent / name
        link.unlink(missing_ok=True)
        link.symlink_to(sources / "cuda_bindings/cuda/bindings" / name)


def main():
    sources, report = map(pathlib.Path, sys.argv[1:])
    lend(sources)
    paths = (sources / "cuda_python_test_helpers", pathlib.Path(__file__).parents[1] / "plugins")
    environment = dict(os.environ, PYTHONPATH=":".join(map(str, paths)))
    found = []
    for suite, what in SUITES.items():
        part = report.with_name(f"{suite}.xml")
        part.unlink(missing_ok=True)
        command = (sys.executable, "-X", "faulthandler", "-m", "pytest", *OPTIONS, f"--junitxml={part}", *what)
        subprocess.run(command, cwd=sources / suite, env=environment, check=False)
        # A suite that ended without results is one failure.
        missing = f'<testcase classname="{suite}" name="all"><failure/></testcase>'
        found.append(part.read_text().partition("?>")[2] if part.exists() else missing)
    report.write_text(f"<all>{''.join(found)}</all>")


main()
