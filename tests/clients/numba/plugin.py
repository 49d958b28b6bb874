"""Runs the tests of the folder ``plugin`` with Margay's plugin for pytest and compares the results.

The plugin must find each planted defect in the test that has it, alone, with xdist, and under ``margay check``.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PYTHON = HERE.parents[2] / "python"
# The plugin and the test call the program `margay`.
os.environ["PATH"] = os.pathsep.join([str(HERE.parents[2] / "target/release"), os.environ["PATH"]])
EXPECTED = {
    "test_clean_first": "PASSED",
    "test_defect": "FAILED",
    "test_defect_once_more": "FAILED",
    "test_clean_between": "PASSED",
    "test_defect_and_failure": "FAILED",
    "test_expected_defect": "XFAIL",
    "test_allowed_defect": "PASSED",
    "test_error_at_teardown": "ERROR",
    "test_defect_unwritten": "FAILED",
    "test_defect_of_child": "FAILED",
    "test_clean_refused": "PASSED",
    "test_clean_last": "PASSED",
}


def run(*options, before=(), variables={}):
    """Runs the tests; returns the result of each, the output and the exit code."""
    command = [*before, sys.executable, "-m", "pytest", "-p", "margay.pytest_plugin", "-p", "no:cacheprovider"]
    command += ["-v", "--color=no", "-o", "addopts=", "--rootdir", str(HERE), *options, str(HERE / "plugin/cases.py")]
    environment = {**os.environ, "PYTHONPATH": str(PYTHON), **variables}
    environment = {name: value for name, value in environment.items() if value is not None}
    ended = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    pairs = re.findall(r"cases\.py::(\w+) (PASSED|FAILED|XFAIL|ERROR)", ended.stdout)
    pairs += [(name, what) for what, name in re.findall(r"(PASSED|FAILED|XFAIL|ERROR) \S*cases\.py::(\w+)", ended.stdout)]
    order = ["PASSED", "XFAIL", "FAILED", "ERROR"]
    results = {}
    for name, what in pairs:
        results[name] = max(what, results.get(name, what), key=order.index)
    return results, ended.stdout, ended.returncode


def compare(results, expected, output):
    wrong = {name: (results.get(name), want) for name, want in expected.items() if results.get(name) != want}
    if wrong:
        sys.exit("%s\nwrong (found, expected): %s" % (output, wrong))


def section(output, name):
    """Returns the text of a test's failure."""
    return re.split(r"\n(?=_{3,} )", output.split("_ %s _" % name, 1)[1])[0]


def main():
    results, output, _ = run("--margay-check")
    compare(results, EXPECTED, output)
    text = section(output, "test_defect")
    for part in ["========= Invalid __global__ write of size 4 bytes", "cases.py:16", "out[i] = i", "and 3 further hits"]:
        assert part in text, (part, text)
    assert "incomplete" not in text, text
    assert "cases.py:26" in text and "/_pytest/" not in text, text
    assert "allocated at cases.py:25" in text, text
    assert "the test's own failure" in section(output, "test_defect_and_failure")
    assert "margay check" in section(output, "test_defect_and_failure")
    assert "Uninitialized __global__ memory read" in section(output, "test_defect_unwritten")

    results, output, _ = run()
    compare(results, {"test_defect": "PASSED", "test_defect_of_child": "PASSED"}, output)

    results, output, _ = run("--margay-check", "--margay-tools", "racecheck")
    compare(results, {"test_defect": "PASSED", "test_defect_unwritten": "PASSED"}, output)

    results, output, _ = run("--margay-check", "-n", "2")
    compare(results, EXPECTED, output)

    # Alone: the plugin starts pytest again under `margay run`.
    results, output, _ = run("--margay-check", "-k", "clean_first or defect_unwritten", variables={"LD_LIBRARY_PATH": None})
    compare(results, {"test_clean_first": "PASSED", "test_defect_unwritten": "FAILED"}, output)

    # `margay check` sums over all processes, with and without the plugin.
    for options in [("--margay-check", "-n", "2"), ("-n", "2"), ()]:
        # A context with an error would refuse the calls of later tests.
        check = ["margay", "check", "--tool", "memcheck", "--destroy-on-device-error", "nothing", "--error-exitcode", "9", "--"]
        results, output, code = run(*options, "-k", "test_defect or test_clean", before=check)
        assert "ERROR SUMMARY: 1 error" in output, output
        report = output.rsplit("========= COMPUTE-SANITIZER", 1)[1]
        hits = sum(int(n) for n in re.findall(r"^=========     and (\d+) further hits", report, re.M)) + 1
        # Each of four tests writes behind the end in 4 threads, in one of the processes.
        assert hits == 16, (hits, output)
        assert code == 1, (code, output)
    print("PASS 8 runs of pytest")


main()
