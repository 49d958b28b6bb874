"""The operators that are not supported, and their error.

An operator with a CUDA kernel, without a CPU kernel and without a formula is not supported. ``REASONS`` says for groups
of them, by the beginning of their names, what they need and what to use instead.
"""

REASONS = {
    "_cudnn_": "it needs cuDNN; set torch.backends.cudnn.enabled = False, which Margay does at the start",
    "cudnn_": "it needs cuDNN; set torch.backends.cudnn.enabled = False, which Margay does at the start",
    "miopen_": "it needs a GPU of AMD",
    "_sparse_semi_structured": "it needs a tensor core for sparse matrices",
    "_to_sparse_semi_structured": "it needs a tensor core for sparse matrices",
    "_cslt": "it needs cuSPARSELt",
    "_triton": "it needs machine code for GPUs",
    "_flash_attention": "use torch.nn.functional.scaled_dot_product_attention",
    "_efficient_attention": "use torch.nn.functional.scaled_dot_product_attention",
    "_scaled_grouped_mm": "it needs tensor cores for 8-bit floating point",
    "_weight_int4pack": "its packed layout is that of a tensor core",
    "_convert_weight_to_int4pack": "its packed layout is that of a tensor core",
    "_mixed_dtypes_linear": "it needs CUTLASS",
}


QUANTISED = frozenset(
    "_adaptive_avg_pool2d _index_put_impl_ dequantize.self fill_.Scalar fill_.Tensor flip gelu index_select "
    "index_select.out int_repr masked_fill_.Scalar masked_fill_.Tensor max.dim min.dim quantized_max_pool2d relu relu_".split()
)
"""Operators on quantised tensors that compute. The others read the scale of a tensor, or are views."""

MAKERS = frozenset(
    "quantize_per_tensor quantize_per_tensor.tensor_qparams quantize_per_tensor.tensors quantize_per_channel "
    "quantize_per_tensor_dynamic _make_per_tensor_quantized_tensor _make_per_channel_quantized_tensor".split()
)
"""Operators that return quantised tensors."""


def reason(name):
    """Returns why the operator ``name`` is not supported."""
    if name in MAKERS or name in QUANTISED:
        return "quantised tensors are not supported"
    found = [text for start, text in REASONS.items() if name.startswith(start)]
    return found[0] if found else "PyTorch has machine code for GPUs only"


def unsupported(name):
    """Returns the function that is registered for an operator that is not supported: it raises an error."""

    def kernel(*args, **kwargs):
        raise NotImplementedError(f"Margay does not support aten::{name} on cuda: {reason(name)}")

    return kernel
