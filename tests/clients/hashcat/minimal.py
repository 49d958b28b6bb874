"""hashcat: a word by its MD5."""

import subprocess
import sys
import tempfile

from hashcat import search
from modes import modes


def main():
    number, name, wanted = modes()[0]
    with tempfile.TemporaryDirectory() as folder:
        wrong = search(number, wanted, folder)
    if wrong is not None:
        sys.exit(wrong)
    version = subprocess.run(("hashcat", "--version"), text=True, capture_output=True, check=True).stdout.strip()
    print("PASS hashcat", version, name)


main()
