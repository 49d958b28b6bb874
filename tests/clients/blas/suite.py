"""The test programs of the reference BLAS, on cuBLAS. Arguments: the folder of its sources, the file of results.

Each routine has a test of its results; those of levels 2 and 3 also have one of the parameters that they refuse.
"""

import os
import pathlib
import re
import subprocess
import sys

import junit
from build import programs

# A program prints a number, which stands for how the routine was called, and the routine's name, then what failed.
LEVEL_1 = re.compile(r"Test of subprogram number +\d+ +(\w+)\s*\n(.*?)(?=Test of subprogram|\Z)", re.DOTALL)
ERRORS = re.compile(r"^ (\w+) +PASSED THE TESTS OF ERROR-EXITS|\*+ (\w+) +FAILED THE TESTS OF ERROR-EXITS", re.MULTILINE)
RESULTS = re.compile(r"^ (\w+) +PASSED THE COMPUTATIONAL TESTS|\*+ (\w+) +FAILED ON CALL NUMBER", re.MULTILINE)
# The routines of a program of level 2 or 3, in its input.
ROUTINE = re.compile(r"^([A-Z0-9]{3,6}) +T ", re.MULTILINE)


def level_1(name, ran):
    found = LEVEL_1.findall(ran.stdout)
    yield name, "all", None if ran.returncode == 0 and found else ran.stdout + ran.stderr, False
    for routine, output in found:
        passed = "PASS" in output and "FAIL" not in output
        yield name, routine, None if passed else output[-4000:], False


def others(name, given, ran, output):
    for kind, pattern in [("results", RESULTS), ("parameters", ERRORS)]:
        passed = {good for good, _ in pattern.findall(output)}
        for routine in ROUTINE.findall(given.read_text()):
            text = None if routine in passed else ran.stderr[-1000:] + output[-3000:]
            yield name, f"{routine} {kind}", text, False


def main():
    sources, report = pathlib.Path(sys.argv[1]), sys.argv[2]
    folder = pathlib.Path("build").absolute()
    folder.mkdir(exist_ok=True)
    # The driver reads which parameters cuBLAS refuses.
    environment = {name: value for name, value in os.environ.items() if name != "MARGAY_QUIET"}
    results = []
    for name, given in programs(sources, folder):
        written = folder / f"{name}.out"
        written.unlink(missing_ok=True)
        ran = subprocess.run(
            [folder / name],
            input=given.read_text() if given else "",
            capture_output=True,
            text=True,
            cwd=folder,
            env=environment,
            timeout=1200,
        )
        if given is None:
            results.extend(level_1(name, ran))
        else:
            output = written.read_text() if written.exists() else ""
            results.extend(others(name, given, ran, output))
    junit.write(report, results)


main()
