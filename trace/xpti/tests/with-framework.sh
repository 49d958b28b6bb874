#!/usr/bin/env bash
# Runs the tests of XPTI with oneAPI's framework libraries too, in the two releases whose treatment of events differs:
# those of this crate, and the one that runs a program with the driver library (cli/tests/xpti.rs).
# `cargo xtask clients --quick` runs this script.
#
#   trace/xpti/tests/with-framework.sh [ARGUMENTS OF cargo test]
#
# pip downloads the packages (90 MB) into .cache/xpti, or into the folder that XPTI_CACHE names. The libraries have a
# licence of their own: they stay there and are no part of this project. The C library must be glibc on x86-64.
set -euo pipefail
cd "$(dirname "$0")/../../.."

cache=${XPTI_CACHE:-.cache/xpti}
mkdir -p "$cache"
cache=$(readlink -e "$cache")

# Release 2025.0 returns the same event for the same site; release 2026.2 returns a new one each time.
frameworks=
while read -r kind version digest; do
    folder=$cache/$version
    if [ ! -e "$folder/complete" ]; then
        mkdir -p "$folder"
        echo "intel-cmplr-lib-rt==$version --hash=sha256:$digest" >"$folder/requirements.txt"
        python3 -m pip download --quiet --no-deps --require-hashes --only-binary :all: \
            --platform manylinux_2_28_x86_64 --dest "$folder" --requirement "$folder/requirements.txt"
        # The framework of release 2025.0 needs the mathematics libraries beside it.
        python3 - "$folder" <<'PYTHON'
import glob, os, sys, zipfile

folder = sys.argv[1]
(wheel,) = glob.glob(os.path.join(folder, "*.whl"))
needed = {"libxptifw.so", "libimf.so", "libintlc.so.5", "libirng.so", "libsvml.so"}
with zipfile.ZipFile(wheel) as archive:
    for name in archive.namelist():
        base = os.path.basename(name)
        if base in needed:
            with open(os.path.join(folder, base), "wb") as library:
                library.write(archive.read(name))
            needed.remove(base)
assert not needed, needed
os.remove(wheel)
PYTHON
        touch "$folder/complete"
    fi
    frameworks+=${frameworks:+,}$kind:$folder/libxptifw.so
done <<'RELEASES'
same 2025.0.0 d2e4ab0418c0b14906226f49059435eb152b2f3c9886317afc9f54456c5071d2
new 2026.2.0 9f713083073a820d2496a6da8e8d4f3482aba6640f74521d25ea48dcebe72748
RELEASES

# With --workspace, Cargo uses what it has built for the other tests.
MARGAY_XPTI_FRAMEWORKS=$frameworks cargo test --release --workspace --test events --test xpti "$@"
