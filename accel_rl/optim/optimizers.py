"""The optimizers for flat parameters by name: Adam, RAdam, AdaGrad and RMSProp without momentum."""

import itertools
import math
from typing import Any, Literal, get_args

import torch
from torch import Tensor
from torch.optim.adam import adam

from accel_rl.machine.devices import Device
from accel_rl.optim.optimizer import ElementWise, Optimizer, Rate, found_inf
from accel_rl.optim.torch_optimizer import FLAG, PREFIX, find_torch_optimizer, make_torch_optimizer
from accel_rl.text.errors import ConfigError, nearest
from accel_rl.text.notes import say_once

# torch's fused operation for Adam is called directly, because torch.optim adds overhead to each step. The operation is
# private, so later versions of torch may lack it.
FUSED_ADAM: Any = getattr(torch, "_fused_adam_", None)
BETA_2 = 0.999
SMALLEST = torch.finfo(torch.float32).tiny
SETTLED = 1e-14  # When beta_2^t < SETTLED, the bias correction of step t is 1 in float32.


class Adam(ElementWise):
    """Adam (Kingma & Ba 2015) by torch's fused operation, with bias-corrected moments and epsilon outside the root.

    The two forms of Adam add epsilon to the root of different second moments. Algorithm 1 (torch) adds epsilon to the
    root of the bias-corrected moment:

        theta <- theta - lr m_hat / (sqrt(v_hat) + epsilon),  m_hat = m / (1 - beta_1^t),  v_hat = v / (1 - beta_2^t)

    The form `epsilon_hat` at the end of the paper's section 2 (Lasagne, TensorFlow; Stooke & Abbeel 2018, appendix A)
    adds epsilon to the root of the moment without bias correction:

        theta <- theta - lr sqrt(1 - beta_2^t) / (1 - beta_1^t) m / (sqrt(v) + epsilon)

    The form `epsilon_hat` equals algorithm 1 with epsilon / sqrt(1 - beta_2^t), which is 32 times epsilon at the first
    step, and nearly epsilon after some thousands of steps.
    """

    def __init__(
        self,
        size: int,
        epsilon: float = 1e-8,
        beta_1: float = 0.9,
        beta_2: float = BETA_2,
        device: str = "cpu",
        epsilon_hat: bool = False,
    ):
        self.epsilon = epsilon
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon_hat = epsilon_hat
        self.mean = torch.zeros(size, device=device)
        self.square = torch.zeros(size, device=device)
        self._steps = 0
        # Steps are counted on the GPU, because the GPU skips steps without the host's knowledge.
        self._count = torch.zeros((), device=device) if Device(device).queues_work else None
        if self._count is not None and epsilon_hat:
            last = math.ceil(math.log(SETTLED) / math.log(beta_2))
            self._factors = self._factor(torch.arange(1, last + 1, dtype=torch.float64)).float().to(device)

    @property
    def steps(self) -> int:
        """Synchronizes with a GPU."""
        return self._steps if self._count is None else int(self._count)

    @steps.setter
    def steps(self, n: int) -> None:
        self._steps = n
        if self._count is not None:
            self._count.fill_(n)

    def step(self, data: Tensor, grad: Tensor, learning_rate: Rate, finite: Tensor | None = None) -> None:
        if self._count is None:
            self._steps += 1
        else:
            self._count.add_(1.0 if finite is None else finite)
        super().step(data, grad, learning_rate, finite)

    def _update(self, part: slice, data: Tensor, grad: Tensor, learning_rate: Rate, finite: Tensor | None) -> None:
        mean, square = self.mean[part], self.square[part]
        if self._count is not None and self.epsilon_hat:
            self._update_on_gpu(data, grad, mean, square, learning_rate, finite)
            return
        step = torch.tensor(float(self._steps)) if self._count is None else self._count
        epsilon = self.epsilon_at(self._steps) if self._count is None else self.epsilon
        settings: dict[str, Any] = {
            "amsgrad": False, "beta1": self.beta_1, "beta2": self.beta_2, "lr": learning_rate, "weight_decay": 0.0,
            "eps": epsilon, "maximize": False, "found_inf": None if finite is None else found_inf(finite),
        }  # fmt: skip
        if FUSED_ADAM is not None:
            FUSED_ADAM([data], [grad], [mean], [square], [], [step], **settings)
        else:
            say_once("torch has no _fused_adam_: torch.optim makes the steps of Adam, which is slower")
            adam([data], [grad], [mean], [square], [], [step - 1], fused=True, **settings)  # `adam` adds 1 to `step`.

    def _update_on_gpu(
        self, data: Tensor, grad: Tensor, mean: Tensor, square: Tensor, learning_rate: Rate, finite: Tensor | None
    ) -> None:
        """Make a step of Adam in the form `epsilon_hat`. The bias correction of the learning rate depends on the number
        of steps, which only the GPU knows, so the correction is read from a table on the GPU."""
        assert self._count is not None
        keep = torch.ones_like(self._count) if finite is None else finite.to(self._count.dtype)
        share_1 = (1 - self.beta_1) * keep  # If an update is skipped, the factors 0 leave the moments unchanged.
        share_2 = (1 - self.beta_2) * keep
        mean.lerp_(grad, share_1)
        square.lerp_(grad.square(), share_2)
        index = self._count.clamp(1, len(self._factors)).long() - 1
        rate = learning_rate * keep * self._factors.index_select(0, index.view(1)).view(())
        data.addcdiv_(rate * mean, self._denominator(square), value=-1)

    def _factor(self, step: Tensor) -> Tensor:
        """Factors [...] float64 by which the learning rate is multiplied at steps t [...]."""
        return (1 - self.beta_2**step).sqrt() / (1 - self.beta_1**step)

    def _denominator(self, square: Tensor) -> Tensor:
        """The denominators [P] of a step on a GPU, by which the running mean of the gradient is divided."""
        return square.sqrt().add_(self.epsilon)

    def epsilon_at(self, steps: int) -> float:
        """The epsilon that is added to the root of the bias-corrected moment at step `steps`, counted from 1."""
        return self.epsilon / math.sqrt(1 - self.beta_2**steps) if self.epsilon_hat else self.epsilon

    def state_dict(self) -> dict[str, Any]:
        return {"mean": self.mean, "square": self.square, "steps": self.steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.mean.copy_(state["mean"])
        self.square.copy_(state["square"])
        self.steps = int(state["steps"])


class RAdam(Adam):
    """Rectified Adam (Liu et al. 2020, arXiv:1908.03265, algorithm 2), with the epsilon of torch.optim.RAdam.

    rho_t = rho_inf - 2 t beta_2^t / (1 - beta_2^t), rho_inf = 2 / (1 - beta_2) - 1
    rho_t > 5:  theta <- theta - lr r_t sqrt(1 - beta_2^t) m_hat / (sqrt(v) + epsilon)
    otherwise:  theta <- theta - lr m_hat
    r_t = sqrt((rho_t - 4) (rho_t - 2) rho_inf / ((rho_inf - 4) (rho_inf - 2) rho_t))
    """

    def __init__(self, size: int, epsilon: float = 1e-8, device: str = "cpu"):
        self._rho_inf = 2 / (1 - BETA_2) - 1
        super().__init__(size, epsilon, device=device, epsilon_hat=True)
        self._first_rectified = next(t for t in itertools.count(1) if self._rho(t) > 5)

    def _rho(self, t: Any) -> Any:
        return self._rho_inf - 2 * t * self.beta_2**t / (1 - self.beta_2**t)

    def _rectification(self, rho: Any) -> Any:
        """r_t squared."""
        high = self._rho_inf
        return (rho - 4) * (rho - 2) * high / ((high - 4) * (high - 2) * rho)

    def _update(self, part: slice, data: Tensor, grad: Tensor, learning_rate: Rate, finite: Tensor | None) -> None:
        if self._count is not None:
            super()._update(part, data, grad, learning_rate, finite)
        elif (rho := self._rho(self._steps)) > 5:
            super()._update(part, data, grad, learning_rate * math.sqrt(self._rectification(rho)), finite)
        else:
            mean = self.mean[part].lerp_(grad, 1 - self.beta_1)
            self.square[part].mul_(self.beta_2).addcmul_(grad, grad, value=1 - self.beta_2)
            data.add_(mean * (-learning_rate / (1 - self.beta_1**self._steps)))

    def _factor(self, step: Tensor) -> Tensor:
        rho = self._rho(step)
        rectified = super()._factor(step) * self._rectification(rho).clamp(min=0).sqrt()
        return torch.where(rho > 5, rectified, 1 / (1 - self.beta_1**step))

    def _denominator(self, square: Tensor) -> Tensor:
        assert self._count is not None
        return super()._denominator(square).masked_fill_(self._count < self._first_rectified, 1.0)


def _root(x: Tensor) -> Tensor:
    """The root of x >= 0. On a CPU, numbers below 1.2e-38 count as 1.2e-38, because MKL needs 20 times as long for the
    root of zero, and a tenth to a half of a network's gradients are always zero."""
    return x.clamp(min=SMALLEST).sqrt_() if x.is_cpu else x.sqrt()


class AdaGrad(ElementWise):
    """Each step is divided by the root of the sum of all squared gradients (diagonal AdaGrad, Duchi et al. 2011, figure
    1).

        s <- s + g^2;  theta <- theta - lr g / (sqrt(s) + epsilon)

    Epsilon is outside the root, as in torch.optim.Adagrad. The sum of squared gradients begins at zero.
    """

    def __init__(self, size: int, epsilon: float = 1e-10, device: str = "cpu"):
        self.epsilon = epsilon
        self.square = torch.zeros(size, device=device)  # `square` is the sum of squared gradients.

    def _update(self, part: slice, data: Tensor, grad: Tensor, learning_rate: Rate, finite: Tensor | None) -> None:
        # If an update is skipped, its gradient is zero, so neither the sum of squares nor the parameters change.
        denominator = _root(self.square[part].addcmul_(grad, grad)).add_(self.epsilon)
        if isinstance(learning_rate, Tensor):
            data.addcdiv_(learning_rate * grad, denominator, value=-1)
        else:
            data.addcdiv_(grad, denominator, value=-learning_rate)

    def state_dict(self) -> dict[str, Any]:
        return {"square": self.square}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.square.copy_(state["square"])


class RMSProp(ElementWise):
    """v <- alpha v + (1 - alpha) g^2; theta <- theta - lr g / denominator.

    If `epsilon_inside` is true, the denominator is sqrt(v + eps) (Lasagne; the first implementations of A2C), and
    otherwise sqrt(v) + eps (torch.optim.RMSprop). The two denominators agree only as eps -> 0. If `centered` is true, v
    - m^2 replaces v, where m is the running mean of g (Graves 2013, eq. 38 to 41; Mnih et al. 2015).
    """

    def __init__(
        self,
        size: int,
        alpha: float,
        epsilon: float,
        epsilon_inside: bool,
        device: str = "cpu",
        centered: bool = False,
    ):
        self.alpha = alpha
        self.epsilon = epsilon
        self.epsilon_inside = epsilon_inside
        self.square = torch.zeros(size, device=device)
        self.mean = torch.zeros(size, device=device) if centered else None

    def _update(self, part: slice, data: Tensor, grad: Tensor, learning_rate: Rate, finite: Tensor | None) -> None:
        square = self.square[part]
        # If an update is skipped, alpha is 1 and the gradient is zero, so the running mean of g^2 does not change.
        alpha: Rate = self.alpha if finite is None else found_inf(finite).clamp(min=self.alpha)
        variance = square.mul_(alpha).addcmul_(grad, grad, value=1 - self.alpha)
        if self.mean is not None:
            mean = self.mean[part].mul_(alpha).add_(grad, alpha=1 - self.alpha)
            # Rounding errors can make v - m^2 negative.
            variance = torch.addcmul(square, mean, mean, value=-1).clamp_(min=0)
        if self.epsilon_inside:
            denominator = variance.add(self.epsilon).sqrt_()
        else:
            denominator = _root(variance).add_(self.epsilon)
        if isinstance(learning_rate, Tensor):
            data.addcdiv_(learning_rate * grad, denominator, value=-1)
        else:
            data.addcdiv_(grad, denominator, value=-learning_rate)

    def state_dict(self) -> dict[str, Any]:
        return {"square": self.square} | ({} if self.mean is None else {"mean": self.mean})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.square.copy_(state["square"])
        if self.mean is not None:
            self.mean.copy_(state["mean"])


AdamName = Literal["adam", "adam-epsilon-hat", "radam"]
"""Forms of Adam. `adam-epsilon-hat` adds epsilon to the root of the second moment without bias correction. `radam` is
rectified Adam."""
OptimizerName = Literal[AdamName, "rmsprop", "rmsprop-torch", "rmsprop-centered", "rmsprop-centered-torch", "adagrad"]
"""All optimizers. Optimizers whose names contain -torch add epsilon outside the root, as in torch.optim.RMSprop.
`adagrad` follows Nair et al. 2015."""


AnyOptimizer = OptimizerName | str
"""An optimizer of this project, or `torch:CLASS`."""


def check_optimizer(name: str) -> None:
    """Raise ConfigError, with a message of one line, unless `name` is an optimizer of this project or of
    torch.optim."""
    allowed = get_args(OptimizerName)
    if name.startswith(PREFIX):
        find_torch_optimizer(name)
    elif name not in allowed:
        near = next(
            (f"; use {PREFIX}{n}" for n in dir(torch.optim) if n.lower() == name.lower()), nearest(name, allowed)
        )
        raise ConfigError(f"{FLAG} {name}: must be one of {', '.join(allowed)} or {PREFIX}CLASS{near}")


def is_adam(name: str) -> bool:
    return name in get_args(AdamName)


def make_optimizer(name: str, size: int, *, alpha: float, epsilon: float, device: str = "cpu") -> Optimizer:
    """`size` is the number of parameters. `alpha` is the decay factor of RMSProp; other optimizers do not use it."""
    if name.startswith(PREFIX):
        return make_torch_optimizer(name, size, epsilon=epsilon, device=device)
    if name == "radam":
        return RAdam(size, epsilon=epsilon, device=device)
    if is_adam(name):
        return Adam(size, epsilon=epsilon, device=device, epsilon_hat=name == "adam-epsilon-hat")
    if name == "adagrad":
        return AdaGrad(size, epsilon=epsilon, device=device)
    inside = not name.endswith("-torch")
    return RMSProp(size, alpha, epsilon, inside, device, centered="centered" in name)
