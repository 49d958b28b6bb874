"""Convolutions by matrix products.

XLA computes convolutions with cuDNN, whose kernels are machine code. Margay lowers JAX's primitive for ``cuda`` to a
gather, which copies the window of each output element, and one matrix product per group. XLA compiles both. The copies
need as much memory as the input times the number of elements of a window.
"""

import math

from . import note


def install():
    """Registers the lowering."""
    try:
        from jax._src.interpreters import mlir
        from jax._src.lax import convolution

        primitive = convolution.conv_general_dilated_p
        rules = mlir._platform_specific_lowerings["cuda"]
        before = rules.get(primitive) or mlir._lowerings[primitive]
        before = getattr(before, "rule", before)
        rule = mlir.lower_fun(convolve, multiple_results=False)

        def lower(ctx, lhs, rhs, **parameters):
            # Shapes that are known only at run time stay with the original rule.
            if not _is_static(ctx.avals_in, parameters):
                return before(ctx, lhs, rhs, **parameters)
            return rule(ctx, lhs, rhs, **parameters)

        mlir.register_lowering(primitive, lower, platform="cuda")
    except (ImportError, AttributeError, KeyError, NotImplementedError) as error:
        note(f"convolutions will need cuDNN, which does not run on Margay, because this version of JAX differs: {error}")


def _is_static(avals, parameters):
    sizes = [size for aval in avals for size in aval.shape]
    for name in ("window_strides", "lhs_dilation", "rhs_dilation"):
        sizes += parameters[name]
    for pair in parameters["padding"]:
        sizes += pair
    try:
        return all(int(size) == size for size in sizes)
    except Exception:  # noqa: BLE001  (JAX's symbolic sizes raise errors of several types)
        return False


def convolve(lhs, rhs, *, window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers,
             feature_group_count, batch_group_count, precision=None, preferred_element_type=None, **_unused):
    """Returns what ``jax.lax.conv_general_dilated`` returns for the same arguments."""
    import jax.numpy as jnp
    from jax import lax

    parameters = dict(window_strides=window_strides, padding=padding, lhs_dilation=lhs_dilation,
                      rhs_dilation=rhs_dilation, dimension_numbers=dimension_numbers,
                      feature_group_count=feature_group_count, batch_group_count=batch_group_count,
                      precision=precision)
    if jnp.issubdtype(lhs.dtype, jnp.complexfloating):
        return _complex(lhs, rhs, preferred_element_type, parameters)

    lhs_spec, rhs_spec, out_spec = dimension_numbers
    lhs = lax.transpose(lhs, lhs_spec)  # batch, feature, spatial dimensions
    rhs = lax.transpose(rhs, rhs_spec)  # output feature, input feature, spatial dimensions
    rank = lhs.ndim - 2
    zero = jnp.zeros((), lhs.dtype)
    spread = [(0, 0, 0), (0, 0, 0)]
    spread += [(low, high, dilation - 1) for (low, high), dilation in zip(padding, lhs_dilation)]
    lhs = lax.pad(lhs, zero, spread)

    groups = max(feature_group_count, batch_group_count)
    spatial = lhs.shape[2:]
    if batch_group_count > 1:
        lhs = lhs.reshape(groups, lhs.shape[0] // groups, lhs.shape[1], *spatial)
    else:
        lhs = lhs.reshape(lhs.shape[0], groups, lhs.shape[1] // groups, *spatial)
        lhs = jnp.swapaxes(lhs, 0, 1)
    rhs = rhs.reshape(groups, rhs.shape[0] // groups, *rhs.shape[1:])
    # lhs: group, batch, input feature, spatial; rhs: group, output feature, input feature, window.
    batch, outputs = lhs.shape[1], rhs.shape[1]
    window, sizes = rhs.shape[3:], []
    for number in range(rank):
        axis = 3 + 2 * number
        lhs, size = _windows(lhs, axis, window[number], window_strides[number], rhs_dilation[number])
        sizes.append(size)
    # lhs: group, batch, input feature, then for each spatial dimension: output position, window position.
    positions = [3 + 2 * number for number in range(rank)]
    elements = [4 + 2 * number for number in range(rank)]
    lhs = lax.transpose(lhs, [0, 1, *positions, 2, *elements])
    depth = lhs.shape[2 + rank] * math.prod(window)
    lhs = lhs.reshape(groups, batch * math.prod(sizes), depth)
    rhs = rhs.reshape(groups, outputs, depth)
    kind = preferred_element_type
    product = lax.dot_general(lhs, rhs, (((2,), (2,)), ((0,), (0,))), precision=precision, preferred_element_type=kind)
    product = product.reshape(groups, batch, *sizes, outputs)
    # Output features are numbered group by group.
    product = lax.transpose(product, [1, 0, 2 + rank, *range(2, 2 + rank)])
    product = product.reshape(batch, groups * outputs, *sizes)
    back = [0] * (rank + 2)
    for position, dimension in enumerate(out_spec):
        back[dimension] = position
    return lax.transpose(product, back)


def _windows(array, axis, window, stride, dilation):
    """Replaces the dimension ``axis`` by two: the positions of the window, and the elements of the window. Returns the
    array and the number of positions."""
    import jax.numpy as jnp
    import numpy as np

    reach = (window - 1) * dilation + 1 if window else 0
    size = max(0, (array.shape[axis] - reach) // stride + 1)
    if window == 1 and stride == 1:
        shape = array.shape
        return array.reshape(*shape[: axis + 1], 1, *shape[axis + 1 :]), size
    if size == 0 or window == 0 or array.shape[axis] == 0:
        shape = array.shape[:axis] + (size, window) + array.shape[axis + 1 :]
        return jnp.zeros(shape, array.dtype), size
    index = np.arange(size)[:, None] * stride + np.arange(window)[None, :] * dilation
    return jnp.take(array, index, axis=axis, mode="clip"), size


def _complex(lhs, rhs, preferred_element_type, parameters):
    """Returns a complex convolution, which consists of four real ones."""
    from jax import lax
    import jax.numpy as jnp

    kind = preferred_element_type and jnp.finfo(preferred_element_type).dtype

    def real(one, other):
        return convolve(one, other, preferred_element_type=kind, **parameters)

    lhs, rhs = (lax.real(lhs), lax.imag(lhs)), (lax.real(rhs), lax.imag(rhs))
    return lax.complex(real(lhs[0], rhs[0]) - real(lhs[1], rhs[1]), real(lhs[0], rhs[1]) + real(lhs[1], rhs[0]))
