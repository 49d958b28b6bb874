"""Starts examples/mpi/heat.py on four ranks by the environment's own mpirun."""

import os
import pathlib
import subprocess
import sys

here = pathlib.Path(__file__).resolve()
example = here.parents[3] / "examples/mpi/heat.py"
mpirun = pathlib.Path(sys.executable).parent / "mpirun"
# More ranks than cores, and CI is root.
command = [mpirun, "-n", "4", "--oversubscribe", "--allow-run-as-root", sys.executable, example]
sys.exit(subprocess.run(command, env={**os.environ, "MARGAY_WORKERS": "1"}).returncode)
