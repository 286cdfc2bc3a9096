"""How many cores and GPUs of a cluster each member gets."""

from collections.abc import Sequence

from accel_rl.system.errors import ConfigError


def fitting_share(nodes: Sequence[float], members: int) -> float:
    """Return the largest share of a node that `members` members can each have: a whole number, or 1/k.

    nodes: cores (or GPUs) of each node. 0 if the cluster has none.
    """
    if not sum(nodes):
        return 0.0
    for share in range(int(max(nodes)), 0, -1):
        if sum(int(n // share) for n in nodes) >= members:
            return float(share)
    k = 2
    while sum(int(n) * k for n in nodes) < members:
        k += 1
    return 1 / k


def share_of(nodes: Sequence[float], members: int, wanted: float, flag: str, what: str) -> float:
    """Return the share that each member gets: `wanted`, or with 0 the largest that fits. ConfigError if it does not
    fit."""
    if not wanted:
        return fitting_share(nodes, members)
    fit = sum(int(n // wanted) if wanted >= 1 else int(int(n) / wanted) for n in nodes)
    if fit < members:
        there = ", ".join(f"{n:g}" for n in nodes) or "none"
        raise ConfigError(
            f"--gorila.{flag} {wanted:g}: {members} members of {wanted:g} {what} do not fit the cluster's nodes, which "
            f"have {there}; at most {fitting_share(nodes, members):g}"
        )
    return wanted
