"""A pretended accelerator: a device ``pretended`` that computes on the CPU, and says it does not.

It is for machines without a GPU. Its numbers are the CPU's; what is new is that it refuses to mix
devices as CUDA does, so that a mask or a table that was left on the CPU is an error here, too.

**How.** PyTorch keeps a place for somebody else's device, ``PrivateUse1``. A tensor of ours shares
the memory of a CPU tensor: in a DLPack capsule the device's label is written over. One fallback
serves the operations: it takes the labels off, calls the CPU's, and puts labels on what comes out.

**Where devices may mix**, as in CUDA: copies; a CPU tensor without axes, which is a number; CPU
tensors as indices of one of ours. Drawing numbers here with a CPU generator is an error.

**What it cannot do.** A lazy layer loses in the move that it waits for its input: run it once on
the CPU. ``torch.Generator("pretended")`` is an error, and random numbers are those of the CPU's
global generator. Autocast can be entered, and changes nothing; ``torch.compile`` writes no code for
it. A GPU's own kernels, streams and limits of memory it does not have.

Registering is for the whole process, and for ever.
"""

import ctypes
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._decomp.decompositions import gru_impl, gru_impl_data
from torch.utils import backend_registration

NAME = "pretended"
aten = torch.ops.aten

_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
_EXTERNAL = 12  # kDLExtDev in dlpack.h: what PyTorch takes for PrivateUse1
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
INDEXING = {"index", "index_put", "index_put_impl", "unsafe_index", "unsafe_index_put"}
_libraries: tuple = ()  # what is registered lives as long as these


def labelled(cpu: Tensor) -> Tensor:
    """A tensor of the pretended device in the memory of ``cpu``."""
    cpu = cpu.detach().resolve_conj().resolve_neg()
    size = cpu.untyped_storage().nbytes()
    if cpu.is_contiguous() and cpu.nbytes == size:
        return relabelled(cpu)
    # The same place in the same memory: autograd counts on it where a view is written to. The
    # CPU's function for views looks at no number, so that it serves any device.
    whole = relabelled(cpu.as_strided((size // cpu.itemsize,), (1,), 0))
    layout = cpu.shape, cpu.stride(), cpu.storage_offset()
    return aten.as_strided.default.redispatch(_CPU, whole, *layout)


def relabelled(cpu: Tensor) -> Tensor:
    """The same memory, from its beginning, on the pretended device."""
    capsule = torch._C._to_dlpack(cpu)
    # A DLTensor begins with the pointer to its numbers; the type of the device comes next.
    place = _pointer(capsule, b"dltensor") + ctypes.sizeof(ctypes.c_void_p)
    ctypes.c_int32.from_address(place).value = _EXTERNAL
    return torch._C._from_dlpack(capsule)


def unlabelled(ours: Tensor) -> Tensor:
    """The CPU tensor in the memory of ``ours``."""
    numbers = bytes_of(ours.untyped_storage()).view(ours.dtype)
    cpu = numbers.as_strided(ours.shape, ours.stride(), ours.storage_offset())
    return torch._neg_view(cpu) if ours.is_neg() else cpu.conj() if ours.is_conj() else cpu


def bytes_of(storage: torch.UntypedStorage) -> Tensor:
    """The memory of a storage of ours, as a CPU tensor of bytes."""
    if storage.nbytes() == 0:
        return torch.empty(0, dtype=torch.uint8, device="cpu")
    memory = (ctypes.c_byte * storage.nbytes()).from_address(storage.data_ptr())
    memory.owner = storage  # kept as long as anybody reads it
    return torch.frombuffer(memory, dtype=torch.uint8)


def fallback(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Any operation: refuse to mix, compute on the CPU, label what comes out."""
    arguments = op._schema.arguments[: len(args)]
    args = tuple(map(number_as_tensor, arguments, args))
    named = {argument.name: value for argument, value in zip(arguments, args, strict=True)} | kwargs
    refuse_to_mix(op._schema, named)
    stands_for: dict[int, Tensor] = {}  # by the id of a CPU tensor: what was given
    cpu_args, cpu_kwargs = on_cpu((args, kwargs), stands_for)
    before = [(X, X.shape, X.data_ptr()) for X in tensors((cpu_args, cpu_kwargs))]
    result = op(*cpu_args, **cpu_kwargs)
    for X, shape, place in before:
        if X is not stands_for[id(X)] and (X.shape, X.data_ptr()) != (shape, place):
            stands_for[id(X)].data = labelled(X)  # an ``out`` that was given its size
    here = named.get("device") is None or named["device"].type == NAME
    return with_labels(result, stands_for) if here else result


def refuse_to_mix(schema: torch.FunctionSchema, named: dict[str, Any]) -> None:
    """Raise where a CPU tensor is beside tensors of ours; see above where it may be."""
    name = schema.name.removeprefix("aten::").strip("_")
    if name == "copy" or NAME not in {X.device.type for X in tensors(named)}:
        return
    for argument in schema.arguments:
        is_index = name in INDEXING and argument.name == "indices"
        if is_index and named["self"].device.type == NAME:
            continue
        written = argument.alias_info is not None and argument.alias_info.is_write
        for X in tensors(named.get(argument.name)):
            if X.device.type != NAME and (X.ndim > 0 or written):
                raise RuntimeError(
                    "Expected all tensors to be on the same device, but found at least two "
                    f"devices, {NAME}:0 and {X.device}: {argument.name} of {schema.name}"
                )


def number_as_tensor(argument: Any, value: Any) -> Any:
    """PyTorch writes x + 6 with a tensor for the 6, and then shows Python the number again."""
    if isinstance(argument.type, torch.TensorType) and isinstance(value, int | float | complex):
        dtype = torch.float64 if isinstance(value, float) else None
        return torch.tensor(value, dtype=dtype, device="cpu")
    return value


def tensors(value: Any) -> Iterator[Tensor]:
    """All tensors in lists, tuples and dicts of arguments."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from tensors(part)


def on_cpu(value: Any, stands_for: dict[int, Tensor]) -> Any:
    """The same arguments for the CPU's operation; ``stands_for`` is filled."""
    if isinstance(value, Tensor):
        cpu = unlabelled(value) if value.device.type == NAME else value
        stands_for[id(cpu)] = value
        return cpu
    if isinstance(value, torch.storage._StorageBase | torch.TypedStorage):
        return bytes_of(value.untyped()).untyped_storage()
    if isinstance(value, torch.device):
        return torch.device("cpu")
    if isinstance(value, torch.Generator):
        raise RuntimeError(f"Expected a '{NAME}' device type for generator but found 'cpu'")
    if isinstance(value, dict):
        return {name: on_cpu(part, stands_for) for name, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(on_cpu(part, stands_for) for part in value)
    return value


def with_labels(result: Any, stands_for: dict[int, Tensor]) -> Any:
    """What an operation gives: tensors that it was given come back, others get a label."""
    if isinstance(result, Tensor):
        return stands_for[id(result)] if id(result) in stands_for else labelled(result)
    if type(result) in (list, tuple):
        return type(result)(with_labels(part, stands_for) for part in result)
    return result


def own(op: Any) -> Any:
    """The fallback for an operation that PyTorch would otherwise put together itself."""
    return partial(fallback, op)


def convolution_backward(grad, X, weight, stride, padding, dilation, transposed, *rest):
    bias_sizes = [weight.shape[1] * rest[-2] if transposed else weight.shape[0]]
    sizes = stride, padding, dilation, transposed
    return fallback(aten.convolution_backward.default, grad, X, weight, bias_sizes, *sizes, *rest)


# What PyTorch asks of a device under names that the CPU does not have. A GRU comes in pieces: its
# own step for accelerators is one that the CPU does not have either.
OWN = {
    "copy_": own(aten.copy_.default),
    "clone": own(aten.clone.default),
    "convolution_overrideable": own(aten.convolution.default),
    "convolution_backward_overrideable": convolution_backward,
    "gru.input": gru_impl,
    "gru.data": gru_impl_data,
}


class Module:
    """``torch.pretended``: what PyTorch asks of a device. Random numbers are the CPU's."""

    def is_initialized(self) -> bool:
        return True

    def is_available(self) -> bool:
        return True

    def _is_in_bad_fork(self) -> bool:
        return False

    def device_count(self) -> int:
        return 1

    def current_device(self) -> int:
        return 0

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16]

    def manual_seed_all(self, seed: int) -> None:
        pass

    def manual_seed(self, seed: int) -> None:
        torch.default_generator.manual_seed(seed)

    def get_rng_state(self, device: Any = None) -> Tensor:
        return torch.default_generator.get_state()

    def set_rng_state(self, state: Tensor, device: Any = None) -> None:
        torch.default_generator.set_state(state)


def register() -> None:
    """Make ``torch.device("pretended")`` known to this process."""
    global _libraries
    if not _libraries:
        backend_registration._setup_privateuseone_for_python_backend(NAME, Module())
        everything, some = (torch.library.Library(name, "IMPL") for name in ("_", "aten"))
        everything.fallback(fallback, "PrivateUse1")
        for name, function in OWN.items():
            some.impl(name, function, "PrivateUse1")
            if name.startswith("gru"):
                some.impl(name, function, "AutogradPrivateUse1")
        _libraries = everything, some
