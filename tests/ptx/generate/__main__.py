"""Writes the generated file tests: `python3 tests/ptx/generate`; `--check` says whether they are up to date.

The expected values come from exact integers and fractions (exact.py) and the text of the PTX ISA; nothing here
runs or reads Margay. Files that are no longer generated are not removed.
"""

import os
import sys

import approximate
import compare
import conversion
import data
import floating
import integer
import memory
import signals
import surface
import texture
import video
import warp
from emit import File

MODULES = [data, integer, floating, compare, conversion, approximate, video, memory, signals, warp, texture,
           surface]

for module in MODULES:
    module.generate()
stale = []
for path, text in sorted(File.written.items()):
    old = open(path).read() if os.path.exists(path) else None
    if old != text:
        stale.append(path)
        if "--check" not in sys.argv:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            open(path, "w").write(text)
print(f"{len(File.written)} files, {len(stale)} {'stale' if '--check' in sys.argv else 'written'}")
sys.exit(bool(stale) and "--check" in sys.argv)
