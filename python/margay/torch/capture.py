"""Records an operator as a host node of the graph that a stream captures.

While a stream captures, nothing runs and nothing has values. The operator runs on tensors without data first (device
``meta``), which gives the shapes of its results. They are allocated at once, from the memory of the graph. A host node
then calls the CPU kernel whenever the graph runs and copies its results there. An operator whose result depends on the
data has no shape at this time and is an error, as on a GPU.
"""

import atexit
import contextlib
import ctypes
import functools
import itertools
import threading

import torch

from . import generators, order
from .memory import share

_driver = ctypes.CDLL("libcuda.so.1")
_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_launch = _driver.cuLaunchHostFunc
_launch.argtypes = [ctypes.c_void_p, _CALLBACK, ctypes.c_void_p]
_capture_info = _driver.cuStreamGetCaptureInfo_v2
_capture_info.argtypes = [ctypes.c_void_p] + [ctypes.c_void_p] * 5
_create_object = _driver.cuUserObjectCreate
_create_object.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_uint, ctypes.c_uint]
_retain = _driver.cuGraphRetainUserObject
_retain.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
_NO_DESTRUCTOR_SYNC = 1
_MOVE = 1

_process = ctypes.CDLL(None)
_post = ctypes.cast(_process.sem_post, ctypes.c_void_p)
_SEMAPHORE_BYTES = 64
_lock = threading.Lock()
_numbers = itertools.count(1)
_functions = {}
"""The functions of host nodes by the number that the node passes."""
_graphs = {}
"""For each capture: the numbers of its functions, and a semaphore that is posted when no graph has them any more. CUDA
calls ``sem_post`` for that, not Python, because it may do so after Python has ended."""


@_CALLBACK
def _run(number):
    function = _functions.get(number)
    try:
        if function is not None:
            with torch.no_grad():
                function()
    except BaseException as failure:  # noqa: B902 - no exception may leave a host function
        order.failures.append(failure)


def forget():
    """Forgets the functions of graphs that CUDA has destroyed."""
    value = ctypes.c_int()
    with _lock:
        for identity, (nodes, semaphore) in list(_graphs.items()):
            _process.sem_getvalue(semaphore, ctypes.byref(value))
            if value.value:
                del _graphs[identity]
                for number in nodes:
                    _functions.pop(number, None)


def wait_for_replay():
    """Makes ``CUDAGraph.replay`` wait for graphs with operators. Their host nodes need Python's global interpreter lock, so
    a program would hang if it went on, called an extension that keeps the lock, and waited there for the graph."""
    replay = torch.cuda.CUDAGraph.replay

    @functools.wraps(replay)
    def replay_and_wait(self):
        replay(self)
        if _graphs:
            order.ready(torch.cuda.current_device())

    torch.cuda.CUDAGraph.replay = replay_and_wait


@atexit.register
def _finish():
    """Waits for graphs that still run, because their functions need Python."""
    if _graphs and torch.cuda.is_initialized():
        with contextlib.suppress(RuntimeError):
            torch.cuda.synchronize()


def _check(code, what):
    if code:
        raise RuntimeError(f"Margay: {what} failed with CUDA error {code} while a stream captures")


def _nodes(stream):
    """Returns the list of host nodes of the graph that ``stream`` captures."""
    status, identity, graph = ctypes.c_int(), ctypes.c_uint64(), ctypes.c_void_p()
    code = _capture_info(stream, ctypes.byref(status), ctypes.byref(identity), ctypes.byref(graph), None, None)
    _check(code, "cuStreamGetCaptureInfo")
    found = _graphs.get(identity.value)
    if found is not None:
        return found[0]
    forget()
    nodes, semaphore = [], ctypes.create_string_buffer(_SEMAPHORE_BYTES)
    _process.sem_init(semaphore, 0, 0)
    owner = ctypes.c_void_p()
    address = ctypes.cast(semaphore, ctypes.c_void_p)
    _check(_create_object(ctypes.byref(owner), address, _post, 1, _NO_DESTRUCTOR_SYNC), "cuUserObjectCreate")
    with _lock:
        _graphs[identity.value] = nodes, semaphore
    _check(_retain(graph, owner, 1, _MOVE), "cuGraphRetainUserObject")
    return nodes


def enqueue(device, function):
    """Adds a host node that calls ``function`` to the graph that the current stream of ``device`` captures."""
    stream = torch._C._cuda_getCurrentRawStream(device)
    nodes = _nodes(stream)
    number = next(_numbers)
    _functions[number] = function
    nodes.append(number)
    _check(_launch(stream, _run, number), "cuLaunchHostFunc")


def _without_data(value):
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided:
            raise NotImplementedError("Margay: operators on sparse tensors cannot be captured in a CUDA graph")
        return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="meta")
    if isinstance(value, (tuple, list)):
        return [_without_data(one) for one in value]
    if isinstance(value, torch.Generator):
        return None
    return torch.device("meta") if isinstance(value, torch.device) else value


def _shapes(signature, args, kwargs):
    """Returns the results of an operator as tensors without data."""
    if signature.dynamic:
        raise RuntimeError(
            f"CUDA error: operation not permitted when stream is capturing: the result of {signature.name} depends on data"
        )
    try:
        return signature.call(
            *[_without_data(one) for one in args], **{name: _without_data(one) for name, one in kwargs.items()}
        )
    except NotImplementedError as error:
        raise NotImplementedError(f"Margay: {signature.name} cannot be captured in a CUDA graph: {error}") from None


def _allocate(value, device):
    if isinstance(value, torch.Tensor):
        return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=device)
    if isinstance(value, (tuple, list)):
        return type(value)(_allocate(one, device) for one in value)
    return value


def _pairs(targets, values):
    """Yields the tensors of two equal trees in pairs."""
    if isinstance(targets, torch.Tensor):
        yield targets, values
    elif isinstance(targets, (tuple, list)):
        for target, value in zip(targets, values):
            yield from _pairs(target, value)


def record(signature, args, kwargs, arguments):
    """Records one call of an operator and returns its results, which get values when the graph runs."""
    new = None in signature.returned
    shapes = ()
    if new or arguments.outputs():
        shapes = _shapes(signature, args, kwargs)
    for output, shape in _pairs(arguments.outputs(), _outputs(signature, shapes)):
        if output.size() != shape.size():
            output.resize_(shape.size())
    arguments.release_outputs()
    fresh = _allocate(shapes, torch.device("cuda", arguments.device)) if new else shapes
    if signature.generator is not None:
        arguments.keep_generator()
    targets = [share(one) for one in _new(signature, fresh)]

    def function():
        if signature.generator is not None:
            arguments.seed()
        result = arguments.call()
        for target, value in zip(targets, _new(signature, result)):
            target.copy_(value)

    enqueue(arguments.device, function)
    return _returned(signature, fresh, args, kwargs)


def _outputs(signature, shapes):
    """Returns the shapes of outputs among the results of an operator."""
    results = [shapes] if signature.single else shapes
    flat = []
    for key, one in zip(signature.returned, results):
        if key in signature.outputs:
            flat.extend(one if isinstance(one, (tuple, list)) else [one])
    return flat


def _returned(signature, fresh, args, kwargs):
    if not signature.returned:
        return None
    results = [fresh] if signature.single else fresh or [None] * len(signature.returned)
    found = []
    for key, one in zip(signature.returned, results):
        found.append(one if key is None else args[key] if isinstance(key, int) else kwargs[key])
    return found[0] if signature.single else tuple(found)


def _new(signature, result):
    """Returns the new tensors among the results of an operator as a flat list."""
    if not signature.returned or not isinstance(result, (torch.Tensor, tuple, list)):
        return []
    results = [result] if signature.single else result
    new = [one for key, one in zip(signature.returned, results) if key is None]
    return [one for one, _ in _pairs(new, new)]
