"""PyTorch: tensors on ``cuda`` against the same tensors on the CPU: memory, outputs, generators, graphs, streams."""

import copy
import ctypes
import os
import subprocess
import tempfile
import weakref

import torch
import torch.distributed
import torch.multiprocessing
from torch import nn
from torch.nn import functional as F

close = torch.testing.assert_close


def views_and_outputs():
    x = torch.arange(24.0, device="cuda").reshape(4, 6)
    view = x.t()[1:3]
    view.mul_(10)  # a view is a view of device memory
    assert x[0].tolist() == [0.0, 10.0, 20.0, 3.0, 4.0, 5.0]
    with torch.inference_mode():
        inside = torch.ones(3, device="cuda")
        assert inside.add_(1) is inside and inside.tolist() == [2.0, 2.0, 2.0]
    base = torch.zeros(3, 10, device="cuda")
    torch.add(x[:3], 1, out=base[:, 2:8])
    assert base.sum(1).tolist() == [48.0, 192.0, 336.0] and base[:, :2].abs().sum() == 0
    out = torch.empty(4, 4, device="cuda")
    address = out.data_ptr()
    assert torch.mm(x, x.t(), out=out) is out and out.data_ptr() == address
    close(out.cpu(), x.cpu() @ x.cpu().t())
    grown = torch.empty(0, device="cuda")
    torch.exp(x[0] / 10, out=grown)
    close(grown.cpu(), (x[0].cpu() / 10).exp())
    values, places = torch.empty(4, device="cuda"), torch.empty(0, dtype=torch.int64, device="cuda")
    torch.max(x, 1, out=(values, places))
    assert places.tolist() == [2, 2, 2, 2] and values.tolist() == [20.0, 80.0, 140.0, 200.0]
    odd = torch.arange(9, dtype=torch.uint8, device="cuda")[1:].view(torch.uint8)
    assert (odd + 1).tolist() == [2, 3, 4, 5, 6, 7, 8, 9]
    z = torch.tensor([1 + 2j, 3 - 1j], device="cuda")
    assert (z.conj() * z).real.tolist() == [5.0, 10.0] and z.conj().imag.neg().tolist() == [2.0, -1.0]
    large = torch.full((512, 512), 3.0, device="cuda")
    assert (large + large).sum().item() == 6 * 512 * 512
    for wrong in (lambda: x + torch.ones(6), lambda: torch.add(x, 1, out=torch.empty(4, 6))):
        try:
            wrong()
        except RuntimeError as error:
            assert "same device" in str(error), error
        else:
            raise AssertionError("tensors on two devices were added")


def lists_and_factories():
    tensors = [torch.ones(3, device="cuda") * i for i in range(4)]
    torch._foreach_add_(tensors, 1)
    assert [one[0].item() for one in tensors] == [1.0, 2.0, 3.0, 4.0]
    assert torch.stack(torch._foreach_mul(tensors, tensors)).sum().item() == 90.0
    assert torch.arange(2, 11, 3, device="cuda").tolist() == [2, 5, 8]
    assert torch.tril_indices(2, 2, device="cuda").tolist() == [[0, 1, 1], [0, 0, 1]]
    assert torch.eye(2, device="cuda").tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert torch.tensor([3, 0, 2, 0], device="cuda").nonzero().flatten().tolist() == [0, 2]
    half = torch.full((300,), 0.1, dtype=torch.float16, device="cuda")
    assert abs(half.cumsum(0)[-1].item() - 30) < 0.02  # summed in float32, rounded once


def numbers():
    x = torch.tensor([7, -4, 9], device="cuda")
    assert (x % 4).tolist() == [3, 0, 1] and (11 % x.abs()).tolist() == [4, 3, 2]
    assert x.bitwise_and(6).tolist() == [6, 4, 0] and x.clone().remainder_(5).tolist() == [2, 1, 4]
    y = torch.tensor([2.75, -1.5], device="cuda")
    assert y.clone().fmod_(1.0).tolist() == [0.75, -0.5] and y.half().remainder(2).tolist() == [0.75, 0.5]
    out = torch.empty(2, device="cuda")
    assert torch.fmod(y, 2, out=out) is out and out.tolist() == [0.75, -1.5]
    assert (x % 2.5).dtype is torch.float32 and (y.half() % 2).dtype is torch.float16


def generators():
    torch.cuda.manual_seed(5)
    on_cpu = torch.get_rng_state()
    first = torch.rand(4, device="cuda")
    state = torch.cuda.get_rng_state()
    second = torch.rand(4, device="cuda")
    assert not torch.equal(first, second)
    torch.cuda.set_rng_state(state)
    assert torch.equal(torch.rand(4, device="cuda"), second)
    generator = torch.Generator("cuda").manual_seed(5)
    assert torch.equal(torch.rand(4, device="cuda", generator=generator), first)
    dropped = F.dropout(torch.ones(10_000, device="cuda"), 0.25)
    assert abs((dropped == 0).float().mean().item() - 0.25) < 0.03 and abs(dropped.max().item() - 4 / 3) < 1e-6
    turned = torch.ones(60, 40, device="cuda").t()
    again = [(torch.cuda.manual_seed(3), F.dropout(turned, 0.5))[1] for _ in range(2)]
    assert torch.equal(*again) and again[0].stride() == (1, 40) and set(again[0].unique().tolist()) == {0, 2}
    assert not torch.equal(F.dropout(turned, 0.5), again[0])
    assert sorted(torch.randperm(9, device="cuda").tolist()) == list(range(9))
    assert torch.equal(torch.get_rng_state(), on_cpu)


def graphs():
    x = torch.randn(16, 16, device="cuda")
    weight = torch.randn(16, 16, device="cuda", requires_grad=True)
    graph = torch.cuda.CUDAGraph()
    (x @ weight).relu().sum().backward()
    with torch.cuda.graph(graph):
        loss = (x @ weight).relu().sum()
        loss.backward()
        noise = torch.rand(4, device="cuda")
    seen = []
    for seed in range(3):
        torch.manual_seed(seed)
        x.copy_(torch.randn(16, 16))
        weight.grad.zero_()
        graph.replay()
        inputs, outputs = x.cpu(), (x.cpu() @ weight.detach().cpu()).relu()
        close(loss.detach().cpu(), outputs.sum())
        close(weight.grad.cpu(), inputs.t() @ (outputs > 0).float())
        seen.append(tuple(noise.tolist()))
    assert len(set(seen)) == 3
    released = torch.cuda.CUDAGraph()
    with torch.cuda.graph(released):
        between = torch.empty(16, 16, device="cuda")
        torch.add(x, x, out=between)
        seen = weakref.ref(between)
        del between
        doubled = x * 2
    assert seen() is None  # the graph keeps no tensor alive
    released.replay()
    # This call waits for the stream and keeps the lock of the interpreter.
    assert ctypes.PyDLL("libcuda.so.1").cuCtxSynchronize() == 0
    close(doubled, x * 2)
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            x.nonzero()
    except RuntimeError as error:
        assert "operation not permitted when stream is capturing" in str(error), error
    else:
        raise AssertionError("a result that depends on data was captured")


def streams_and_memory():
    before = torch.cuda.memory_allocated()
    x = torch.ones(1 << 20, device="cuda")
    y = x + 1
    assert torch.cuda.memory_allocated() - before == 8 << 20
    del x
    assert torch.cuda.memory_allocated() - before == 4 << 20
    stream, done = torch.cuda.Stream(), torch.cuda.Event(enable_timing=True)
    start = torch.cuda.Event(enable_timing=True)
    start.record()
    with torch.cuda.stream(stream):
        y.mul_(3)
        done.record()
    done.synchronize()
    assert y[-1].item() == 6.0 and start.elapsed_time(done) >= 0
    pinned = torch.empty(1 << 20).pin_memory()
    assert pinned.is_pinned()
    pinned.copy_(y, non_blocking=True)
    torch.cuda.synchronize()
    assert pinned.sum().item() == 6 << 20
    data = torch.utils.data.TensorDataset(torch.arange(10.0))
    loader = torch.utils.data.DataLoader(data, batch_size=4, pin_memory=True, num_workers=1)
    assert [batch[0].cuda(non_blocking=True).sum().item() for batch in loader] == [6.0, 22.0, 17.0]


def cells():
    torch.manual_seed(1)
    for kind in (nn.LSTM, nn.GRU, nn.RNN):
        net = kind(5, 7, 2)
        other = copy.deepcopy(net).cuda()
        x = torch.randn(3, 2, 5)
        (expected, _), (found, _) = net(x), other(x.cuda())
        close(found.detach().cpu(), expected.detach())
        expected.square().sum().backward()
        found.square().sum().backward()
        for one, two in zip(other.parameters(), net.parameters()):
            close(one.grad.cpu(), two.grad, rtol=1e-4, atol=1e-5)
        with torch.backends.cudnn.flags(enabled=True):
            other.flatten_parameters()
            close(other(x.cuda())[0].detach().cpu(), expected.detach())
        weights = list(other.parameters())
        assert weights[1].data_ptr() - weights[0].data_ptr() == 4 * weights[0].numel()


def attention():
    query, key, value = (torch.randn(2, 3, 8, 4, requires_grad=True) for _ in range(3))
    expected = F.scaled_dot_product_attention(query, key, value, is_causal=True)
    gradient = torch.autograd.grad(expected.sum(), query)[0]
    backends = torch.nn.attention.SDPBackend
    for backend in (backends.MATH, backends.EFFICIENT_ATTENTION):
        on_device = [one.detach().cuda().requires_grad_() for one in (query, key, value)]
        with torch.nn.attention.sdpa_kernel(backend):
            found = F.scaled_dot_product_attention(*on_device, is_causal=True)
        close(found.detach().cpu(), expected.detach())
        close(torch.autograd.grad(found.sum(), on_device[0])[0].cpu(), gradient, rtol=1e-4, atol=1e-5)


def fused_attention():
    backends = torch.nn.attention.SDPBackend
    query, key, value = (torch.randn(1, 4, 6, 8, device="cuda") for _ in range(3))
    direction, weights = torch.randn_like(query), torch.randn_like(query)

    def loss(moved, backend, **options):
        torch.cuda.manual_seed(9)
        with torch.nn.attention.sdpa_kernel(backend):
            found = F.scaled_dot_product_attention(moved, key, value, **options)
        return (found * weights).sum()

    # The backward operator has the dropout of the forward operator: its gradient is the slope.
    moved = query.clone().requires_grad_()
    loss(moved, backends.EFFICIENT_ATTENTION, dropout_p=0.5).backward()
    ends = [loss(query + step * direction, backends.EFFICIENT_ATTENTION, dropout_p=0.5) for step in (0.01, -0.01)]
    close((moved.grad * direction).sum(), (ends[0] - ends[1]) / 0.02, rtol=1e-2, atol=1e-2)
    assert loss(query, backends.MATH) != ends[0]
    mask = torch.randn(6, 6, device="cuda", requires_grad=True)
    gradients = [
        torch.autograd.grad(loss(query, backend, attn_mask=mask), mask)[0]
        for backend in (backends.MATH, backends.EFFICIENT_ATTENTION)
    ]
    close(*gradients, rtol=1e-3, atol=1e-4)
    half = [one.half().requires_grad_() for one in (query, key[:, :2], value[:, :2])]
    for backend in (backends.FLASH_ATTENTION, backends.CUDNN_ATTENTION):
        with torch.nn.attention.sdpa_kernel(backend):
            found = F.scaled_dot_product_attention(*half, enable_gqa=True, is_causal=True)
        with torch.nn.attention.sdpa_kernel(backends.MATH):
            expected = F.scaled_dot_product_attention(*half, enable_gqa=True, is_causal=True)
        close(found, expected, rtol=1e-2, atol=1e-2)
        found, expected = (torch.autograd.grad(one.sum(), half) for one in (found, expected))
        close(found, expected, rtol=2e-2, atol=2e-2)


def traces():
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3)).eval()
    x = torch.randn(2, 1, 4, 4)
    expected = torch.jit.trace(net, x).inlined_graph
    found = torch.jit.trace(net.cuda(), x.cuda())
    assert [one.kind() for one in found.inlined_graph.nodes()] == [one.kind() for one in expected.nodes()]
    more = torch.randn(5, 1, 4, 4, device="cuda")
    close(found(more), net(more))  # the batch is not a constant of the trace


def nested():
    rows = [torch.randn(count, 4) for count in (2, 3)]
    device = torch.nested.nested_tensor(rows, device="cuda", requires_grad=True)
    padded = torch.nested.to_padded_tensor(device * 2, 0.0)
    close(padded[0, :2].detach().cpu(), rows[0] * 2)
    padded.sum().backward()
    assert [one.tolist() for one in device.grad.unbind()] == [[[2.0] * 4] * 2, [[2.0] * 4] * 3]


def sparse():
    indices = torch.tensor([[0, 1, 1, 0], [2, 0, 2, 2]])
    on_cpu = torch.sparse_coo_tensor(indices, torch.tensor([3.0, 4.0, 5.0, 1.0]), (2, 3))
    on_device = on_cpu.cuda()
    assert on_device.coalesce().values().tolist() == [4.0, 4.0, 5.0]
    matrix = torch.arange(6.0).reshape(3, 2)
    close(torch.sparse.mm(on_device, matrix.cuda()).cpu(), torch.tensor([[16.0, 20.0], [20.0, 29.0]]))
    close((on_device.to_sparse_csr() @ matrix.cuda()).cpu(), torch.tensor([[16.0, 20.0], [20.0, 29.0]]))
    assert on_device.clone().mul_(2).to_dense().tolist() == [[0.0, 0.0, 8.0], [8.0, 0.0, 10.0]]


def old_assembler():
    """PyTorch 2.6 gets an assembler that reports an old version, and is the given program otherwise."""
    from margay.torch import assembler

    version, given = torch.__version__, os.environ.get(assembler.VARIABLE)
    try:
        torch.__version__, os.environ[assembler.VARIABLE] = "2.6.0+cu124", "/bin/echo"
        assembler.use_known_version()
        program = os.environ[assembler.VARIABLE]
        assert b"release 12.4" in subprocess.check_output([program, "--version"])
        assert subprocess.check_output([program, "-o", "a b"]) == b"-o a b\n"
    finally:
        torch.__version__ = version
        os.environ.pop(assembler.VARIABLE)
        if given is not None:
            os.environ[assembler.VARIABLE] = given


def named_errors():
    square, row = torch.empty(8, 8, device="cuda"), torch.empty(8, device="cuda")
    for call, name in (
        (lambda: torch._weight_int4pack_mm(square, square, 32, row), "_weight_int4pack_mm"),
        (lambda: torch.quantize_per_tensor(row, 0.1, 0, torch.qint8), "quantize_per_tensor"),
    ):
        try:
            call()
        except NotImplementedError as error:
            assert f"Margay does not support aten::{name}" in str(error), error
        else:
            raise AssertionError(name)


def _worker(rank, path):
    torch.distributed.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=2)
    torch.manual_seed(0)
    net = nn.parallel.DistributedDataParallel(nn.Linear(4, 2).cuda())
    torch.manual_seed(rank)
    net(torch.randn(8, 4, device="cuda")).square().mean().backward()
    gradient = net.module.weight.grad
    other = [torch.empty_like(gradient) for _ in range(2)]
    torch.distributed.all_gather(other, gradient)
    close(other[0], other[1])
    group = torch.distributed.new_group(backend="nccl")  # it is one of gloo
    value = torch.full((3,), rank + 1.0, device="cuda")
    torch.distributed.all_reduce(value, group=group)
    assert value.tolist() == [3.0, 3.0, 3.0]
    both = torch.empty(1, 6, device="cuda")
    torch.distributed.all_gather_into_tensor(both, value[None] * (rank + 1), group=group)
    assert both.tolist() == [[3.0, 3.0, 3.0, 6.0, 6.0, 6.0]]
    received = torch.empty(3, device="cuda")
    operations = [(torch.distributed.isend, value * rank), (torch.distributed.irecv, received)]
    operations = [torch.distributed.P2POp(call, tensor, 1 - rank, group) for call, tensor in operations]
    for work in torch.distributed.batch_isend_irecv(operations):
        work.wait()
    assert received.tolist() == [3.0 * (1 - rank)] * 3
    try:
        with torch.distributed.distributed_c10d._coalescing_manager(group, torch.device("cuda")):
            torch.distributed.all_reduce(value, group=group)
    except NotImplementedError as error:
        assert "cannot coalesce" in str(error), error
    torch.distributed.all_reduce(value, group=group)
    assert value[0].item() == 6.0
    torch.distributed.destroy_process_group()


def processes():
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(_worker, (os.path.join(folder, "store"),), nprocs=2)


def main():
    assert torch.cuda.is_available() and torch.cuda.device_count() >= 1
    for test in (
        views_and_outputs, lists_and_factories, numbers, generators, graphs, streams_and_memory, cells, attention,
        fused_attention, traces, nested, sparse, old_assembler, named_errors,
        processes,
    ):
        test()
        print(test.__name__, flush=True)
    print("PASS torch", torch.__version__, torch.cuda.get_device_capability())


if __name__ == "__main__":
    main()
