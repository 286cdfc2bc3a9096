"""On random arrays, the portable kernels compute the results of numpy, and results with equal hashes on all machines.

The program `python tests/kernels/portable.py` needs numpy and the built extension, but not torch.
"""

import hashlib
import platform

import numpy as np

from accel_rl.kernels import _native as native

# EXPECTED is the hash of the results on x86-64 (with and without AVX) and on aarch64.
EXPECTED = "d00041e083bdf8076ab1f509c0886ed0"
rng, digest = np.random.default_rng(1), hashlib.sha256()


def at(array: np.ndarray) -> int:
    return array.ctypes.data


# stacks of frames
T, B, N, S, size = 20, 3, 500, 4, 333
frames, out = rng.integers(256, size=(T + S, B, size)).astype(np.uint8), np.empty((N, S, size), np.uint8)
t, b, age = rng.integers(T, size=N), rng.integers(B, size=N), rng.integers(S, size=N).astype(np.uint8)
native.gather_stacks(N, S, size, at(frames), B * size, size, at(t), at(b), at(age), at(out), 1)
expected = np.stack([frames[t + k, b] * (S - 1 - k <= age)[:, None] for k in range(S)], 1)
assert (out == expected).all()
digest.update(out)

# relu, copy
x = rng.standard_normal(1001).astype(np.float32)
expected, copied = np.maximum(x, 0), np.empty_like(x)
native.relu(len(x), at(x))
native.copy(x.nbytes, at(x), at(copied))
assert (x == expected).all() and (copied == x).all()
digest.update(copied)

# Log-probabilities are not hashed, because the last digit of the exponential function depends on the C library.
N, A = 2000, 6
logits, uniform = rng.standard_normal((N, A)).astype(np.float32), rng.random(N, np.float32)
action, log_prob = np.empty(N, np.int64), np.empty(N, np.float32)
native.sample_categorical(N, A, at(logits), at(uniform), at(action), at(log_prob))
wide = logits.astype(np.float64)
log_all = wide - np.log(np.exp(wide).sum(1, keepdims=True))
assert np.allclose(log_prob, log_all[np.arange(N), action], atol=1e-5)
below = np.exp(log_all).cumsum(1)
assert (uniform <= below[np.arange(N), action] + 1e-5).all()
largest = np.empty(N, np.float32)
native.largest_value(N, A, at(logits), at(largest))
assert (largest == logits.max(1)).all()
epsilons = np.full(1, 0.3, np.float32)
native.epsilon_greedy(N, A, at(logits), at(uniform), at(epsilons), 0, at(action))
assert (action[uniform >= 0.3] == logits[uniform >= 0.3].argmax(1)).all()
digest.update(action)
# Layer norms are not hashed, because some CPUs fuse products and sums into one rounded operation.
x, weight, bias = (rng.standard_normal(shape).astype(np.float32) for shape in ((9, 1001), 1001, 1001))
norms = np.empty_like(x)
native.layer_norm(*x.shape, at(x), at(weight), at(bias), at(norms), 1)
wide = x.astype(np.float64)
expected = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5) * weight + bias
assert np.allclose(norms, expected, atol=1e-5)

print(digest.hexdigest()[:32], platform.machine(), native.__file__)
assert digest.hexdigest()[:32] == EXPECTED
