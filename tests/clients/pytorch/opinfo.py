"""PyTorch's database of operators (OpInfo): each operator on ``cuda`` against the same operator on ``cpu``.

A test is an operator with a type: at most five of the database's sample inputs, forward, and backward for floating-point
types. Arguments: the file of results, and optionally words; only operators whose names contain one of them run.
An operator whose result is random, or for which PyTorch says that two devices may differ, is compared in shapes and types.

The tests run in child processes, each with some tens of operators, so that a crash ends one test only.
"""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import traceback

import torch
from torch.testing._internal.common_methods_invocations import op_db

SAMPLES = 5
CHUNK = 40
TYPES = (torch.float32, torch.float64, torch.float16, torch.int64, torch.bool)
LIMIT = 900

TOLERANCE = {torch.float32: (1e-4, 1e-4), torch.float64: (1e-7, 1e-7), torch.float16: (1e-2, 1e-2)}
"""Relative and absolute tolerance. The kernels are the same, so nearly all results are equal; sums may be ordered
otherwise for tensors with other strides."""

UNDETERMINED = {
    "empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted", "bernoulli", "cauchy",
    "exponential", "geometric", "log_normal", "multinomial", "normal", "rand_like", "randint", "randint_like", "randn",
    "randn_like", "uniform", "poisson", "svd_lowrank", "pca_lowrank", "nn.functional.rrelu", "nn.functional.dropout",
    "nn.functional.dropout2d", "nn.functional.dropout3d", "nn.functional.alpha_dropout", "linalg.eig",
    "nn.functional.feature_alpha_dropout", "nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d",
    "nn.functional.scaled_dot_product_attention", "nn.functional.multi_head_attention_forward", "tensor_split.random",
}
"""Operators whose elements depend on a generator, or are not defined at all."""


def label(op):
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def tree(value, change):
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, (tuple, list)):
        items = [tree(one, change) for one in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {key: tree(one, change) for key, one in value.items()}
    return value


def tensors(value):
    found = []
    tree(value, found.append)
    return found


def moved(value):
    """The same sample on the device. A view stays a view, of a copy of the whole storage."""

    def move(tensor):
        if tensor.layout is torch.strided and tensor.untyped_storage().nbytes() != tensor.numel() * tensor.element_size():
            whole = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage()).to("cuda")
            copy = whole.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())
        else:
            copy = tensor.detach().to("cuda")
        return copy.requires_grad_() if tensor.requires_grad else copy

    return tree(value, move)


def on_device(op, sample):
    """The arguments of a sample for the device. Values of a keyword that name the CPU name the device."""
    named = {
        name: torch.device("cuda") if name == "device" and str(one) == "cpu" else moved(one)
        for name, one in sample.kwargs.items()
    }
    # The sections of tensor_split are on the CPU for every device.
    args = tuple(sample.args) if op.name == "tensor_split" else moved(tuple(sample.args))
    return moved(sample.input), args, named


def compare(op, found, expected, kind, exact):
    if not isinstance(expected, torch.Tensor) and hasattr(expected, "dtype"):
        expected = torch.as_tensor(expected)
    if isinstance(expected, torch.Tensor):
        assert isinstance(found, torch.Tensor), f"{type(found)} in place of a tensor"
        expected = expected.to(found.dtype) if op.name.startswith("jiterator") else expected
        assert found.size() == expected.size(), f"shape {tuple(found.size())} in place of {tuple(expected.size())}"
        if expected.dtype is not found.dtype:
            assert kind is torch.float16, f"type {found.dtype} in place of {expected.dtype}"
            expected = expected.to(found.dtype)
        if exact and expected.layout is torch.strided:
            relative, absolute = TOLERANCE.get(kind, (1e-4, 1e-4))
            torch.testing.assert_close(
                found.detach().cpu(), expected.detach().cpu(), rtol=relative, atol=absolute, equal_nan=True
            )
    elif isinstance(expected, (tuple, list)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected):
            compare(op, one, other, kind, exact)
    elif isinstance(expected, (int, float, bool)) and exact:
        assert found == expected or found != found, f"{found} in place of {expected}"


def reference(op, sample, kind):
    """The expected results. Where the CPU has no kernel for half precision, those in float32."""
    if op.name.startswith("jiterator"):  # compiled at run time, for devices only; the database has a function of numpy
        arrays = [one.detach().numpy() for one in (sample.input, *sample.args)]
        return sample, tree(op.ref(*arrays, **sample.kwargs), torch.as_tensor)
    try:
        return sample, op(sample.input, *sample.args, **sample.kwargs)
    except (RuntimeError, NotImplementedError):
        if kind is not torch.float16:
            raise

    def wide(tensor):
        copy = tensor.detach().float() if tensor.dtype is torch.float16 else tensor.detach()
        return copy.requires_grad_() if tensor.requires_grad else copy

    wide_sample = type(sample)(
        tree(sample.input, wide), args=tree(tuple(sample.args), wide), kwargs=tree(dict(sample.kwargs), wide)
    )
    return wide_sample, op(wide_sample.input, *wide_sample.args, **wide_sample.kwargs)


def gradients(inputs, result):
    """Gradients of the sum of all differentiable results."""
    outputs = [one for one in tensors(result) if one.requires_grad and one.layout is torch.strided]
    inputs = [one for one in tensors(inputs) if one.requires_grad]
    if not outputs or not inputs:
        return None
    ones = [torch.ones_like(one) for one in outputs]
    return torch.autograd.grad(outputs, inputs, ones, allow_unused=True)


def one_sample(op, sample, kind, backward, exact):
    device = on_device(op, sample)
    torch.manual_seed(1)
    try:
        sample, expected = reference(op, sample, kind)
        expected_gradients = None
        if backward:
            expected_gradients = gradients((sample.input, sample.args), sample.output_process_fn_grad(expected))
    except Exception:
        return False  # no expected value
    torch.manual_seed(1)
    found = op(device[0], *device[1], **device[2])
    compare(op, found, expected, kind, exact)
    if expected_gradients is not None:
        found_gradients = gradients((device[0], device[1]), sample.output_process_fn_grad(found))
        compare(op, found_gradients, expected_gradients, kind, exact)
    return True


def one_test(op, kind):
    """Returns None if all samples agree, "skipped" if there is none, or what went wrong."""
    exact = op.name not in UNDETERMINED
    backward = kind.is_floating_point and op.supports_autograd and kind in op.supported_backward_dtypes("cuda")
    torch.manual_seed(0)
    samples = list(op.sample_inputs("cpu", kind, requires_grad=backward))
    chosen = random.Random(label(op)).sample(samples, min(SAMPLES, len(samples)))
    compared = 0
    for sample in chosen:
        try:
            compared += one_sample(op, sample, kind, backward, exact)
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            return f"{type(error).__name__}: {str(error)[:600]} ({os.path.basename(where.filename)}:{where.lineno})"
    return None if compared else "skipped"


def child(first, last, path, only):
    with open(path, "a") as file:
        for index in range(first, min(last, len(op_db))):
            op = op_db[index]
            for kind in TYPES:
                test = f"{label(op)} {str(kind).removeprefix('torch.')}"
                if test in only or kind not in op.supported_dtypes("cuda"):
                    continue
                file.write(json.dumps({"test": test}) + "\n")
                file.flush()
                try:
                    verdict = one_test(op, kind)
                except Exception as error:
                    verdict = f"samples: {type(error).__name__}: {str(error)[:300]}"
                file.write(json.dumps({"test": test, "verdict": verdict}) + "\n")
                file.flush()


def chunk(first, last):
    """Runs some operators in child processes; after a crash, goes on behind the test that crashed."""
    verdicts = {}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "verdicts"
        path.touch()
        for _ in range(20):
            skip = json.dumps(list(verdicts))
            (pathlib.Path(folder) / "skip").write_text(skip)
            command = [sys.executable, __file__, "--child", str(first), str(last), folder]
            try:
                ended = subprocess.run(command, timeout=LIMIT, stderr=subprocess.PIPE, text=True, errors="replace")
                code, said = ended.returncode, ended.stderr[-300:]
            except subprocess.TimeoutExpired:
                code, said = "a timeout", ""
            for line in path.read_text().splitlines():
                line = json.loads(line)
                verdicts[line["test"]] = line.get("verdict", f"the process ended with {code}: {said}")
            if code == 0:
                break
    return verdicts


def main():
    if sys.argv[1] == "--child":
        first, last, folder = int(sys.argv[2]), int(sys.argv[3]), pathlib.Path(sys.argv[4])
        child(first, last, folder / "verdicts", set(json.loads((folder / "skip").read_text())))
        return
    report, words = pathlib.Path(sys.argv[1]), sys.argv[2:]
    ranges = [(first, first + CHUNK) for first in range(0, len(op_db), CHUNK)]
    if words:
        ranges = [(i, i + 1) for i, op in enumerate(op_db) if any(word in label(op) for word in words)]
    verdicts = {}
    for first, last in ranges:
        verdicts.update(chunk(first, last))
        wrong = [one for one in verdicts.values() if one not in (None, "skipped")]
        print(f"{last} of {len(op_db)} operators, {len(verdicts)} tests, {len(wrong)} wrong", flush=True)
        report.with_suffix(".json").write_text(json.dumps(verdicts, indent=0))
    sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "plugins"))
    import junit

    rows = [("opinfo", test, verdict, verdict == "skipped") for test, verdict in verdicts.items()]
    junit.write(report, rows)


if __name__ == "__main__":
    main()
