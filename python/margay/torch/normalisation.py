"""Normalisation: the operators of cuDNN, of ``SyncBatchNorm`` and of ``rms_norm``."""

import torch

aten = torch.ops.aten


def _per_channel(value, tensor):
    """Gives a tensor with one element for each channel the shape that broadcasts along the channels of ``tensor``."""
    return value.reshape(1, -1, *[1] * (tensor.dim() - 2))


def _other_dimensions(tensor):
    return [dim for dim in range(tensor.dim()) if dim != 1]


def _accumulator(tensor):
    return torch.float64 if tensor.dtype is torch.float64 else torch.float32


def cudnn_batch_norm(tensor, weight, bias, mean, var, training, momentum, eps):
    out, save_mean, save_var = aten.native_batch_norm(tensor, weight, bias, mean, var, training, momentum, eps)
    return out, save_mean, save_var, tensor.new_empty(0, dtype=torch.uint8)


def cudnn_batch_norm_backward(tensor, grad, weight, mean, var, save_mean, save_var, eps, reserve):
    return aten.native_batch_norm_backward(
        grad, tensor, weight, mean, var, save_mean, save_var, True, eps, [True, True, True]
    )


def stats(tensor, eps):
    """Returns mean and inverse standard deviation of each channel."""
    wide = tensor.to(_accumulator(tensor))
    var, mean = torch.var_mean(wide, _other_dimensions(tensor), correction=0)
    return mean, (var + eps).rsqrt()


def elementwise(tensor, weight, bias, mean, invstd, eps):
    out = (tensor - _per_channel(mean, tensor)) * _per_channel(invstd, tensor)
    if weight is not None:
        out = out * _per_channel(weight, tensor)
    if bias is not None:
        out = out + _per_channel(bias, tensor)
    return out.to(tensor.dtype)


def elementwise_out(tensor, weight, bias, mean, invstd, eps, *, out):
    return out.copy_(elementwise(tensor, weight, bias, mean, invstd, eps))


def gather(tensor, means, invstds, running_mean, running_var, momentum, eps, counts):
    """Joins the statistics of several processes; ``counts`` contains the number of elements of each."""
    counts = torch.as_tensor(counts, dtype=means.dtype, device=means.device).reshape(-1, 1)
    total = counts.sum()
    mean = (means * counts).sum(0) / total
    squares = (invstds.pow(-2) - eps) + (means - mean).square()
    var = (squares * counts).sum(0) / total
    if running_mean is not None:
        running_mean.mul_(1 - momentum).add_(mean.to(running_mean.dtype), alpha=momentum)
    if running_var is not None:
        unbiased = var * total / (total - 1)
        running_var.mul_(1 - momentum).add_(unbiased.to(running_var.dtype), alpha=momentum)
    return mean, (var + eps).rsqrt()


def gather_same(tensor, means, invstds, running_mean, running_var, momentum, eps, count):
    return gather(tensor, means, invstds, running_mean, running_var, momentum, eps, [count] * means.size(0))


def backward_reduce(grad, tensor, mean, invstd, weight, input_g, weight_g, bias_g):
    """Returns the sums over each channel of the gradient and of its product with the centred input, and the gradients of
    weight and bias."""
    kind = _accumulator(tensor)
    others = _other_dimensions(tensor)
    wide = grad.to(kind)
    total = wide.sum(others)
    centred = (wide * (tensor.to(kind) - _per_channel(mean, tensor))).sum(others)
    sums = (total, centred) if input_g else (None, None)
    gradient = (centred * invstd).to(weight.dtype) if weight_g and weight is not None else None
    return *sums, gradient, total.to(weight.dtype if weight is not None else kind) if bias_g else None


def backward_elementwise(grad, tensor, mean, invstd, weight, total, centred, count):
    kind = _accumulator(tensor)
    count = count.sum()
    shift = _per_channel(total / count, tensor)
    slope = _per_channel(centred / count * invstd.square(), tensor)
    scale = _per_channel(invstd if weight is None else invstd * weight, tensor)
    centre = tensor.to(kind) - _per_channel(mean, tensor)
    return ((grad.to(kind) - shift - centre * slope) * scale).to(tensor.dtype)


def rms_norm(tensor, normalized_shape, weight, eps):
    dims = list(range(-len(normalized_shape), 0))
    wide = tensor.to(_accumulator(tensor))
    eps = torch.finfo(tensor.dtype).eps if eps is None else eps
    rstd = (wide.square().mean(dims, keepdim=True) + eps).rsqrt()
    out = wide * rstd
    if weight is not None:
        out = out * weight
    return out.to(tensor.dtype), rstd


def rms_norm_backward(grad, tensor, normalized_shape, rstd, weight, needed):
    dims = list(range(-len(normalized_shape), 0))
    kind = _accumulator(tensor)
    normal = tensor.to(kind) * rstd
    scaled = grad.to(kind) if weight is None else grad.to(kind) * weight
    grad_input = grad_weight = None
    if needed[0]:
        grad_input = ((scaled - normal * (scaled * normal).mean(dims, keepdim=True)) * rstd).to(tensor.dtype)
    if needed[1] and weight is not None:
        outer = list(range(tensor.dim() - len(normalized_shape)))
        product = grad.to(kind) * normal
        grad_weight = (product.sum(outer) if outer else product).to(weight.dtype)
    return grad_input, grad_weight


TABLE = {
    "cudnn_batch_norm": cudnn_batch_norm,
    "cudnn_batch_norm_backward": cudnn_batch_norm_backward,
    "batch_norm_stats": stats,
    "batch_norm_elemt": elementwise,
    "batch_norm_elemt.out": elementwise_out,
    "batch_norm_gather_stats": gather_same,
    "batch_norm_gather_stats_with_counts": gather,
    "batch_norm_backward_reduce": backward_reduce,
    "batch_norm_backward_elemt": backward_elementwise,
    "_fused_rms_norm": rms_norm,
    "_fused_rms_norm_backward": rms_norm_backward,
}
