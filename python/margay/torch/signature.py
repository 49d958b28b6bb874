"""Which arguments of an operator are tensors, outputs or generators, read from its schema."""

import torch

NUMBERS = (int, float, complex)
WITH_NUMBERS = frozenset("add sub mul div divide multiply subtract true_divide copy".split())
"""Operators that PyTorch calls with numbers in place of tensors."""


class Signature:
    """The parts of an operator's schema that its function needs.

    ``operator``: the overload; ``call``: the function that calls it. ``tensors`` and ``lists`` contain the positions of
    positional arguments that are tensors or lists of tensors; ``named`` the names of keyword-only ones. ``written``
    contains the positions and names of the arguments that the operator writes; ``outputs`` the names of those that it
    may also resize. ``returned`` contains, for each result, the argument that it is, or None for a new tensor.
    """

    def __init__(self, schema):
        namespace, name = schema.name.split("::")
        packet = getattr(getattr(torch.ops, namespace), name)
        self.packet = packet
        self.operator = getattr(packet, schema.overload_name or "default")
        self.call = self.operator._op
        self.name = str(self.operator)
        self.short = name
        self.arguments = schema.arguments
        self.tensors, self.lists, self.named = [], [], []
        self.written, self.outputs = [], []
        self.generator = None
        self.device = None
        for index, argument in enumerate(schema.arguments):
            self._add(index, argument)
        self.returned = [self._argument_of(one, schema.arguments) for one in schema.returns]
        self.single = len(schema.returns) == 1
        tags = self.operator.tags
        self.dynamic = torch.Tag.dynamic_output_shape in tags or torch.Tag.data_dependent_output in tags

    def _add(self, index, argument):
        kind = str(argument.type)
        key = argument.name if argument.kwarg_only else index
        if "Tensor" in kind:
            if argument.kwarg_only:
                self.named.append(argument.name)
            else:
                (self.lists if kind.startswith("List") else self.tensors).append(index)
            if argument.is_out:
                self.outputs.append(argument.name)
            elif argument.alias_info is not None and argument.alias_info.is_write:
                self.written.append(key)
        elif "Generator" in kind:
            self.generator = key
        elif argument.name == "device":
            self.device = key

    def numbers(self, args):
        """Returns the positions at which an argument is a number although the operator expects a tensor. PyTorch hands
        the tensors to which it has converted numbers back to Python as numbers."""
        found = [index for index in self.tensors if index < len(args) and isinstance(args[index], NUMBERS)]
        return tuple(found) if found and self.short.rstrip("_") not in WITH_NUMBERS else ()

    def for_numbers(self, positions):
        """Returns the signature of the overload that expects numbers at ``positions``, or None."""
        wanted = [("number" if index in positions else str(one.type)) for index, one in enumerate(self.arguments)]
        for name in self.packet.overloads():
            schema = getattr(self.packet, name)._schema
            if [str(one.type) for one in schema.arguments] == wanted and len(schema.returns) == len(self.returned):
                return Signature(schema)
        return None

    @staticmethod
    def _argument_of(result, arguments):
        if result.alias_info is None:
            return None
        for index, argument in enumerate(arguments):
            alias = argument.alias_info
            if alias is not None and alias.before_set == result.alias_info.before_set:
                return argument.name if argument.kwarg_only else index
        return None
