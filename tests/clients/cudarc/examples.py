"""cudarc: the crate's own examples, which check what they computed."""

import sys

from source import VERSION, built, run

EXAMPLES = (
    "01-allocate",
    "02-copy",
    "03-launch-kernel",
    "04-streams",
    "05-device-repr",
    "06-threading",
    "09-constant-memory",
    "10-function-attributes",
    "12-context-config",
    "matmul-kernel",
    "nvrtc-compile",
)


def main():
    for example in EXAMPLES:
        ran = run(built("build", "--example", example))
        if ran.returncode != 0:
            sys.exit(f"{example} ended with {ran.returncode}: {ran.stdout}{ran.stderr}")
    print("PASS cudarc", VERSION)


main()
