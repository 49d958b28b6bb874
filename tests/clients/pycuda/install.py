"""PyCUDA, which has no wheel: built from its sources with the headers of NVIDIA's wheels.

The wheels of the toolkit hold neither a library to link the driver against, nor the one header that older toolkits
had for profilers; both are made here. The module finds the driver when it is loaded.
"""

import os
import pathlib
import subprocess
import sys
import sysconfig

VERSION = "2026.1"
TOOLKIT = pathlib.Path(sysconfig.get_path("purelib")) / "nvidia/cu13"
LIBRARIES = {"libcuda.so": "libcuda.so.1", "libcurand.so": "libcurand.so.10"}
PROFILER = """#pragma once
#include <cuda.h>
typedef enum CUoutput_mode_enum { CU_OUT_KEY_VALUE_PAIR = 0, CU_OUT_CSV = 1 } CUoutput_mode;
extern "C" CUresult cuProfilerInitialize(const char *, const char *, CUoutput_mode);
extern "C" CUresult cuProfilerStart(void);
extern "C" CUresult cuProfilerStop(void);
"""


def main():
    made = pathlib.Path(sys.prefix) / "made"
    made.mkdir(exist_ok=True)
    (made / "cudaProfiler.h").write_text(PROFILER)
    for name, wanted in LIBRARIES.items():
        command = ("cc", "-shared", "-x", "c", "/dev/null", f"-Wl,-soname,{wanted}", "-o", str(made / name))
        subprocess.run(command, check=True)
    path = f"{TOOLKIT / 'bin'}:{os.environ['PATH']}"
    environment = dict(os.environ, PATH=path, CPLUS_INCLUDE_PATH=str(made), LIBRARY_PATH=str(made), CFLAGS="-O1 -w")
    # The libraries are empty, and needed all the same.
    environment["LDFLAGS"] = "-Wl,--no-as-needed"
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps")
    subprocess.run((*pip, "--no-binary", "pycuda", f"pycuda=={VERSION}"), env=environment, check=True)


main()
