"""A run may begin with tensors of another network (--init). The run folder has a copy of these tensors, so that the run
does not depend on the other network's files."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from accel_rl.algos.replay_algorithm import ReplayAlgorithm
from accel_rl.checkpoints import tensor_file
from accel_rl.files.durable_files import write_durably
from accel_rl.models.network_state import network_state
from accel_rl.run.run_folder import RunFolder
from accel_rl.text.errors import ConfigError, nearest
from accel_rl.text.output import print_text
from accel_rl.training.learner import Learner

FILE = "init.safetensors"
MOST_LINES = 8
"""The printed list has at most `MOST_LINES` lines about copied layers, and at most `MOST_LINES` lines about other
layers."""


@dataclass(frozen=True, slots=True)
class InitialNetwork:
    """A comparison of another network with a run's network.

    `copied` maps names to the tensors that fit the run's network. The run's other tensors keep their initial values:
    `kept` maps their names to their shapes and to the reason why they were not copied. `source` describes the other
    network.
    """

    source: str
    copied: dict[str, Tensor]
    kept: dict[str, str]

    @classmethod
    def of(cls, source: str, state: Mapping[str, Tensor], model: nn.Module, only: str = "") -> "InitialNetwork":
        """Determine which layers of another network, with the tensors `state`, fit the run's network `model` and are
        copied. A layer fits if all of its tensors fit. `only` is the name of the module of the run's network that is
        copied, or "" for all modules. Raises ConfigError, with a message of one line, if no layer fits."""
        wanted = network_state(model)
        names = [name for name in wanted if not only or name == only or name.startswith(f"{only}.")]
        if not names:
            modules = [name for name, _ in model.named_modules() if name]
            top = dict.fromkeys(name.partition(".")[0] for name in wanted)
            raise ConfigError(f"--init-only {only}: the network has {', '.join(top)}{nearest(only, modules)}")
        unfit = {name: why for name in names if (why := _unfit(wanted[name], state.get(name)))}
        layers = {_layer(name) for name in unfit}
        copied = {name: state[name] for name in names if _layer(name) not in layers}
        if not copied:
            name = names[0]
            why = unfit[name] if name in state else f"its tensors are {', '.join(list(state)[:3])} ..."
            raise ConfigError(f"--init {source}: no layer fits, such as {name} {_kind(wanted[name])}: {why}")
        kept = {
            name: unfit.get(name, "" if name in names else f"not in {only}") for name in wanted if name not in copied
        }
        return cls(
            source, copied, {name: f"{_kind(wanted[name])}{f' ({why})' * bool(why)}" for name, why in kept.items()}
        )

    def lines(self) -> Iterator[str]:
        """Lines about the copied tensors, and about the tensors that keep their initial values."""
        total = len(self.copied) + len(self.kept)
        yield f"init: {len(self.copied)} of {total} tensors are copied from {self.source}"
        yield from _by_layer("copied", {name: _kind(x) for name, x in self.copied.items()})
        yield from _by_layer("as initialised", self.kept)

    def place(self, run: RunFolder) -> None:
        for line in self.lines():
            print_text(line)
            run.event(line)
        tensors = {name: x.detach().cpu().clone() for name, x in self.copied.items()}
        write_durably(run.path / FILE, tensor_file.save(tensors, {"format": "pt"}))


def _by_layer(title: str, tensors: Mapping[str, str]) -> list[str]:
    """A line for each layer, which begins with `title`. `tensors` maps the names of tensors to their descriptions."""
    layers = dict[str, list[str]]()
    for name, text in tensors.items():
        if text.startswith("[0]"):  # A compiled layer may have an empty tensor, which is not listed.
            continue
        layers.setdefault(_layer(name), []).append(f"{name.rpartition('.')[2]} {text}")
    lines = [f"  {title:<14}  {layer}: {', '.join(parts)}" for layer, parts in layers.items()]
    if len(lines) > MOST_LINES:
        more = len(lines) - MOST_LINES + 1
        lines[MOST_LINES - 1 :] = [f"  {title:<14}  ... and {more} more layers"]
    return lines


def _layer(name: str) -> str:
    return name.rpartition(".")[0]


def _unfit(expected: Tensor, given: Tensor | None) -> str:
    """The reason why the tensor `given` of another network cannot replace `expected`, or "" if it can."""
    if given is None:
        return "not in the other network"
    return "" if _kind(given) == _kind(expected) else f"{_kind(given)} in the other network"


def _kind(x: Tensor) -> str:
    name = str(x.dtype).removeprefix("torch.")
    return f"{list(x.shape)}" + ("" if name == "float32" else f" {name}")


@torch.no_grad()
def load(run: RunFolder, learner: Learner) -> None:
    """Copy the tensors of the run's init.safetensors, if any, to a learner that begins to train."""
    file = run.of_run / FILE
    if not file.exists():
        return
    state = network_state(learner.algo.agent.model)
    for name, x in tensor_file.load(file.read_bytes()).items():
        state[name].copy_(x)
    if isinstance(learner.algo, ReplayAlgorithm):
        learner.algo.target_network.update()
