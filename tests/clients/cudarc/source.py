"""The sources of the crate, from the registry, and programs built from them.

Cargo and the compiler run without the variables of `margay run`: they are no clients.
"""

import os
import pathlib
import re
import subprocess
import sys

VERSION = "0.19.10"
FEATURES = "std,driver,nvrtc,f16,dynamic-loading,cuda-12090"
HOME = pathlib.Path(sys.prefix)
WHEELS = HOME / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages/nvidia"

FETCH = f"""[package]
name = "fetch"
version = "0.0.0"
edition = "2021"
[lib]
path = "empty.rs"
[dependencies]
cudarc = {{ version = "={VERSION}", default-features = false, features = ["{FEATURES.replace(",", '", "')}"] }}
[workspace]
"""


def cargo(*arguments, folder):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("LD_", "CARGO_BUILD"))}
    environment["CARGO_TARGET_DIR"] = str(HOME / "crate-target")
    ran = subprocess.run(("cargo", *arguments), cwd=folder, env=environment, text=True, capture_output=True)
    if ran.returncode != 0:
        sys.exit(f"cargo {arguments[0]}:\n{ran.stderr}")
    return ran.stdout + ran.stderr


def sources():
    """The crate's folder, unchanged but for a line that makes it a workspace of its own."""
    fetch = HOME / "crate"
    crate = fetch / "vendor" / f"cudarc-{VERSION}"
    if not crate.exists():
        fetch.mkdir(exist_ok=True)
        (fetch / "Cargo.toml").write_text(FETCH)
        (fetch / "empty.rs").write_text("")
        cargo("vendor", "--versioned-dirs", "vendor", folder=fetch)
        with (crate / "Cargo.toml").open("a") as manifest:
            manifest.write("\n[workspace]\n")
    return crate


def built(*what):
    """The program that `cargo WHAT` builds."""
    said = cargo(*what, "--no-default-features", "--features", FEATURES, folder=sources())
    found = re.search(r"Executable .*\((.*)\)", said)
    return HOME / "crate-target" / "debug" / "examples" / what[-1] if found is None else sources() / found[1]


def run(program, *arguments, devices=1):
    """Runs a program with NVRTC from its wheel, and with CUDA's headers where the crate's tests look for them."""
    environment = dict(os.environ, MARGAY_DEVICES=str(devices))
    libraries = [str(WHEELS / "cuda_nvrtc/lib"), environment.get("LD_LIBRARY_PATH", "")]
    environment["LD_LIBRARY_PATH"] = ":".join(filter(None, libraries))
    mount = f'mount --bind "{WHEELS / "cuda_runtime/include"}" /usr/include && exec "$@"'
    inside = ("unshare", "--map-root-user", "--mount", "sh", "-c", mount, "sh")
    prefix = inside if subprocess.run((*inside, "true"), capture_output=True).returncode == 0 else ()
    command = (*prefix, str(program), *arguments)
    return subprocess.run(command, cwd=sources(), env=environment, text=True, errors="replace", capture_output=True)
