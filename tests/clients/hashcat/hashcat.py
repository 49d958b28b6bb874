"""A search by hashcat, which tests itself before.

hashcat is the system's (`apt install hashcat`); NVRTC comes from the wheel under the name by which hashcat looks for it.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

from modes import WORD

HOME = pathlib.Path(sys.prefix) / "hashcat"
WHEEL = pathlib.Path(sys.prefix) / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages/nvidia/cu13/lib"
# One small launch at a time: tuning for speed takes longer than the search.
OPTIONS = (
    "--attack-mode=0 --force --potfile-disable --restore-disable --logfile-disable --backend-ignore-opencl "
    "--kernel-accel=1 --kernel-loops=64 --kernel-threads=32"
).split()


def environment():
    libraries = HOME / "lib"
    libraries.mkdir(parents=True, exist_ok=True)
    for library in WHEEL.glob("libnvrtc*"):
        for name in {library.name, library.name.replace(".so.13", ".so")}:
            link = libraries / name
            link.unlink(missing_ok=True)
            link.symlink_to(library)
    path = ":".join(filter(None, (str(libraries), os.environ.get("LD_LIBRARY_PATH", ""))))
    return dict(os.environ, HOME=str(HOME), XDG_CACHE_HOME=str(HOME / "cache"), LD_LIBRARY_PATH=path)


def search(number, wanted, folder):
    """What went wrong in a mode, or None."""
    hashes, words, found = (pathlib.Path(folder) / name for name in ("hashes", "words", "found"))
    hashes.write_text(wanted + "\n")
    words.write_text("".join(f"word{at:05}\n" for at in range(100)) + WORD + "\n")
    found.unlink(missing_ok=True)
    command = ("hashcat", f"--hash-type={number}", *OPTIONS, f"--outfile={found}", "--outfile-format=2", hashes, words)
    ran = subprocess.run(command, env=environment(), text=True, errors="replace", capture_output=True)
    output = ran.stdout + ran.stderr
    # hashcat ends with 0 when all is found.
    right = ran.returncode == 0 and found.exists() and found.read_text() == WORD + "\n"
    tested = "CUDA API" in output and "self-test failed" not in output.lower()
    return None if right and tested else output[-4000:]
