"""Builds the driver, and the test programs of BLAS with it."""

import pathlib
import subprocess
import sysconfig

HERE = pathlib.Path(__file__).parent
RUNTIME = pathlib.Path(sysconfig.get_path("purelib"), "nvidia/cuda_runtime/lib")
LINK = [f"-L{RUNTIME}", "-l:libcudart.so.12", f"-Wl,-rpath,{RUNTIME}", "-ldl"]


def run(*command):
    subprocess.run(list(map(str, command)), check=True)


def library(folder):
    """The driver as a shared library. The program that loads it has XERBLA, if it needs one."""
    path = folder / "libdriver.so"
    run("gcc", "-O1", "-shared", "-fPIC", HERE / "driver.c", "-o", path, *LINK)
    return path


def programs(sources, folder):
    """The test programs: for each type and level, its name and its input or None."""
    run("gcc", "-O1", "-c", HERE / "driver.c", "-o", folder / "driver.o")
    rest = []
    for name in ["lsame", "xerbla"]:
        rest.append(folder / f"{name}.o")
        run("gfortran", "-O1", "-c", sources / f"BLAS/SRC/{name}.f", "-o", rest[-1])
    # The programs of levels 2 and 3 have their own XERBLA: an archive gives way to it.
    archive = folder / "librest.a"
    archive.unlink(missing_ok=True)
    run("ar", "rc", archive, *rest)
    for letter in "sdcz":
        for level in "123":
            name = f"{letter}blat{level}"
            source = sources / "BLAS/TESTING" / f"{name}.f"
            run("gfortran", "-O1", "-w", source, folder / "driver.o", archive, "-o", folder / name, *LINK)
            given = source.with_suffix(".in")
            yield name, given if given.exists() else None
