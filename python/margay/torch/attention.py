"""Fused attention: the operators of flash, memory-efficient and cuDNN attention, on the CPU's flash attention.

The CPU's operator has no dropout. PyTorch therefore gets the answer that no fused attention is available for calls with
dropout, and a direct call with dropout is an error.
"""

import functools

import torch

from .kernels import kernel
from .signature import Signature

aten = torch.ops.aten
MATH = 0


def choice(*args, **kwargs):
    """Returns that PyTorch shall write attention with products and softmax."""
    return MATH


@functools.cache
def _on_cpu(name):
    """Returns the function that runs an operator that exists for the CPU only on device tensors."""
    return kernel(Signature(getattr(aten, name).default._schema))


def _forward(query, key, value, dropout_p, is_causal, mask, scale):
    if dropout_p:
        raise NotImplementedError("Margay: fused attention with dropout is not supported; use SDPBackend.MATH")
    run = _on_cpu("_scaled_dot_product_flash_attention_for_cpu")
    return run(query, key, value, 0.0, is_causal, attn_mask=mask, scale=scale)


def _backward(grad, query, key, value, out, logsumexp, is_causal, mask, scale):
    run = _on_cpu("_scaled_dot_product_flash_attention_for_cpu_backward")
    return run(grad, query, key, value, out, logsumexp, 0.0, is_causal, attn_mask=mask, scale=scale)


def _numbers(like):
    return torch.zeros((), dtype=torch.int64, device=like.device)


def flash(query, key, value, dropout_p=0.0, is_causal=False, return_debug_mask=False, *, scale=None):
    out, logsumexp = _forward(query, key, value, dropout_p, is_causal, None, scale)
    lengths = query.size(2), key.size(2)
    nothing = query.new_empty(0)
    return out, logsumexp, None, None, *lengths, _numbers(query), _numbers(query), nothing


def flash_backward(
    grad, query, key, value, out, logsumexp, cum_q, cum_k, max_q, max_k, dropout_p, is_causal, seed, offset, *, scale=None
):
    return _backward(grad, query, key, value, out, logsumexp, is_causal, None, scale)


def efficient(query, key, value, bias, compute_log_sumexp, dropout_p=0.0, is_causal=False, *, scale=None):
    out, logsumexp = _forward(query, key, value, dropout_p, is_causal, bias, scale)
    return out, logsumexp, _numbers(query), _numbers(query)


def efficient_backward(
    grad, query, key, value, bias, out, logsumexp, seed, offset, dropout_p, needed, is_causal=False, *, scale=None
):
    if bias is not None and needed[3]:
        raise NotImplementedError("Margay: fused attention has no gradient of its mask; use SDPBackend.MATH")
    return *_backward(grad, query, key, value, out, logsumexp, is_causal, bias, scale), None


TABLE = {
    "_scaled_dot_product_flash_attention": flash,
    "_scaled_dot_product_flash_attention_backward": flash_backward,
    "_scaled_dot_product_efficient_attention": efficient,
    "_scaled_dot_product_efficient_attention_backward": efficient_backward,
}
