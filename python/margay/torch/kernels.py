"""The function that is registered for an operator.

The function replaces device tensors by CPU tensors over the same memory, waits for the stream, calls the operator, which
now selects the CPU kernel, and returns the results as device tensors:

- an argument that the operator writes is written in place, and is returned itself;
- an output (``out=``) is written in place too, unless the operator makes it larger: it then writes a CPU tensor of its
  own, whose elements are copied;
- a new tensor is allocated by PyTorch's CUDA allocator, so the memory statistics are those of a CUDA program.
"""

import torch

from . import capture, direct, generators, order, widening
from .memory import assign, place, place_all, share, share_any, share_exactly
from .signature import WITH_NUMBERS

Tensor = torch.Tensor
_CPU = torch.device("cpu")
WIDEST = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}
"""The types of tensors without dimensions that PyTorch makes from numbers."""

MIXED = frozenset(
    "copy_ _foreach_copy_ index index_put_ _index_put_impl_ index_put _unsafe_index _unsafe_index_put index_copy_ "
    "_chunk_cat _pin_memory record_stream is_pinned _fused_adam_ _fused_adamw_ _fused_sgd_ _fused_adagrad_ "
    "to_padded_tensor _nested_from_padded _local_scalar_dense resize_as_ set_".split()
)
"""Operators that accept CPU tensors with dimensions beside device tensors, or check this themselves."""


CONTIGUOUS = frozenset("convolution _convolution convolution_backward".split())
"""Operators whose results are contiguous on cuda without cuDNN, which ``torch.compile`` relies on. On the CPU, they have
the layout of their input."""


def mixed_devices(signature, first, second):
    """Returns the error for tensors on two devices."""
    return RuntimeError(
        f"Expected all tensors to be on the same device, but found at least two devices, {first} and {second}! "
        f"(when checking arguments in method wrapper_CUDA_{signature.name.replace('aten.', '').replace('.', '_')})"
    )


def run(signature, values, named, written):
    """Calls the CPU kernel of an operator, in a wider type if the kernel does not support the type of the arguments."""
    call = signature.call
    if signature.wide:
        for value in values:
            if isinstance(value, Tensor) and value.dtype in widening.WIDER:
                return widening.widened(call, value.dtype, values, named, written)
    try:
        return call(*values, **named)
    except (RuntimeError, NotImplementedError) as error:
        narrow = widening.missing(error)
        if narrow is None:
            raise
    return widening.widened(call, narrow, values, named, written)


class Arguments:
    """The arguments of one call, in which CPU tensors replace device tensors."""

    def __init__(self, signature, args, kwargs):
        self.signature = signature
        self.device = None
        self.written = []
        self.values = list(args)
        self.named = dict(kwargs)
        self._host = None
        self._outputs = []
        self._sparse = []
        self._generator = None
        for index in signature.tensors + signature.lists:
            if index < len(self.values):
                self.values[index] = self._shared(self.values[index])
        for name in signature.named:
            if name in self.named and name not in signature.outputs:
                self.named[name] = self._shared(self.named[name])
        for key in signature.written:
            found = self.named.get(key) if isinstance(key, str) else self.values[key] if key < len(args) else None
            self.written.extend(found if isinstance(found, list) else [found])
            if isinstance(found, Tensor) and found.layout is not torch.strided:
                # The operator may replace the parts of a sparse tensor, so they are assigned as those of an output.
                self._sparse.append((args[key] if isinstance(key, int) else kwargs[key], found))
        self._given = {name: self.named[name] for name in signature.outputs}
        self._inputs_written = len(self.written)
        self._use_outputs(resizable=False)
        if signature.device is not None:
            self._place_factory()
        if self.device is None:
            self.device = torch.cuda.current_device()

    def _shared(self, value):
        if not isinstance(value, Tensor):
            return [self._shared(one) for one in value] if isinstance(value, (tuple, list)) else value
        if not value.is_cuda:
            if value.dim() and self.signature.short not in MIXED:
                self._host = value
                if self.device is not None:
                    raise mixed_devices(self.signature, f"cuda:{self.device}", value.device)
            return value
        self._on(value)
        return share_any(value)

    def _on(self, tensor):
        device = tensor.get_device()
        if self.device is None:
            self.device = device
            if self._host is not None:
                raise mixed_devices(self.signature, f"cuda:{device}", self._host.device)
        elif device != self.device and self.signature.short not in MIXED:
            raise mixed_devices(self.signature, f"cuda:{self.device}", f"cuda:{device}")

    def _use_outputs(self, resizable):
        """Chooses a CPU tensor for each output: in the output's memory, or one that the operator can make larger."""
        self._outputs.clear()
        del self.written[self._inputs_written :]
        for name, output in self._given.items():
            self.named[name] = self._fresh(output, resizable)

    def _fresh(self, output, resizable):
        if isinstance(output, (tuple, list)):
            return [self._fresh(one, resizable) for one in output]
        if not output.is_cuda:
            raise mixed_devices(self.signature, f"cuda:{self.device or 0}", output.device)
        self._on(output)
        if output.layout is not torch.strided:
            fresh = share(output).clone()
        elif output.numel() and not resizable and not output.is_neg() and not output.is_conj():
            fresh = share_exactly(output)
        else:
            fresh = torch.empty_strided(output.size(), output.stride(), dtype=output.dtype, device=_CPU)
        self._outputs.append((output, fresh))
        self.written.append(fresh)
        return fresh

    def _place_factory(self):
        device = self.named.get(self.signature.device)
        self.device = torch.cuda.current_device() if device is None or device.index is None else device.index
        self.named[self.signature.device] = _CPU
        self.named.pop("pin_memory", None)

    def generator(self):
        """Returns the CUDA generator of the operator: an argument, or the device's default generator."""
        if self._generator is not None:
            return self._generator
        key = self.signature.generator
        if isinstance(key, str):
            given = self.named.get(key)
        else:
            given = self.values[key] if key < len(self.values) else None
            self.named.pop(self.signature.arguments[key].name, None)
        if given is None:
            given = generators.default(self.device)
        elif given.device.type != "cuda":
            raise RuntimeError(f"Expected a 'cuda' device type for generator but found '{given.device.type}'")
        self._generator = given
        return given

    def keep_generator(self):
        """Makes later calls of :meth:`seed` use the present state object of the generator, which may get another."""
        self._generator = self.generator().graphsafe_get_state()

    def seed(self):
        """Replaces the CUDA generator by a CPU generator that continues its sequence."""
        key = self.signature.generator
        successor = generators.next_of(self.generator())
        if isinstance(key, str):
            self.named[key] = successor
        elif key < len(self.values):
            self.values[key] = successor
        else:
            self.named[self.signature.arguments[key].name] = successor

    def outputs(self):
        """Returns the device tensors of the outputs."""
        return [output for output, _ in self._outputs]

    def release_outputs(self):
        """Replaces the device tensors of the outputs by CPU tensors over the same memory, which do not own it: the host node
        of a graph must not keep the memory of a tensor that the program has released. From then on, the operator cannot
        make an output larger."""
        self._outputs = [(share(output), fresh) for output, fresh in self._outputs]
        self._given.clear()

    def large(self):
        """Returns whether an argument is a large tensor."""
        for value in self.values:
            for one in value if isinstance(value, list) else (value,):
                if isinstance(one, Tensor) and one.layout is torch.strided and one.numel() >= direct.LARGE:
                    return True
        return False

    def call(self):
        """Calls the CPU kernel and copies outputs to device memory. Returns the kernel's results."""
        try:
            result = run(self.signature, self.values, self.named, self.written)
        except RuntimeError as error:
            if not self._given or "not resizable" not in str(error):
                raise
            self._use_outputs(resizable=True)
            result = run(self.signature, self.values, self.named, self.written)
        for output, fresh in self._outputs + self._sparse:
            assign(output, fresh)
        return result


def _contiguous(result):
    """Returns the result of an operator with contiguous tensors."""
    if isinstance(result, (tuple, list)):
        return type(result)(_contiguous(one) for one in result)
    return result.contiguous() if isinstance(result, Tensor) else result


def results(signature, result, args, kwargs, device):
    """Returns the results of an operator: arguments that it returns, and device tensors for new tensors."""
    returned = signature.returned
    if not returned or result is None:
        return None
    if signature.short in CONTIGUOUS:
        result = _contiguous(result)
    if signature.single:
        key = returned[0]
        return place_all(result, device) if key is None else args[key] if isinstance(key, int) else kwargs[key]
    found = []
    for key, one in zip(returned, result):
        if key is None:
            found.append(place_all(one, device))
        else:
            found.append(args[key] if isinstance(key, int) else kwargs[key])
    return tuple(found)


def prepare(signature):
    """Notes whether an operator runs in a wider type always, and returns its signature."""
    signature.wide = signature.short.rstrip("_") in widening.ALWAYS
    return signature


def with_numbers(signature):
    """Returns the function for calls of an operator with numbers in place of tensors."""
    overloads = {}

    def kernel(positions, args, kwargs):
        if positions not in overloads:
            found = signature.for_numbers(positions)
            overloads[positions] = None if found is None else general(prepare(found))
        overload = overloads[positions]
        if overload is None:
            tensors = [torch.tensor(one, dtype=WIDEST[type(one)]) if i in positions else one for i, one in enumerate(args)]
            return general(signature)(*tensors, **kwargs)
        return overload(*args, **kwargs)

    return kernel


def general(signature):
    """Returns the function for an operator with any arguments."""
    numeric = with_numbers(signature)
    random = signature.generator is not None
    large = direct.Direct(signature)

    def kernel(*args, **kwargs):
        numbers = signature.numbers(args)
        if numbers:
            return numeric(numbers, args, kwargs)
        arguments = Arguments(signature, args, kwargs)
        if not order.ready(arguments.device):
            return capture.record(signature, args, kwargs, arguments)
        if large.possible() and arguments.large():
            found = large.call(arguments.values, arguments.named, torch.device("cuda", arguments.device))
            if found is not None:
                return found
        if random:
            arguments.seed()
        result = arguments.call()
        return results(signature, result, args, kwargs, torch.device("cuda", arguments.device))

    return kernel


def simple(signature):
    """Returns the function for an operator without lists, outputs and generators: the short way of most calls. It hands
    every call that is not plain to the general function."""
    slow = general(signature)
    positions = signature.tensors
    call = signature.call
    in_place = bool(signature.written) and signature.returned == [0]
    numeric = signature.short.rstrip("_") in WITH_NUMBERS
    large = direct.Direct(signature)
    capturing, wait = order.capturing, order.wait
    current = torch._C._cuda_getDevice

    def kernel(*args, **kwargs):
        values = list(args)
        count = len(values)
        device = None
        elements = 0
        for index in positions:
            if index >= count:
                break
            tensor = values[index]
            if not isinstance(tensor, Tensor):
                if tensor is None or numeric:
                    continue
                return slow(*args, **kwargs)
            if tensor.is_cuda:
                if device is None:
                    device = tensor.device
                elif tensor.device != device:
                    return slow(*args, **kwargs)
                values[index] = shared = share(tensor)
                elements = max(elements, shared.numel())
            elif tensor.dim():
                return slow(*args, **kwargs)
        if device is None or device.index != current() or capturing():
            return slow(*args, **kwargs)
        wait(device.index)
        if elements >= direct.LARGE and large.possible():
            found = large.call(values, kwargs, device)
            if found is not None:
                return found
        try:
            result = call(*values, **kwargs)
        except (RuntimeError, NotImplementedError) as error:
            if widening.missing(error) is None:
                raise
            return slow(*args, **kwargs)
        if in_place:
            return args[0]
        return place(result, device) if isinstance(result, Tensor) else place_all(result, device)

    return kernel


def kernel(signature, parts=False):
    """Returns the function to register for an operator; ``parts``: for sparse and nested tensors."""
    prepare(signature)
    plain = not (
        parts or signature.lists or signature.named or signature.outputs or signature.wide
        or signature.generator is not None or signature.device is not None
    )
    if plain and (not signature.written or (signature.written == [0] and signature.returned == [0])):
        return simple(signature)
    return general(signature)
