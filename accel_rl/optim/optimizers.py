"""Optimizers on flat slices: any contiguous part of the parameters can be updated on its own.

Adam and RMSProp in torch's form go over the memory once, by torch's fused Adam: a quarter of the time that separate
operations take on a CPU. A slice that begins at a multiple of ALIGNMENT gives the same bits as the whole does. On a CPU
all rules go piece by piece, so that a piece stays in the cache for whatever comes next.
"""

import math
from collections.abc import Iterator
from typing import Any, Literal, Protocol, get_args

import torch
from torch import Tensor

ALIGNMENT = 64  # floats; vector instructions round otherwise than the scalar ones at a slice's ragged end
_SETTLED = 1e9  # a step number at which Adam's corrections of its bias are 1; in float32 the next is the same


_PIECE = 1024 * ALIGNMENT  # a quarter of a megabyte of each vector: four of them fit a core's second cache


def _fused_adam(
    data: Tensor, grad: Tensor, mean: Tensor, square: Tensor, step: Tensor, lr: float, betas: tuple[float, float],
    epsilon: float,
) -> None:  # fmt: skip
    """Adam's update number `step` [] in place. The operation itself: torch.optim's way to it takes 0.1 ms longer where
    its code has left the cache, as after every gradient."""
    torch._fused_adam_(
        [data], [grad], [mean], [square], [], [step],
        amsgrad=False, beta1=betas[0], beta2=betas[1], lr=lr, weight_decay=0.0, eps=epsilon, maximize=False,
    )  # fmt: skip


class Optimizer(Protocol):
    """Changes `data` [P] in place by `grad` [P]; its own state is flat as well."""

    def step(self, data: Tensor, grad: Tensor, learning_rate: float) -> None: ...

    def pieces(self, data: Tensor, grad: Tensor, learning_rate: float) -> Iterator[slice]:
        """The same: says of each part of `data` when it is done. To be followed to its end."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class _Pieces:
    """Of a rule that treats each number by itself."""

    def step(self, data: Tensor, grad: Tensor, learning_rate: float) -> None:
        for _ in self.pieces(data, grad, learning_rate):
            pass

    def pieces(self, data: Tensor, grad: Tensor, learning_rate: float) -> Iterator[slice]:
        size = len(data)
        at_once = _PIECE * torch.get_num_threads() if data.device.type == "cpu" else max(size, 1)
        for begin in range(0, size, at_once):
            part = slice(begin, min(begin + at_once, size))
            self._update(part, data[part], grad[part], learning_rate)
            yield part

    def _update(self, part: slice, data: Tensor, grad: Tensor, learning_rate: float) -> None:
        """data, grad: of the part alone."""
        raise NotImplementedError


class RMSProp(_Pieces):
    """RMSProp without momentum, Tieleman & Hinton 2012.

    v <- decay v + (1 - decay) g^2;  theta <- theta - lr g / denominator

    Two named rules that differ by where epsilon stands, since libraries do: `epsilon_inside` sqrt(v + eps) (Lasagne;
    the first A2C codes), else sqrt(v) + eps (torch.optim.RMSprop). They are equal at eps -> 0 only.
    `centered`: v - m^2 takes the place of v, m the running mean of g (Graves 2013, eq. 38 to 41; Mnih et al. 2015).
    """

    def __init__(
        self,
        size: int,
        decay: float,
        epsilon: float,
        epsilon_inside: bool,
        device: str = "cpu",
        centered: bool = False,
    ):
        self.decay, self.epsilon, self.epsilon_inside = decay, epsilon, epsilon_inside
        self.square = torch.zeros(size, device=device)
        self.mean = torch.zeros(size, device=device) if centered else None
        self._scratch = torch.zeros(0, device=device)
        self._settled = torch.tensor(_SETTLED, device=device)

    def _update(self, part: slice, data: Tensor, grad: Tensor, learning_rate: float) -> None:
        square = self.square[part]
        if not self.epsilon_inside and self.mean is None:  # Adam without memory of the gradient and without corrections
            if len(self._scratch) < len(data):
                self._scratch = torch.zeros_like(data)
            scratch, betas = self._scratch[: len(data)], (0.0, self.decay)
            _fused_adam(data, grad, scratch, square, self._settled, learning_rate, betas, self.epsilon)
            return
        variance = square.mul_(self.decay).addcmul_(grad, grad, value=1 - self.decay)
        if self.mean is not None:
            mean = self.mean[part].mul_(self.decay).add_(grad, alpha=1 - self.decay)
            variance = torch.addcmul(square, mean, mean, value=-1).clamp_(min=0)  # below 0 by rounding
        if self.epsilon_inside:
            denominator = variance.add(self.epsilon).sqrt_()
        else:
            denominator = variance.sqrt().add_(self.epsilon)
        data.addcdiv_(grad, denominator, value=-learning_rate)

    def state_dict(self) -> dict[str, Any]:
        return {"square": self.square} | ({} if self.mean is None else {"mean": self.mean})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.square.copy_(state["square"])
        if self.mean is not None:
            self.mean.copy_(state["mean"])


class Adam(_Pieces):
    """Adam, Kingma & Ba 2014: bias-corrected moments, epsilon outside the root.

    Two forms that differ by what epsilon is added to. Algorithm 1 (torch): the bias-corrected root,

        theta <- theta - lr m_hat / (sqrt(v_hat) + epsilon),  m_hat = m / (1 - beta_1^t),  v_hat = v / (1 - beta_2^t)

    `epsilon_hat`, the form at the end of the paper's section 2 (Lasagne, TensorFlow; Stooke & Abbeel 2018, appendix A):
    the uncorrected root,

        theta <- theta - lr sqrt(1 - beta_2^t) / (1 - beta_1^t) m / (sqrt(v) + epsilon)

    which is algorithm 1 with epsilon / sqrt(1 - beta_2^t): 32 times the epsilon at the first step, equal after some
    thousands.
    """

    def __init__(
        self,
        size: int,
        epsilon: float = 1e-8,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        device: str = "cpu",
        epsilon_hat: bool = False,
    ):
        self.epsilon, self.beta_1, self.beta_2, self.epsilon_hat = epsilon, beta_1, beta_2, epsilon_hat
        self.mean = torch.zeros(size, device=device)
        self.square = torch.zeros(size, device=device)
        self.steps = 0

    def pieces(self, data: Tensor, grad: Tensor, learning_rate: float) -> Iterator[slice]:
        self.steps += 1
        return super().pieces(data, grad, learning_rate)

    def _update(self, part: slice, data: Tensor, grad: Tensor, learning_rate: float) -> None:
        betas, step = (self.beta_1, self.beta_2), torch.tensor(float(self.steps), device=data.device)
        mean, square = self.mean[part], self.square[part]
        _fused_adam(data, grad, mean, square, step, learning_rate, betas, self.epsilon_now)

    @property
    def epsilon_now(self) -> float:
        """What is added to the bias-corrected root at the step `steps`."""
        return self.epsilon / math.sqrt(1 - self.beta_2**self.steps) if self.epsilon_hat else self.epsilon

    def state_dict(self) -> dict[str, Any]:
        return {"mean": self.mean, "square": self.square, "steps": self.steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.mean.copy_(state["mean"])
        self.square.copy_(state["square"])
        self.steps = state["steps"]


AdamName = Literal["adam", "adam-epsilon-hat"]
"""Adam by name; `-epsilon-hat`: epsilon beside the root without its bias correction."""
OptimizerName = Literal[AdamName, "rmsprop", "rmsprop-torch", "rmsprop-centered", "rmsprop-centered-torch"]
"""Optimizers by name; `-torch`: epsilon outside the root, as in torch.optim.RMSprop."""


def is_adam(name: str) -> bool:
    """Whether the rule of that name is a form of Adam."""
    return name in get_args(AdamName)


def make_optimizer(name: str, size: int, *, decay: float, epsilon: float, device: str = "cpu") -> Optimizer:
    """The rule of that name for `size` parameters; `decay` is RMSProp's."""
    if is_adam(name):
        return Adam(size, epsilon=epsilon, device=device, epsilon_hat=name == "adam-epsilon-hat")
    inside = not name.endswith("-torch")
    return RMSProp(size, decay, epsilon, inside, device, centered="centered" in name)
