"""The state of a network consists of its parameters, trained or frozen, and its persistent buffers, by name.

Checkpoints, exported models, target networks and acting copies contain the whole state of a network. Buffers that a
module registers with `persistent=False` are excluded, because the module computes them when it is built.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from accel_rl.text.errors import ConfigError, nearest

# In train mode and eval mode, the listed classes of torch compute the same results.
# This project's modules without `has_mode` also compute the same results in both modes.
_WITHOUT_MODE = {
    nn.Sequential, nn.ModuleList, nn.ModuleDict, nn.Linear, nn.Conv2d, nn.LSTMCell, nn.LayerNorm, nn.Identity,
    nn.Flatten, nn.MaxPool2d, nn.AdaptiveMaxPool2d, nn.Tanh, nn.ReLU, nn.ELU, nn.GELU, nn.SiLU,
}  # fmt: skip


def network_state(model: nn.Module) -> dict[str, Tensor]:
    """Tensors by name, as views of the network's memory. Raises ConfigError if a module has state other than tensors
    (`get_extra_state`)."""
    state = dict(model.state_dict())
    for name, x in state.items():
        if not isinstance(x, Tensor):
            raise ConfigError(f"the network's state {name!r} is a {type(x).__name__}: keep it in a buffer, as a tensor")
    return state


def check_parameters(model: nn.Module) -> None:
    """Raise ConfigError, with a message of one line, if a network cannot be trained because its parameters cannot form
    one float32 vector."""
    for name, x in (*model.named_parameters(), *model.named_buffers()):
        if is_lazy(x):
            raise ConfigError(
                f"the network's {name!r} has no shape yet: pass a batch through the network in build_agent, or give "
                "its layer the number of inputs"
            )
    trained = [(name, x) for name, x in model.named_parameters() if x.requires_grad]
    if not trained:
        raise ConfigError("the network has no parameter that is trained")
    for name, x in trained:
        if x.dtype != torch.float32:
            kind = str(x.dtype).removeprefix("torch.")
            raise ConfigError(
                f"the network's {name!r} is {kind}: trained parameters must be float32; --precision is that of products"
            )


def load_network(model: nn.Module, state: Mapping[str, Tensor], source: str) -> None:
    """Copy a state, name by name, in place. `source` describes the state for the error message. Raises ConfigError,
    with a message of one line, and copies no tensor, if names, shapes or dtypes differ."""
    expected = network_state(model)
    check_names({name: _kind(x) for name, x in state.items()}, {n: _kind(x) for n, x in expected.items()}, source)
    model.load_state_dict(dict(state))


def check_names(got: Mapping[str, str], want: Mapping[str, str], source: str) -> None:
    """Raise ConfigError, with a message of one line, if two states differ. `got` maps the names of the tensors in
    `source` to shapes and dtypes, and `want` maps the names of the network's tensors."""
    for name, kind in want.items():
        if name not in got:
            others = nearest(name, [n for n in got if n not in want])
            raise ConfigError(f"{source} has no {name!r}, which the network has ({kind}){others}")
        if got[name] != kind:
            raise ConfigError(f"{source} has {name!r} as {got[name]}, the network has it as {kind}")
    for name in sorted(got):
        if name not in want:
            raise ConfigError(f"{source} has {name!r} ({got[name]}), which the network has not")


def _kind(x: Tensor) -> str:
    return f"{list(x.shape)} {str(x.dtype).removeprefix('torch.')}"


@torch.no_grad()
def copy_network(source: nn.Module, target: nn.Module) -> None:
    """Copy the state of `source` into `target`, a network of the same class, in place."""
    copies = target.state_dict()
    for name, x in source.state_dict().items():
        copies[name].copy_(x)


def statistics(model: nn.Module) -> list[Tensor]:
    """Persistent buffers, such as running means, which updates change although the buffers have no gradient."""
    names = model.state_dict(keep_vars=True)
    return [x for x in names.values() if not isinstance(x, nn.Parameter)]


def has_modes(model: nn.Module) -> bool:
    """Whether any module may behave differently in train mode than in eval mode."""
    return any(
        getattr(m, "has_mode", type(m) not in _WITHOUT_MODE and not type(m).__module__.startswith("accel_rl."))
        for m in model.modules()
    )


@contextmanager
def training_mode(model: nn.Module) -> Iterator[None]:
    """A context in which the network is in train mode instead of eval mode, for updates."""
    model.train()
    try:
        yield
    finally:
        model.eval()


@contextmanager
def buffers_kept(model: nn.Module) -> Iterator[None]:
    """A context at whose end all buffers are restored."""
    before = {name: x.clone() for name, x in model.named_buffers()}
    try:
        yield
    finally:
        with torch.no_grad():
            for name, x in model.named_buffers():
                if name in before:
                    x.copy_(before[name])
