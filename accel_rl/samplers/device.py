"""The sampler of environments that live on the learner's device: frames, rewards and resets never leave it.

    stream of group A    | act | step  | draw | act | step  | draw | ...      a GPU draws one group's frames
    stream of group B          | act | step  | draw | act | step  | ...      beside the steps of another

On a CPU the host build of the same kernels runs, for tests and for machines without a GPU.
"""

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor

from accel_rl.agents.base import Agent
from accel_rl.data.rollout import Rollout
from accel_rl.data.rollout_arrays import SENTINEL_ACTION, SENTINEL_REWARD, TENSORS, RolloutArrays
from accel_rl.data.spec import EnvSpec
from accel_rl.emulator.counter_state import CounterState
from accel_rl.emulator.device.envs import DeviceEnvs, DeviceStep
from accel_rl.emulator.device.game import DeviceGame
from accel_rl.envs.sequential import decorrelation_actions, decorrelation_rng
from accel_rl.envs.state import pack, unpack
from accel_rl.models.precision import Precision
from accel_rl.samplers.episodes import Episode, EpisodeTracker
from accel_rl.samplers.grouping import Grouping, env_seed
from accel_rl.samplers.inference.inference import PLAIN, Acceleration
from accel_rl.samplers.inference.resident import resident_rollout
from accel_rl.samplers.inference.server import ActionServer, is_open_loop
from accel_rl.samplers.workers.stepper import BUFFERS
from accel_rl.system.devices import Device, runtime


class DeviceSampler:
    """`Sampler`'s surface over `DeviceEnvs`. The rollouts are those of the other engines with counter randomness."""

    def __init__(
        self,
        game: DeviceGame,
        spec: EnvSpec,
        grouping: Grouping,
        T: int,
        seed: int,
        env_seed: int,
        *,
        decorrelation_steps: int = 0,
        first_index: int = 0,
        buffers: int = BUFFERS,
        act_threads: int = 1,
        precision: Precision = "float32",
        acceleration: Acceleration = PLAIN,
        window: int = 100,
    ):
        """seed: of the numbers that select actions. env_seed: of the environments. first_index: of the first one among
        those of all ranks. acceleration: selects the form of inference."""
        self.spec, self.T, self.B, self.grouping = spec, T, grouping.B, grouping
        self.device, self._kind = game.device, {"kind": "counter", "game": game.game}
        self._on_gpu = Device(self.device).queues_work
        self._decorrelation_steps, self._first_index = decorrelation_steps, first_index
        self.buffers = buffers
        self.rollout_buffers = [self._new_rollout() for _ in range(buffers)]
        self.server = ActionServer(
            self.rollout_buffers, grouping, str(self.device), act_threads, (), precision, acceleration,
            resident=True,
        )  # fmt: skip
        self._groups = [grouping.group(g) for g in range(grouping.groups)]
        self._env_seed = env_seed
        self._envs = [DeviceEnvs(game, seeds) for seeds in self._seeds()]
        self._outs = [[[_cells(r, t, b) for b in self._groups] for t in range(T)] for r in self.rollout_buffers]
        self._streams = [runtime(self.device).Stream(self.device) for _ in self._groups] if self._on_gpu else []
        self._player = acceleration.player(self.device) if self._on_gpu else None
        self._new_tracker = lambda: EpisodeTracker(self.B, window, decorrelation_steps > 0)
        self.episodes = self._new_tracker()
        self.finished: list[Episode] = []  # in the last rollout
        self.idle: np.ndarray | None = None  # [B] bool: environments that are not stepped, in an evaluation
        self.dropped = 0  # there are no workers to lose
        self._idle = torch.zeros(self.B, dtype=torch.bool, device=self.device)
        self._uniform = torch.Generator().manual_seed(seed)
        self._buffer = 0
        self._is_started = False

    def _new_rollout(self) -> Rollout:
        if self._on_gpu:
            rollout = resident_rollout(self.spec, self.T, self.B, self.device)
        else:
            rollout = Rollout.over(RolloutArrays.zeros(self.spec, self.T, self.B))
        _fill_sentinels(rollout)
        return rollout

    def _seeds(self) -> list[list[int]]:
        """By group, the seed of each environment."""
        return [
            [env_seed(self._env_seed, self._first_index + b) for b in range(group.start, group.stop)]
            for group in self._groups
        ]

    def start(self) -> None:
        """Begin the first episodes, with decorrelated starts."""
        if not self._is_started:
            for g in range(len(self._groups)):
                self._begin(g)
            self._is_started = True

    @torch.no_grad()
    def _begin(self, g: int) -> None:
        """Begin a group's first episodes; see `SequentialEnv.reset`."""
        envs, out, seeds = self._envs[g], DeviceStep.empty(self._envs[g].n, self._envs[g].game), self._seeds()[g]
        envs.begin(out)
        actions = [
            decorrelation_actions(decorrelation_rng(seed), self.spec.n_actions, self._decorrelation_steps)
            for seed in seeds
        ]
        action = torch.full((max(map(len, actions)), envs.n), SENTINEL_ACTION)
        for i, chosen in enumerate(actions):
            action[: len(chosen), i] = torch.from_numpy(chosen)
        frame = out.frame.clone()
        for row in action.to(self.device):
            envs.step(row, out)
            frame = torch.where((row >= 0)[:, None, None], out.frame, frame)
        envs.hide_history()
        rollout = self.rollout_buffers[self._buffer]
        rollout.frames[self.spec.stack - 1, self._groups[g]] = frame
        rollout.age[0, self._groups[g]] = 0

    # -- rollouts ------------------------------------------------------------

    @torch.no_grad()
    def collect(self, agent: Agent) -> Rollout:
        """Play T steps in each environment. The rollout stays whole until as many more as there are buffers but one."""
        self.start()
        buffer, uniform = self._buffer, torch.rand(self.T, self.B, generator=self._uniform)
        if self.idle is not None:
            self._idle.copy_(torch.from_numpy(self.idle))
        if is_open_loop(agent):
            self.server.draw_all(agent, buffer, uniform)
        else:
            self.server.begin(agent, buffer, uniform)
        self._play(None if is_open_loop(agent) else agent, buffer)
        rollout = self.server.finish(buffer)
        self.finished = self.episodes.add(_arrays(rollout.on_host))
        self._buffer = (buffer + 1) % len(self.rollout_buffers)
        following, S = self.rollout_buffers[self._buffer], self.spec.stack
        following.frames[:S].copy_(rollout.frames[-S:])
        following.age[0].copy_(rollout.age[-1])
        return rollout

    def rollouts(self, agent: Agent, fixed: bool = False) -> Iterator[Rollout]:
        """Yield the rollouts that `collect` returns."""
        while True:
            yield self.collect(agent)

    def _play(self, agent: Agent | None, buffer: int) -> None:
        """Play a rollout. agent: None if its actions are drawn."""
        if self._player is None:
            self._steps(agent, buffer)
            return
        state = self.server.state
        settings = self.idle is not None, None if state is None else state.data_ptr()
        self._player.play(agent, buffer, settings, lambda side_by_side: self._steps(agent, buffer, side_by_side))

    @torch.no_grad()
    def _steps(self, agent: Agent | None, buffer: int, side_by_side: bool = False) -> None:
        """Play a rollout step by step. side_by_side: a stream for each group."""
        streams = self._streams if side_by_side else []
        self._fork(streams)
        for t in range(self.T):
            for g, b in enumerate(self._groups):
                with runtime(self.device).stream(streams[g]) if streams else nullcontext():
                    if agent is not None:
                        self.server.serve(agent, buffer, t, g)
                    action = self.rollout_buffers[buffer].action[t, b]
                    if self.idle is not None:
                        action.masked_fill_(self._idle[b], SENTINEL_ACTION)
                    self._envs[g].step(action, self._outs[buffer][t][g])
        self._join(streams)

    def _fork(self, streams: list[Any]) -> None:
        for stream in streams:
            stream.wait_stream(runtime(self.device).current_stream(self.device))

    def _join(self, streams: list[Any]) -> None:
        for stream in streams:
            runtime(self.device).current_stream(self.device).wait_stream(stream)

    def check(self) -> None:
        """There are no workers that could die."""

    # -- state ------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """As `Sampler.state_dict`: every engine can go on from it."""
        self.start()
        rollout, S = self.rollout_buffers[self._buffer], self.spec.stack
        return {
            "envs": [self._packed(state) for envs in self._envs for state in envs.get_state()],
            "frames": rollout.frames[:S].cpu().numpy().copy(),
            "age": rollout.age[0].cpu().numpy().copy(),
            "uniform": self._uniform.get_state(),
            "memory": None if self.server.state is None else self.server.state.cpu(),
            "episodes": self.episodes.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state of any engine with counter randomness, bit for bit. ValueError for another state."""
        states = [self._unpacked(one) for one in state["envs"]]
        if len(states) != self.B:
            raise ValueError(f"states of {len(states)} environments; this sampler has {self.B}")
        for envs, b in zip(self._envs, self._groups, strict=True):
            envs.set_state(states[b])
        self._is_started = True
        rollout, S = self.rollout_buffers[self._buffer], self.spec.stack
        rollout.frames[:S].copy_(torch.from_numpy(np.array(state["frames"])))
        rollout.age[0].copy_(torch.from_numpy(np.array(state["age"])))
        self._uniform.set_state(state["uniform"])
        if state["memory"] is not None:
            self.server.state = state["memory"].to(self.device)
        self.episodes.load_state_dict(state["episodes"])

    def _packed(self, state: bytes) -> bytes:
        """The state of one environment as `SequentialEnv` has it."""
        found = CounterState.from_bytes(state)
        rng = decorrelation_rng(found.seed).bit_generator.state  # not needed after the start
        header = {"kind": "batch", "waiting": False, "age": found.age, "rng": rng}
        return pack(header, pack(self._kind, state))

    def _unpacked(self, state: bytes) -> bytes:
        header, blob = unpack(state, kind="batch")
        found = CounterState.from_bytes(unpack(blob, **self._kind)[1])
        return found._replace(age=header["age"]).to_bytes()

    def reseed(self, seed: int) -> None:
        """Restart from another seed: later rollouts are bitwise identical to those of a new sampler with that seed."""
        self._env_seed = seed
        for envs, seeds in zip(self._envs, self._seeds(), strict=True):
            envs.reseed(seeds)
        for rollout in self.rollout_buffers:
            _fill_sentinels(rollout)
        self.episodes, self.finished, self.idle = self._new_tracker(), [], None
        self.server.forget()
        self._uniform.manual_seed(seed)
        self._buffer, self._is_started = 0, False

    def close(self) -> None:
        self.server.close()


def _cells(rollout: Rollout, t: int, b: slice) -> DeviceStep:
    """The cells that step t of environments b writes; see `RolloutArrays.step`."""
    return DeviceStep(
        frame=rollout.frames[rollout.stack + t, b],
        final_frame=rollout.final_frames[t, b],
        age=rollout.age[t + 1, b],
        reward=rollout.reward[t, b],
        terminated=rollout.terminated[t, b],
        truncated=rollout.truncated[t, b],
        ended=rollout.ended[t, b],
        valid=rollout.valid[t, b],
    )


def _fill_sentinels(rollout: Rollout) -> None:
    rollout.action.fill_(SENTINEL_ACTION)
    rollout.reward.fill_(SENTINEL_REWARD)


def _arrays(rollout: Rollout) -> RolloutArrays:
    """The cells of a rollout in host memory as numpy arrays; frames only where they are in host memory, too."""

    def array(x: Tensor) -> Any:
        return x.numpy() if x.device.type == "cpu" else None

    info = np.zeros((rollout.T, rollout.B, 0), np.uint8)  # Atari games report none
    return RolloutArrays(**{name: array(getattr(rollout, name)) for name in TENSORS}, info=info, stack=rollout.stack)
