"""Lets operators on large tensors write their results to device memory, without a copy.

The results of most operators are small, and copying them costs less than finding out their shapes first. For large
tensors, the operator runs on tensors without data (device ``meta``), which gives the shapes. The results are allocated,
and the form of the operator with ``out=`` fills them. Invariant: an operator that disagrees with the shapes cannot write
beyond a result, since the storage of the CPU tensor ends there; this way is then given up for that operator.
"""

import torch

from .memory import share_exactly

LARGE = 1 << 17
"""The number of elements of an argument from which on this way is taken."""

Tensor = torch.Tensor
_empty_strided = torch._C._VariableFunctions.empty_strided


def _plain(arguments):
    return [(one.name, str(one.type)) for one in arguments if not one.is_out]


def _with_outputs(signature):
    """Returns the overload with ``out=`` that has a CPU kernel and the arguments of an operator, or None."""
    schema = signature.operator._schema
    packet = signature.packet
    for name in packet.overloads():
        overload = getattr(packet, name)
        outputs = [one for one in overload._schema.arguments if one.is_out]
        if len(outputs) != len(schema.returns) or _plain(overload._schema.arguments) != _plain(schema.arguments):
            continue
        if torch._C._dispatch_has_kernel_for_dispatch_key(overload.name(), "CPU"):
            return overload._op, [one.name for one in outputs]
    return None


class Direct:
    """Calls one operator in this way."""

    def __init__(self, signature):
        plain = all(str(one.type) == "Tensor" for one in signature.operator._schema.returns)
        skip = signature.dynamic or signature.generator is not None or signature.wide or any(signature.returned)
        self._signature = signature
        self._found = None if skip or not plain or not signature.returned else _with_outputs(signature)

    def possible(self):
        return self._found is not None

    def _shapes(self, values, named):
        """Returns the results without data, or None if this operator has no shapes."""

        def without_data(value):
            if isinstance(value, Tensor):
                return _empty_strided(value.size(), value.stride(), dtype=value.dtype, device="meta")
            return [without_data(one) for one in value] if isinstance(value, (tuple, list)) else value

        try:
            found = self._signature.call(
                *[without_data(one) for one in values], **{name: without_data(one) for name, one in named.items()}
            )
        except Exception:
            return None  # the operator itself reports what is wrong
        return (found,) if self._signature.single else found

    def call(self, values, named, device):
        """Returns the results of the operator for CPU tensors, as device tensors; None if this way cannot be taken."""
        shapes = self._shapes(values, named)
        if shapes is None or any(one.layout is not torch.strided or not one.numel() for one in shapes):
            return None
        call, names = self._found
        results = [_empty_strided(one.size(), one.stride(), dtype=one.dtype, device=device) for one in shapes]
        outputs = {name: share_exactly(one) for name, one in zip(names, results)}
        try:
            call(*values, **named, **outputs)
        except RuntimeError:
            self._found = None
            return None
        if any(one.size() != outputs[name].size() for name, one in zip(names, results)):
            self._found = None
            return None
        return results[0] if self._signature.single else tuple(results)
