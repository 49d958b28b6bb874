"""OpenMM: its own check of an installation, which compares the forces of all platforms on a protein in water.

Its long-range forces come from cuFFT, whose kernels are in the library as PTX or are linked by it at run time.
"""

import re
import subprocess
import sys

TOLERANCE = 1e-5


def main():
    command = (sys.executable, "-m", "openmm.testInstallation")
    said = subprocess.run(command, text=True, capture_output=True, check=True).stdout
    assert re.search(r"CUDA.*Successfully computed forces", said), said
    difference = re.search(r"Reference vs\. CUDA: (\S+)", said)
    assert difference and float(difference[1]) < TOLERANCE, said
    print("PASS openmm.testInstallation, forces differ by", difference[1])


main()
