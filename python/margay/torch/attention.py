"""Fused attention: the operators of flash, memory-efficient and cuDNN attention.

Without dropout, they run the CPU's flash attention. With dropout, and for the gradient of the mask, they are written with
products and softmax. The seed that the operators return gives the same dropout to the backward operator.
"""

import functools
import math

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


def _same_heads(query, *others):
    """Repeats the heads of keys and values if the query has more."""
    heads = query.size(1)
    return [one if one.size(1) == heads else one.repeat_interleave(heads // one.size(1), 1) for one in others]


def _sum_heads(gradient, like):
    """Adds the gradients of repeated heads."""
    if gradient.size(1) != like.size(1):
        gradient = gradient.unflatten(1, (like.size(1), -1)).sum(2)
    return gradient.to(like.dtype)


def _wide(*tensors):
    return [one if one.dtype is torch.float64 else one.float() for one in tensors]


def _scale(query, scale):
    return 1 / math.sqrt(query.size(-1)) if scale is None else scale


def _scores(query, key, is_causal, mask, scale):
    scores = query @ key.transpose(-2, -1) * scale
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype is torch.bool else scores + mask
    if is_causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(later, -math.inf)
    return scores


def _factors(scores, dropout_p, seed):
    """Returns what dropout multiplies the probabilities with: zero, or the inverse of the probability to keep one."""
    if not dropout_p:
        return torch.ones_like(scores)
    generator = torch.Generator(scores.device).manual_seed(int(seed))
    return torch.empty_like(scores).bernoulli_(1 - dropout_p, generator=generator) / (1 - dropout_p)


def _probabilities(scores):
    """Returns the softmax; zeros for a row without keys."""
    return scores.softmax(-1).nan_to_num(0.0)


def _forward(query, key, value, dropout_p, is_causal, mask, scale):
    """Returns the attention, the logarithms of the sums, and the seed of its dropout."""
    key, value = _same_heads(query, key, value)
    if not dropout_p:
        run = _on_cpu("_scaled_dot_product_flash_attention_for_cpu")
        return *run(query, key, value, 0.0, is_causal, attn_mask=mask, scale=scale), _number(query)
    seed = torch.randint(1 << 62, (), dtype=torch.int64, device=query.device)
    wide_query, wide_key, wide_value = _wide(query, key, value)
    scores = _scores(wide_query, wide_key, is_causal, mask, _scale(query, scale))
    kept = _probabilities(scores) * _factors(scores, dropout_p, seed)
    return (kept @ wide_value).to(query.dtype), scores.logsumexp(-1), seed


def _backward(grad, query, key, value, out, logsumexp, dropout_p, is_causal, mask, scale, seed, mask_needed=False):
    """Returns the gradients of query, key, value and mask; the last is None unless it is needed."""
    keys, values = _same_heads(query, key, value)
    if not dropout_p and not mask_needed:
        run = _on_cpu("_scaled_dot_product_flash_attention_for_cpu_backward")
        to_query, *rest = run(
            grad, query, keys, values, out, logsumexp, 0.0, is_causal, attn_mask=mask, scale=scale
        )
        return to_query, _sum_heads(rest[0], key), _sum_heads(rest[1], value), None
    wide_grad, wide_query, keys, values = _wide(grad, query, keys, values)
    factor = _scale(query, scale)
    scores = _scores(wide_query, keys, is_causal, mask, factor)
    chances, factors = _probabilities(scores), _factors(scores, dropout_p, seed)
    to_chances = wide_grad @ values.transpose(-2, -1) * factors
    to_scores = chances * (to_chances - (to_chances * chances).sum(-1, keepdim=True))
    to_query = (to_scores @ keys * factor).to(query.dtype)
    to_key = _sum_heads(to_scores.transpose(-2, -1) @ wide_query * factor, key)
    to_value = _sum_heads((chances * factors).transpose(-2, -1) @ wide_grad, value)
    return to_query, to_key, to_value, to_scores.sum_to_size(mask.size()).to(mask.dtype) if mask_needed else None


def _number(like):
    return torch.zeros((), dtype=torch.int64, device=like.device)


def flash(query, key, value, dropout_p=0.0, is_causal=False, return_debug_mask=False, *, scale=None):
    out, logsumexp, seed = _forward(query, key, value, dropout_p, is_causal, None, scale)
    nothing = query.new_empty(0)
    return out, logsumexp, None, None, query.size(2), key.size(2), seed, _number(query), nothing


def flash_backward(
    grad, query, key, value, out, logsumexp, cum_q, cum_k, max_q, max_k, dropout_p, is_causal, seed, offset, *, scale=None
):
    return _backward(grad, query, key, value, out, logsumexp, dropout_p, is_causal, None, scale, seed)[:3]


def efficient(query, key, value, bias, compute_log_sumexp, dropout_p=0.0, is_causal=False, *, scale=None):
    out, logsumexp, seed = _forward(query, key, value, dropout_p, is_causal, bias, scale)
    return out, logsumexp, seed, _number(query)


def efficient_backward(
    grad, query, key, value, bias, out, logsumexp, seed, offset, dropout_p, needed, is_causal=False, *, scale=None
):
    bias_needed = bias is not None and needed[3]
    return _backward(grad, query, key, value, out, logsumexp, dropout_p, is_causal, bias, scale, seed, bias_needed)


def cudnn(
    query, key, value, bias, compute_log_sumexp, dropout_p=0.0, is_causal=False, return_debug_mask=False, *, scale=None
):
    out, logsumexp, seed = _forward(query, key, value, dropout_p, is_causal, bias, scale)
    nothing = query.new_empty(0)
    return out, logsumexp, None, None, query.size(2), key.size(2), seed, _number(query), nothing


def cudnn_backward(
    grad, query, key, value, out, logsumexp, seed, offset, bias, cum_q, cum_k, max_q, max_k, dropout_p, is_causal, *,
    scale=None
):
    return _backward(grad, query, key, value, out, logsumexp, dropout_p, is_causal, bias, scale, seed)[:3]


TABLE = {
    "_scaled_dot_product_cudnn_attention": cudnn,
    "_scaled_dot_product_cudnn_attention_backward": cudnn_backward,
    "_scaled_dot_product_flash_attention": flash,
    "_scaled_dot_product_flash_attention_backward": flash_backward,
    "_scaled_dot_product_efficient_attention": efficient,
    "_scaled_dot_product_efficient_attention_backward": efficient_backward,
}
