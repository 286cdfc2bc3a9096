"""Optimizers by name."""

from typing import Literal, get_args

from accel_rl.optim.adagrad import AdaGrad
from accel_rl.optim.adam import Adam
from accel_rl.optim.optimizer import Optimizer
from accel_rl.optim.rmsprop import RMSProp

AdamName = Literal["adam", "adam-epsilon-hat"]
"""Forms of Adam. `-epsilon-hat`: epsilon is added to the root without bias correction."""
OptimizerName = Literal[AdamName, "rmsprop", "rmsprop-torch", "rmsprop-centered", "rmsprop-centered-torch", "adagrad"]
"""All optimizers. `-torch`: epsilon outside the root, as in torch.optim.RMSprop. adagrad: Nair et al. 2015."""


def is_adam(name: str) -> bool:
    """Whether `name` is a form of Adam."""
    return name in get_args(AdamName)


def make_optimizer(name: str, size: int, *, alpha: float, epsilon: float, device: str = "cpu") -> Optimizer:
    """Build the optimizer `name` for `size` parameters. alpha: RMSProp's decay factor; the others ignore it."""
    if is_adam(name):
        return Adam(size, epsilon=epsilon, device=device, epsilon_hat=name == "adam-epsilon-hat")
    if name == "adagrad":
        return AdaGrad(size, epsilon=epsilon, device=device)
    inside = not name.endswith("-torch")
    return RMSProp(size, alpha, epsilon, inside, device, centered="centered" in name)
