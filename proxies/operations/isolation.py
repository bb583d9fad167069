"""The isolation of a pass: what a network or a process holds is the same before and after, and does not matter."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import checkpoint

from ...errors import NotApplicableError

#: Dictionaries inside of a module that a pass may change.
_INNER = ("_parameters", "_buffers", "_modules")
#: Attributes of every module, which no network uses for values of its own.
_OF_MODULES = frozenset(nn.Module().__dict__)


class Places:
    """The places in a network where parameters and buffers lie.

    A tensor goes to every place that held the same parameter, so tied weights and modules of two names stay tied.

    Attributes:
        net: Network.
        parameters: Parameters by name, in the order of definition; a shared one has one name.
        buffers: Buffers by name.
        modules: Modules by name; a module of two names has one here.
    """

    def __init__(self, net: nn.Module) -> None:
        self.net = net
        self.parameters: dict[str, Tensor] = dict(net.named_parameters())
        self.buffers = dict(net.named_buffers())
        self.modules = dict(net.named_modules())
        names = {id(tensor): name for name, tensor in (*self.parameters.items(), *self.buffers.items())}
        self._places = [
            (held, key, names[id(tensor)])
            for module in self.modules.values()
            for held in (module._parameters, module._buffers)
            for key, tensor in held.items()
            if tensor is not None
        ]
        self._writable = [
            (module.__dict__, key)
            for module in self.modules.values()
            for key, value in module.__dict__.items()
            if key not in _OF_MODULES and _is_writable(value)
        ]

    def state(self) -> dict[str, Tensor]:
        """Return copies of parameters and buffers by name."""
        with torch.inference_mode(False), torch.no_grad():
            return {name: tensor.detach().clone() for name, tensor in (*self.parameters.items(), *self.buffers.items())}

    @contextlib.contextmanager
    def given(self, state: Mapping[str, Tensor], training: bool) -> Iterator[None]:
        """Put tensors into the places and set the mode of all modules; restore all attributes afterwards."""
        if any(isinstance(module, torch.jit.ScriptModule) for module in self.modules.values()):
            raise NotApplicableError(
                "a scripted module runs outside of Python, where its operations cannot be seen: give the plain module"
            )
        saved = [
            (m.__dict__, m.__dict__.copy(), [(m.__dict__[key], m.__dict__[key].copy()) for key in _INNER])
            for m in self.modules.values()
        ]
        copies: dict[int, Any] = {}
        for held, key, name in self._places:
            copies[id(held[key])] = state[name]
        try:
            for held, key, name in self._places:
                held[key] = state[name]
            for attributes, _, _ in saved:
                attributes["training"] = training
            for attributes, key in self._writable:
                attributes[key] = _copied(attributes[key], copies)
            yield
        finally:
            for attributes, before, inner in saved:
                attributes.clear()
                attributes.update(before)
                for held, content in inner:
                    held.clear()
                    held.update(content)


def _is_writable(value: Any) -> bool:
    """Tell whether a forward may write into a value, such as a cache, or a list of what it has seen."""
    if type(value) is tuple:
        return any(map(_is_writable, value))
    return isinstance(value, (Tensor, list, dict, set))


def _copied(value: Any, copies: dict[int, Any]) -> Any:
    """Return a copy of a tensor or a container; what is shared stays shared, and parameters are those of the pass."""
    if id(value) in copies:
        return copies[id(value)]
    if isinstance(value, Tensor):
        copies[id(value)] = value.detach().clone()
    elif type(value) is list:
        of_list: list[Any] = []
        copies[id(value)] = of_list
        of_list += [_copied(item, copies) for item in value]
    elif type(value) is dict:
        of_dict: dict[Any, Any] = {}
        copies[id(value)] = of_dict
        of_dict |= {key: _copied(item, copies) for key, item in value.items()}
    elif type(value) is tuple:
        copies[id(value)] = tuple(_copied(item, copies) for item in value)
    elif type(value) is set:
        copies[id(value)] = set(value)
    else:
        return value
    return copies[id(value)]


class _Called:
    """A stand-in for the function of a reentrant checkpoint: it calls the part of the network."""

    @staticmethod
    def apply(function: Any, preserve_rng_state: bool, *args: Any) -> Any:
        """Call the part."""
        return function(*args)


def _called(*args: Any, **named: Any) -> Iterator[None]:
    """Stand in for what runs before and after the part of a network that is checkpointed: nothing."""
    yield


@contextlib.contextmanager
def _no_checkpoints() -> Iterator[None]:
    """Let networks keep the activations that they would compute again in the backward pass.

    There, a part would run again on the network's own tensors, since those of the pass have been taken back by then.
    Networks import the function `checkpoint` by name, so what it calls is replaced.
    """
    stands_in = {"CheckpointFunction": _Called, "_checkpoint_without_reentrant_generator": _called}
    before = {name: getattr(checkpoint, name) for name in stands_in}
    try:
        for name, value in stands_in.items():
            setattr(checkpoint, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(checkpoint, name, value)


@contextlib.contextmanager
def neutral(x: Tensor) -> Iterator[None]:
    """Put aside the settings of the process that change numbers, for images `x`.

    These are the default dtype, the default device, autocast, inference mode, TF32, compilation, checkpoints.
    """
    dtype = torch.get_default_dtype()
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        stack.enter_context(_no_checkpoints())
        stack.enter_context(sdpa_kernel(SDPBackend.MATH))  # fused attention has no second derivative
        if torch.get_default_device() != torch.device("cpu"):
            stack.enter_context(torch.device(x.device))
        for kind in {"cpu", x.device.type}:
            if torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        if x.is_cuda:
            stack.enter_context(_exact_cuda())
        if "torch._dynamo" in sys.modules:
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        try:
            torch.set_default_dtype(x.dtype)
            yield
        finally:
            torch.set_default_dtype(dtype)


@contextlib.contextmanager
def _exact_cuda() -> Iterator[None]:
    """Switch off the GPU settings that make float32 less exact, or different from run to run."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False):
            yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def plain(net: nn.Module) -> nn.Module:
    """Return the network that `torch.compile` has wrapped, or the network itself."""
    inner: Any = getattr(net, "_orig_mod", net)
    return inner if isinstance(inner, nn.Module) else net
