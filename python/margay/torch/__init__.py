"""PyTorch on Margay: the operators of ``device="cuda"`` run on the CPU kernels of PyTorch itself.

The kernels of PyTorch's CUDA build are machine code for GPUs, which Margay cannot run. Margay's device memory is memory
of the process, so PyTorch's CPU kernels can work on it directly. This package registers, for each operator that has a
CUDA kernel, a function that calls the operator's CPU kernel on CPU tensors over the same memory.

``import torch`` finds the package through the entry point group ``torch.backends`` and calls :func:`autoload`. The
modules, in the order in which they depend on each other:

================ ======================================================================================
``memory``       CPU tensors over device memory, and device tensors with the results of CPU operators
``order``        waits for the current stream; detects that the stream is capturing
``generators``   CPU generators that continue the sequence of a CUDA generator
``widening``     repeats an operator in float32 if there is no CPU kernel for half precision
``signature``    which arguments of an operator are tensors, outputs or generators
``capture``      records an operator as a host node of the graph that a stream captures
``direct``       results of operators on large tensors, without a copy
``kernels``      the function that is registered for an operator
``formulas``     operators that have a CUDA kernel but no CPU kernel, written with other operators
``transfers``    copies that do not block, and delays of a stream
``collectives``  the backend ``nccl`` of ``torch.distributed``
``assembler``    the version of ``ptxas`` for old versions of Triton
``named``        the operators that are not supported, and their error
``registration`` chooses the function for each operator, and registers it
================ ======================================================================================
"""

import warnings

_active = False


def autoload():
    """Registers the operators if this process uses Margay's driver library. PyTorch calls this function when it is
    imported; with any other driver, or with none, it does nothing."""
    global _active
    from .._program import library

    if _active or library() is None:
        return
    import torch

    if torch.version.cuda is None or not torch.backends.cuda.is_built():
        return
    _active = True
    try:
        from . import registration

        registration.register()
    except Exception as error:
        # An exception would make `import torch` fail.
        warnings.warn(f"Margay does not support PyTorch {torch.__version__}: {type(error).__name__}: {error}")


def active():
    """Returns whether the operators are registered."""
    return _active
