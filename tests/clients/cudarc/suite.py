"""cudarc: the tests of its driver and NVRTC layers. The only argument is the file of results.

Those that the crate sets aside, because they want the process for themselves or two devices, run one by one.
"""

import re
import sys

import junit
from source import built, run

LINE = re.compile(r"^test (\S+)(?: - should panic)? \.\.\. (ok|FAILED|ignored)", re.MULTILINE)


def verdicts(ran):
    """The result of each test, and what was printed."""
    return dict(LINE.findall(ran.stdout)), ran.stdout + ran.stderr


def main():
    tests = built("test", "--no-run", "--lib")
    results = []
    found, whole = verdicts(run(tests, "--test-threads", "1"))
    alone = [name for name, verdict in found.items() if verdict == "ignored"]
    listed = run(tests, "--list").stdout
    for name in re.findall(r"^(\S+): test$", listed, re.MULTILINE):
        if name in alone:
            own, output = verdicts(run(tests, "--ignored", "--exact", name, devices=2))
            verdict = own.get(name)
        else:
            verdict, output = found.get(name), whole
        group, _, short = name.rpartition("::")
        results.append((group, short, None if verdict == "ok" else output[-4000:], False))
    junit.write(sys.argv[1], results)


main()
