"""A window contains the last N steps of several successive rollouts."""

from collections import deque
from typing import Any

import torch
from torch import Tensor

from accel_rl.data.rollout import Rollout
from accel_rl.data.staging import Staging

_ON_HOST = ("terminated", "truncated", "ended", "valid")
_FLAGS = ("action", "reward", *_ON_HOST)


class RolloutWindow:
    """Copies of successive rollouts of T steps, whose last N steps are returned as one rollout.

    Each copy has the observations of steps 0 to T - 1 of its rollout, because the observation after the last step is
    usually the first observation of the next rollout. Final frames are stored only for the few steps at which a time
    limit cut an episode.
    """

    def __init__(self, N: int, T: int, device: torch.device | str = "cpu"):
        if N % T:
            raise ValueError(f"a window of {N} steps is not made of rollouts of {T}")
        self.N = N
        self.T = T
        self.device = torch.device(device)
        self._pieces: deque[dict[str, Tensor]] = deque()
        # `_tail` has the frames [1, B, ...], age [1, B] and recurrent state after the last step.
        self._tail: dict[str, Any] = {}
        self._stack = 1
        self._staging: Staging | None = None

    def append(self, rollout: Rollout) -> None:
        S = rollout.stack
        piece = {name: getattr(rollout, name).clone() for name in _FLAGS}
        piece |= {f"recorded/{k}": v.clone() for k, v in rollout.recorded.items()}
        piece |= {"age": rollout.age[:-1].clone(), "frames": rollout.frames[S - 1 : S - 1 + self.T].clone()}
        host = rollout.on_host
        piece |= {f"host/{name}": getattr(host, name).clone() for name in _ON_HOST if rollout.host is not None}
        cut = torch.nonzero(host.truncated)
        frames = [rollout.final_frames[t, b] for t, b in cut.tolist()]
        piece |= {"cut": cut.T, "cut_frames": torch.stack(frames) if frames else rollout.final_frames[:0, 0].clone()}
        if rollout.state is not None:
            piece["state"] = rollout.state.clone()
        if not self._pieces:
            piece["before"] = rollout.frames[: S - 1].clone()
        self._pieces.append(piece)
        # The stack of frames at the window's first step includes S - 1 earlier frames.
        while (len(self._pieces) - 1) * self.T >= self.N + S - 1:
            self._pieces.popleft()
        self._stack = S
        self._staging = rollout.staging
        self._tail = {"frames": rollout.frames[S - 1 + self.T :].clone(), "age": rollout.age[-1:].clone()}
        self._tail["state"] = rollout.next_state

    @property
    def ready(self) -> bool:
        return len(self._pieces) * self.T >= self.N

    def rollout(self, b: slice) -> Rollout:
        assert self.ready
        S = self._stack
        pieces = list(self._pieces)
        tail = self._tail
        recent = pieces[-(self.N // self.T) :]

        def join(name: str) -> Tensor:
            return torch.cat([p[name][:, b] for p in recent])

        rows = [p["frames"][:, b] for p in pieces]
        if "before" in pieces[0]:
            rows.insert(0, pieces[0]["before"][:, b])
        rows.append(tail["frames"][:, b])
        flags: dict[str, Any] = {name: join(name) for name in _FLAGS}
        host = self._on_host(recent, b)
        if host is None or self._staging is None:
            valid = _without_breaks(flags["valid"], flags["ended"])
        else:  # On a GPU, `_without_breaks` would launch six kernels per step.
            valid = self._staging.put(host.valid)
        return Rollout(
            frames=torch.cat(rows)[-(S - 1 + self.N + 1) :],
            final_frames=self._final_frames(recent, b),
            age=torch.cat([join("age"), tail["age"][:, b]]),
            stack=S,
            recorded={k.removeprefix("recorded/"): join(k) for k in recent[0] if k.startswith("recorded/")},
            state=recent[0]["state"][b] if "state" in recent[0] else None,
            next_state=None if tail["state"] is None else tail["state"][b],
            host=host,
            staging=self._staging,
            **{**flags, "valid": valid},
        )

    def _on_host(self, pieces: list[dict[str, Tensor]], b: slice) -> Rollout | None:
        """The window's flags in host memory, without frames, if the rollouts are on a GPU."""
        if any(f"host/{name}" not in p for p in pieces for name in _ON_HOST):
            return None
        flags: dict[str, Any] = {name: torch.cat([p[f"host/{name}"][:, b] for p in pieces]) for name in _ON_HOST}
        nothing = torch.zeros(0)
        arrays: dict[str, Any] = dict.fromkeys(("frames", "final_frames", "age", "action", "reward"), nothing)
        valid = _without_breaks(flags["valid"], flags["ended"])
        return Rollout(**arrays, **{**flags, "valid": valid}, stack=self._stack)

    def _final_frames(self, pieces: list[dict[str, Tensor]], b: slice) -> Tensor:
        """The last frame of the episode that ended at each step of the window, [N, n, *frame_shape]. If no time limit
        cut an episode, the result takes no memory."""
        like = self._tail["frames"]
        lo, hi, _ = b.indices(like.shape[1])
        if not any(p["cut"].shape[1] for p in pieces):
            return like.new_zeros(1).expand(self.N, hi - lo, *like.shape[2:])
        frames = like.new_zeros(self.N, hi - lo, *like.shape[2:])
        for k, p in enumerate(pieces):
            # The loop is short, because time limits cut few episodes.
            for (t, e), frame in zip(p["cut"].T.tolist(), p["cut_frames"], strict=True):
                if lo <= e < hi:
                    frames[k * self.T + t, e - lo] = frame
        return frames

    def state_dict(self) -> dict[str, Any]:
        return {"pieces": [dict(p) for p in self._pieces], "tail": dict(self._tail), "stack": self._stack}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._pieces = deque({name: self._loaded(name, x) for name, x in p.items()} for p in state["pieces"])
        self._tail = {name: self._loaded(name, x) for name, x in state["tail"].items()}
        self._stack = state["stack"]

    def _loaded(self, name: str, x: Any) -> Any:
        stays = name == "cut" or name.startswith("host/") or not isinstance(x, Tensor)
        return x if stays else x.to(self.device)


def _without_breaks(valid: Tensor, ended: Tensor) -> Tensor:
    """A copy of `valid` that also marks steps with an unknown return as invalid. The return is unknown if the episode
    was interrupted later in the window, because a worker process died."""
    lost = torch.zeros_like(valid[0])
    valid = valid.clone()
    for t in range(valid.shape[0] - 2, -1, -1):
        lost = (lost | ~valid[t + 1]) & ~ended[t]
        valid[t] &= ~lost
    return valid
