"""The backend ``nccl`` of ``torch.distributed``, on the backend ``gloo``.

The kernels of NCCL are machine code, or PTX for another device than the one that Margay reports. A process group with the
backend ``nccl`` is therefore one of ``gloo``, which works on device tensors too. What ``gloo`` cannot do is an error with a name:
collectives in ``_coalescing_manager(device=...)``, for example.
"""

import torch
from torch.distributed import distributed_c10d as c10d


def _class():
    original = c10d.ProcessGroupNCCL

    class Options(original.Options):
        """NCCL can split a group from a group of NCCL only; here, each group connects by itself."""

        split_from = None
        split_color = 0

    class ProcessGroupNCCL(c10d.ProcessGroupGloo):
        """A process group of ``gloo`` with the constructor of one of NCCL, and what PyTorch calls on it."""

        uid = -1

        def __init__(self, store, rank, size, options=None, **kwargs):
            timeout = kwargs.get("timeout", getattr(options, "_timeout", c10d.default_pg_timeout))
            super().__init__(store, rank, size, timeout)

        def _nothing(self, *args, **kwargs):
            """Does nothing: ``gloo`` has no groups of calls and no limits for single calls."""

        _group_start = _group_end = _add_ephemeral_timeout = _set_enable_nan_check = _nothing

    ProcessGroupNCCL.Options = Options
    if hasattr(original, "NCCLConfig"):
        ProcessGroupNCCL.NCCLConfig = original.NCCLConfig
    return ProcessGroupNCCL


def _ordered(function):
    """Makes a function that sends or receives wait for the stream: ``gloo`` reads and writes the memory at once."""

    def call(*args, **kwargs):
        if torch.cuda.is_initialized():
            torch.cuda.current_stream().synchronize()
        return function(*args, **kwargs)

    return call


def _flat(function):
    """Makes a collective on two tensors use them without their shapes: ``gloo`` divides the first dimension."""

    def call(self, output, source, *args, **kwargs):
        if output.is_cuda and output.is_contiguous() and source.is_contiguous():
            output, source = output.view(-1), source.view(-1)
        return function(self, output, source, *args, **kwargs)

    return call


def _no_start(self, device):
    """Refuses collectives that shall start together, and forgets that PyTorch has begun to collect them: it would go on to
    collect, and would not run, all later collectives of the group."""
    c10d._world.pg_coalesce_state.pop(self, None)
    raise NotImplementedError("Margay: the backend gloo, which Margay uses for nccl, cannot coalesce collectives")


def _batch(operations):
    """Starts each operation of ``batch_isend_irecv`` by itself."""
    c10d._check_p2p_op_list(operations)
    works = [one.op(one.tensor, one.peer, one.group, one.tag) for one in operations]
    return [work for work in works if work is not None]


def _no_split(self, device):
    """Does nothing. NCCL needs this call in the processes that a new group does not contain."""


def use_gloo():
    """Makes the backend ``nccl`` one of ``gloo``, if this PyTorch has both."""
    if not (torch.distributed.is_available() and c10d.is_nccl_available() and c10d.is_gloo_available()):
        return
    c10d.ProcessGroupNCCL = torch.distributed.ProcessGroupNCCL = _class()
    c10d.ProcessGroupGloo.perform_nocolor_split = _no_split
    group = c10d.ProcessGroup
    group._start_coalescing = _no_start
    c10d.batch_isend_irecv = torch.distributed.batch_isend_irecv = _batch
    group._allgather_base = _flat(group._allgather_base)
    group._reduce_scatter_base = _flat(group._reduce_scatter_base)
    group.send, group.recv, group.recv_anysource = map(_ordered, (group.send, group.recv, group.recv_anysource))
