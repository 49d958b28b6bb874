"""hashcat: ten much used modes. The only argument is the file of results."""

import sys
import tempfile

import junit
from hashcat import search
from modes import modes


def main():
    with tempfile.TemporaryDirectory() as folder:
        results = [("hashcat", f"{number} {name}", search(number, wanted, folder), False) for number, name, wanted in modes()]
    junit.write(sys.argv[1], results)


main()
