"""Adapts any optimizer of torch.optim to flat parameters."""

import inspect
from typing import Any

import torch
from torch import Tensor, nn

from accel_rl.machine.devices import Device
from accel_rl.optim.optimizer import Rate
from accel_rl.text.errors import ConfigError, nearest
from accel_rl.text.imports import parse_call

PREFIX = "torch:"
FLAG = "--algo.optimizer"


class TorchOptimizer:
    """An optimizer of torch.optim for flat parameters, such as `TorchOptimizer(torch.optim.RAdam, size, eps=1e-8)`. The
    algorithm's schedule sets the learning rate.

    The state consists of vectors [P] and numbers, as for every optimizer of flat parameters. On a GPU, skipping an
    update does not make the host wait, but parameters and state are copied in every update. Optimizers without the
    option `capturable` synchronize with the GPU in each step, so their updates are not captured on a GPU; events.log
    records this."""

    def __init__(self, cls: type[torch.optim.Optimizer], size: int, device: str = "cpu", **options: Any):
        """`cls` is an optimizer class of torch.optim, or a class with the same interface. `options` are the options of
        `cls`, without lr. Raises ValueError if the class has no state for a single vector (LBFGS)."""
        self._parameter = nn.Parameter(torch.zeros(size, device=device))
        if Device(device).queues_work and "capturable" in inspect.signature(cls).parameters:
            options = {"capturable": True, **options}
        self._optimizer = cls([self._parameter], lr=1.0, **options)  # type: ignore[call-arg]
        self._parameter.grad = torch.zeros_like(self._parameter)
        begin = getattr(self._optimizer, "_init_group", None)
        if begin is None:
            raise ValueError(f"{cls.__name__}: torch.optim optimizers with a state for each parameter are supported")
        # `_init_group` creates the optimizer's state before the first step.
        begin(self._group, *([] for _ in range(len(inspect.signature(begin).parameters) - 1)))
        # SGD's momentum begins at zero, so that torch's first step sets it to the first gradient, as without a state.
        if isinstance(self._optimizer, torch.optim.SGD) and self._group["momentum"]:
            self._optimizer.state[self._parameter]["momentum_buffer"] = torch.zeros_like(self._parameter.data)

    @property
    def _group(self) -> dict[str, Any]:
        return self._optimizer.param_groups[0]

    @property
    def _state(self) -> dict[str, Tensor]:
        state = self._optimizer.state[self._parameter]
        return {name: x for name, x in state.items() if isinstance(x, Tensor)}

    def step(self, data: Tensor, grad: Tensor, learning_rate: Rate, finite: Tensor | None = None) -> None:
        self._parameter.data = data
        self._parameter.grad = grad
        self._group["lr"] = learning_rate
        if finite is None:
            self._optimizer.step()
            return
        changed = [data, *self._state.values()]
        before = [x.clone() for x in changed]
        self._optimizer.step()
        for x, old in zip(changed, before, strict=True):
            x.copy_(torch.where(finite, x, old))

    def state_dict(self) -> dict[str, Any]:
        """The optimizer's state: vectors [P] and numbers."""
        return {name: x if x.dim() else float(x) for name, x in self._state.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        tensors = self._optimizer.state[self._parameter]
        for name, x in state.items():
            if name not in self._state:  # Some optimizers create their state only in the first step.
                tensors[name] = torch.empty_like(self._parameter.data)
            if isinstance(x, Tensor):
                tensors[name].copy_(x)
            else:
                tensors[name].fill_(x)


def find_torch_optimizer(name: str) -> tuple[type[torch.optim.Optimizer], dict[str, Any]]:
    """(class, options) of `torch:AdamW` or `torch:AdamW(weight_decay=0.01)`. Raises ConfigError, with a message of one
    line, for an unknown class or option."""
    text = name.removeprefix(PREFIX)
    class_name, options = parse_call(text, f"{FLAG} {PREFIX}", "the name of a class of torch.optim")
    classes = {
        n: x for n, x in vars(torch.optim).items() if isinstance(x, type) and issubclass(x, torch.optim.Optimizer)
    }
    del classes["Optimizer"]
    if class_name not in classes:
        allowed = ", ".join(sorted(classes))
        raise ConfigError(f"{FLAG} {name}: torch.optim has {allowed}{nearest(class_name, classes)}")
    cls = classes[class_name]
    names = [n for n in inspect.signature(cls).parameters if n not in ("params", "lr")]
    for option in options:
        if option not in names:
            raise ConfigError(f"{FLAG} {name}: {class_name} has the options {', '.join(names)}{nearest(option, names)}")
    try:
        TorchOptimizer(cls, 1, **options)
    except Exception as e:
        raise ConfigError(f"{FLAG} {name}: {' '.join(str(e).split())}") from e
    return cls, options


def make_torch_optimizer(name: str, size: int, *, epsilon: float, device: str = "cpu") -> TorchOptimizer:
    """`size` is the number of parameters. If the class has the option `eps`, its value is `epsilon`, unless `name`
    contains another value."""
    cls, options = find_torch_optimizer(name)
    if "eps" in inspect.signature(cls).parameters:
        options = {"eps": epsilon, **options}
    return TorchOptimizer(cls, size, device, **options)


def uncapturable(name: str) -> str:
    """Why the updates of an optimizer `torch:CLASS` cannot be captured as a CUDA graph, or ""."""
    if not name.startswith(PREFIX):
        return ""
    cls, _ = find_torch_optimizer(name)
    return "" if "capturable" in inspect.signature(cls).parameters else f"torch.optim.{cls.__name__} waits for the GPU"
