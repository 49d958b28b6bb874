"""The options that Margay adds to ``XLA_FLAGS``, with values written by hand."""

import os
import tempfile

from margay.jax import fallback, flags, toolkit, wants_cuda

EVERY = [*flags.REQUIRED, *flags.PREFERRED]
COMPILER, LINKER = "--xla_gpu_enable_libnvptxcompiler=false", "--xla_gpu_enable_libnvjitlink=false"
PRODUCTS = "--xla_gpu_enable_triton_gemm=false"
TUNING = f"--xla_gpu_autotune_level=0 {PRODUCTS}"

assert flags.merged("", EVERY) == (f"{COMPILER} {LINKER} {TUNING}", [])
assert flags.merged("", []) == ("", [])
# The user's options come first and stay, because XLA takes the last of several.
mine = "--xla_dump_to='/a b' --xla_gpu_autotune_level=4"
assert flags.merged(mine, EVERY) == (f"{mine} {COMPILER} {LINKER} {PRODUCTS}", [])
# Options that make machine code are overridden and named.
assert flags.merged("--xla_gpu_enable_libnvjitlink", EVERY) == (
    f"--xla_gpu_enable_libnvjitlink {COMPILER} {LINKER} {TUNING}", ["xla_gpu_enable_libnvjitlink"])
assert flags.merged(f"{COMPILER} {LINKER}", EVERY) == (f"{COMPILER} {LINKER} {TUNING}", [])
# The value may name a file.
with tempfile.NamedTemporaryFile("w") as file:
    file.write("--xla_a=1\n")
    file.flush()
    text, ignored = flags.merged(file.name, EVERY)
assert (text.split(), ignored) == (["--xla_a=1", COMPILER, LINKER, *TUNING.split()], [])
assert flags.merged("/no/such/file", EVERY) == ("/no/such/file", [])
# XLA knows the options, and not others.
assert flags.accepted() == EVERY
assert not flags._try(["--xla_no_such_option=1"])

assert [wants_cuda(text) for text in (None, "", "cpu", "cuda,cpu", "gpu", "tpu")] == [True, True, False, True, True, False]


class Backends:
    _backends = {"cpu": 0}
    _backend_factories = {"cuda": 0}
    _backend_errors = {"cuda": "no memory"}


assert fallback.missing(Backends).endswith("did not start: no memory")
Backends._backend_errors = {}
assert fallback.missing(Backends).endswith("CUDA backend did not start")
Backends._backends = {"cuda": 0}
assert fallback.missing(Backends) is None

with tempfile.TemporaryDirectory() as folder:
    for name in ("old/bin/ptxas", "old/bin/nvlink", "old/bin/other", "old/nvvm/lib", "new/bin/ptxas"):
        os.makedirs(os.path.dirname(f"{folder}/{name}"), exist_ok=True)
        with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
            file.write(name)
    made = toolkit.mirror(f"{folder}/old", f"{folder}/new/bin/ptxas")
    assert toolkit.mirror(f"{folder}/old", f"{folder}/new/bin/ptxas") == made
    assert sorted(os.listdir(made)) == ["bin", "nvvm"]
    assert sorted(os.listdir(f"{made}/bin")) == ["other", "ptxas"]
    with open(f"{made}/bin/ptxas", encoding="utf-8") as file:
        assert file.read() == "new/bin/ptxas"
print("PASS options of XLA")
