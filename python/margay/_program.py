"""Finds the program ``margay`` and the driver library that the process uses."""

import ctypes
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile

UNCHECKED = 2
"""The result of ``margay_settle`` if the driver library was initialised without checks."""


def margay():
    """Returns the path of the program ``margay``, or None if it is not found."""
    beside = os.path.join(sysconfig.get_path("scripts"), "margay")
    return beside if os.access(beside, os.X_OK) else shutil.which("margay")


def library():
    """Returns Margay's driver library if the process uses it, else None."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
        cuda.margay_settle.argtypes = [ctypes.c_uint]
    except (OSError, AttributeError):
        return None
    return cuda


def report(findings):
    """Returns the report about findings, as ``margay check`` prints it."""
    program = margay()
    if program:
        with tempfile.NamedTemporaryFile("w", suffix=".log", delete=False) as file:
            # `margay check --read` requires the last line, which shows that the file is complete.
            file.write("".join(json.dumps(line) + "\n" for line in [*findings, {"event": "end"}]))
        command = [program, "check", "--quiet", "--print-level", "info", "--print-limit", "0", "--read", file.name]
        try:
            ended = subprocess.run(command, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=60)
            text = ended.stderr.decode(errors="replace")
        except (OSError, subprocess.SubprocessError):
            text = ""
        finally:
            os.unlink(file.name)
        if text.startswith("========="):
            return text.rstrip()
    return "\n".join(map(_sentence, findings))


def _sentence(finding):
    place = [finding.get("kernel"), finding.get("file"), finding.get("line")]
    place = ":".join(str(part) for part in place if part)
    return "{}: {}{}".format(finding.get("tool"), finding.get("message"), " at " + place if place else "")


def restart(arguments):
    """Replaces this process by pytest under ``margay run``. Returns only if ``margay`` is not found."""
    program = margay()
    if program:
        os.execv(program, [program, "run", "--", sys.executable, "-m", "pytest", *arguments])
