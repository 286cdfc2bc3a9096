"""Central parameters with a checksum for each version of a chunk, which reveals a partly written chunk."""

import zlib

from accel_rl.distributed.central import Central


class CheckedCentral(Central):
    """Central parameters that store the checksum of a chunk in the optimizer state, under the name "check"."""

    def __init__(self, parts, states, fd, *, create):
        super().__init__(parts, [{**state, "check": 0.0} for state in states], fd, create=create)

    def read(self, k):
        parameters, state = super().read(k)
        return parameters, {name: x for name, x in state.items() if name != "check"}

    def publish_spare(self, k, numbers, updates=0):
        word = int(self._words[k, 0])
        copy, version = self._copies[k][word & 1 ^ 1], (word >> 1) + 1
        for name, value in numbers.items():
            copy.numbers[name][0] = value
        copy.numbers["check"][0] = checksum(copy, version)
        super().publish_spare(k, numbers, updates)

    def verify(self, k, timeout_s=10.0):
        """Check the checksum of chunk k, and return the chunk's version."""
        with self.held(k, timeout_s):
            word = int(self._words[k, 0])
            assert is_complete(self._copies[k][word & 1], word >> 1), f"chunk {k} is torn at version {word >> 1}"
            return word >> 1


def checksum(copy, version):
    sums = version
    for x in copy.tensors.values():
        sums = zlib.crc32(x.numpy().data, sums & 0xFFFFFFFF)
    for name, n in copy.numbers.items():
        if name != "check":
            sums = zlib.crc32(n.tobytes(), sums)
    return sums


def is_complete(copy, version):
    return int(copy.numbers["check"][0]) == checksum(copy, version)
