"""hashcat: one of ten much used modes. Arguments: its number, the file of results."""

import sys
import tempfile

import junit
from hashcat import search
from modes import modes


def main():
    found = [mode for mode in modes() if str(mode[0]) == sys.argv[1]]
    with tempfile.TemporaryDirectory() as folder:
        results = [("hashcat", f"{number} {name}", search(number, wanted, folder), False) for number, name, wanted in found]
    junit.write(sys.argv[2], results)


main()
