"""Operators that have a CUDA kernel but no CPU kernel, written with other operators.

A formula gets device tensors and calls operators on them, so it needs no code for streams, memory or graphs.
``TABLE`` contains the formula of each operator by its name.
"""

import torch

from . import attention, cells, direct, generators, normalisation, order
from .kernels import kernel
from .memory import place, share
from .signature import Signature

aten = torch.ops.aten


def mm(left, right, out_dtype):
    return torch.mm(left.to(out_dtype), right.to(out_dtype))


def bmm(left, right, out_dtype):
    return torch.bmm(left.to(out_dtype), right.to(out_dtype))


def addmm(bias, left, right, out_dtype, *, beta=1, alpha=1):
    return torch.addmm(bias.to(out_dtype), left.to(out_dtype), right.to(out_dtype), beta=beta, alpha=alpha)


def baddbmm(bias, left, right, out_dtype, *, beta=1, alpha=1):
    return torch.baddbmm(bias.to(out_dtype), left.to(out_dtype), right.to(out_dtype), beta=beta, alpha=alpha)


def to_output(formula):
    """Returns the form with ``out=`` of a formula."""

    def write(*args, out, **kwargs):
        result = formula(*args, **kwargs)
        if out.size() != result.size():
            out.resize_(result.size())
        return out.copy_(result)

    return write


def native_dropout(tensor, p, train):
    if train is False or p == 0:
        return tensor.clone(), torch.ones_like(tensor, dtype=torch.bool)
    if p == 1:
        return torch.zeros_like(tensor), torch.zeros_like(tensor, dtype=torch.bool)
    device = tensor.device
    is_small = tensor.is_cuda and not tensor.is_nested and tensor.numel() < direct.LARGE
    # For a small tensor, four operators on the device cost much more than on the CPU. A graph records the four.
    if is_small and order.ready(device.index):
        generator = generators.next_of(generators.default(device.index))
        kept, mask = _dropout(share(tensor), p, generator)
        return place(kept, device), place(mask, device)
    return _dropout(tensor, p, None)


def _dropout(tensor, p, generator):
    mask = torch.empty_like(tensor, dtype=torch.bool).bernoulli_(1 - p, generator=generator)
    return (tensor * mask).mul_(1 / (1 - p)), mask


def fused_dropout(tensor, p, generator=None):
    """``p`` is the probability that an element is kept."""
    mask = torch.empty_like(tensor, dtype=torch.uint8).bernoulli_(p, generator=generator)
    return (tensor * mask).mul_(1 / p), mask


def masked_scale(tensor, mask, scale):
    return tensor * mask * scale


def convolution(tensor, weight, padding, stride, dilation, groups, benchmark, deterministic, allow_tf32):
    zeros = [0] * len(padding)
    return aten.convolution(tensor, weight, None, stride, padding, dilation, False, zeros, groups)


def convolution_transpose(
    tensor, weight, padding, output_padding, stride, dilation, groups, benchmark, deterministic, allow_tf32
):
    return aten.convolution(tensor, weight, None, stride, padding, dilation, True, output_padding, groups)


def convolution_relu(tensor, weight, bias, stride, padding, dilation, groups):
    zeros = [0] * len(padding)
    return aten.convolution(tensor, weight, bias, stride, padding, dilation, False, zeros, groups).relu_()


def convolution_add_relu(tensor, weight, addend, alpha, bias, stride, padding, dilation, groups):
    zeros = [0] * len(padding)
    result = aten.convolution(tensor, weight, bias, stride, padding, dilation, False, zeros, groups)
    return result.add_(addend, alpha=1 if alpha is None else alpha).relu_()


def depthwise(tensor, weight, kernel_size, bias, stride, padding, dilation):
    zeros = [0] * len(padding)
    return aten.convolution(tensor, weight, bias, stride, padding, dilation, False, zeros, weight.size(0))


def _kernel(name):
    """Returns the function that calls the CPU kernel of an operator, built at its first call."""
    built = []

    def call(*args, **kwargs):
        if not built:
            packet, _, overload = name.partition(".")
            built.append(kernel(Signature(getattr(getattr(aten, packet), overload or "default")._schema)))
        return built[0](*args, **kwargs)

    return call


def convolve():
    """``torch.jit.trace`` does not record this operator but ``_convolution``, which PyTorch's own kernel calls."""
    run = _kernel("convolution")
    tracing = torch._C._get_tracing_state

    def call(*args):
        if tracing() is None:
            return run(*args)
        cudnn = torch.backends.cudnn
        return aten._convolution(*args, cudnn.benchmark, cudnn.deterministic, cudnn.enabled, cudnn.allow_tf32)

    return call


def softmax(name):
    """Softmax of half precision with a result in float32, which the CPU kernel does not have."""
    run = _kernel(name)

    def call(tensor, dim, half_to_float, **outputs):
        return run(tensor.float() if half_to_float else tensor, dim, False, **outputs)

    return call


def softmax_backward(name):
    run, run_out = _kernel(name), _kernel(name + ".out")

    def narrows(grad, input_dtype):
        return grad.dtype is torch.float32 and input_dtype in (torch.float16, torch.bfloat16)

    def call(grad, output, dim, input_dtype):
        result = run(grad, output, dim, grad.dtype)
        return result.to(input_dtype) if narrows(grad, input_dtype) else result

    def call_out(grad, output, dim, input_dtype, **outputs):
        if not narrows(grad, input_dtype):
            return run_out(grad, output, dim, grad.dtype, **outputs)
        (target,) = outputs.values()
        return target.resize_(grad.size()).copy_(call(grad, output, dim, input_dtype))

    return {name: call, name + ".out": call_out}


TABLE = {
    "convolution": convolve(),
    **{name: softmax(name) for name in ("_softmax", "_softmax.out", "_log_softmax", "_log_softmax.out")},
    **softmax_backward("_softmax_backward_data"),
    **softmax_backward("_log_softmax_backward_data"),
    "mm.dtype": mm,
    "mm.dtype_out": to_output(mm),
    "bmm.dtype": bmm,
    "bmm.dtype_out": to_output(bmm),
    "addmm.dtype": addmm,
    "addmm.dtype_out": to_output(addmm),
    "baddbmm.dtype": baddbmm,
    "baddbmm.dtype_out": to_output(baddbmm),
    "native_dropout": native_dropout,
    "_fused_dropout": fused_dropout,
    "_masked_scale": masked_scale,
    "cudnn_convolution": convolution,
    "cudnn_convolution.out": to_output(convolution),
    "cudnn_convolution_transpose": convolution_transpose,
    "cudnn_convolution_relu": convolution_relu,
    "cudnn_convolution_add_relu": convolution_add_relu,
    "_conv_depthwise2d": depthwise,
    "_conv_depthwise2d.out": to_output(depthwise),
    "conv_depthwise3d": depthwise,
    "cudnn_is_acceptable": lambda tensor: False,
    "_cudnn_rnn_flatten_weight": cells.flatten_weight,
    "_use_cudnn_ctc_loss": lambda *args: False,
    "_use_cudnn_ctc_loss.Tensor": lambda *args: False,
    "_fused_sdp_choice": attention.choice,
    **cells.TABLE,
    **attention.TABLE,
    **normalisation.TABLE,
}

NESTED = frozenset({"_fused_sdp_choice"})
"""The formulas that also apply to nested tensors."""
