"""RMSProp with epsilon outside the root, in one pass over the memory."""

import torch
from torch import Tensor

from accel_rl.kernels import native


def supports(data: Tensor) -> bool:
    """Whether `rmsprop` supports vectors like this one: contiguous float32 on a CPU, with the kernels compiled."""
    plain = data.device.type == "cpu" and data.dtype == torch.float32 and data.is_contiguous()
    return plain and native.compiled() is not None


def rmsprop(data: Tensor, grad: Tensor, square: Tensor, alpha: float, learning_rate: float, epsilon: float) -> None:
    """One update in place. data, grad, square [P]; see `optim.rmsprop.RMSProp`."""
    addresses = data.data_ptr(), grad.data_ptr(), square.data_ptr()
    threads = torch.get_num_threads()
    native.required().rmsprop(len(data), *addresses, alpha, learning_rate, epsilon, threads)
