"""VectorEnv gives the results of ale-py's AtariVectorEnv. Buffers, order of arrival, resets and invalid input are also
tested."""

import copy
import dataclasses
import itertools
from typing import Any, get_args, get_origin, get_type_hints

import gymnasium
import numpy as np
import pytest

pytest.importorskip("ale_py")
pytest.importorskip("accel_rl.emulator._core")

from ale_py.vector_env import AtariVectorEnv

from accel_rl.emulator import VectorEnv
from accel_rl.emulator.games import vector_games
from accel_rl.emulator.single_env import SingleEnv
from accel_rl.emulator.vector_env import GameNumbers, StepResult, VectorInfo
from accel_rl.emulator.vector_options import VectorOptions
from accel_rl.text.errors import ConfigError
from tests.marks import slow

OURS = {"_final_obs", "final_info", "_final_info"}  # entries of VectorEnv's `info` that AtariVectorEnv's `info` lacks


def assert_equal(theirs: tuple, ours: tuple, where: str) -> None:
    """Compare the results of one call of `reset` or `step`, except for the observations at an episode's end."""
    a, b = theirs[-1], ours[-1]
    assert set(a) == set(b) - OURS, where
    for key in set(a) - {"final_obs"}:
        np.testing.assert_array_equal(b[key], a[key], err_msg=f"{where}: {key}")
    for name, x, y in zip(("obs", "reward", "terminated", "truncated"), theirs[:-1], ours[:-1], strict=False):
        assert x.dtype == y.dtype and x.shape == y.shape, f"{where}: {name}"
        if name != "obs":
            np.testing.assert_array_equal(y, x, err_msg=f"{where}: {name}")
    ended = theirs[2] | theirs[3] if len(theirs) == 5 else np.zeros(len(theirs[0]), bool)
    seen = ~ended | ("final_obs" in a)  # assert_ends_equal compares the last observations of episodes.
    np.testing.assert_array_equal(ours[0][seen], theirs[0][seen], err_msg=f"{where}: obs")


def assert_ends_equal(theirs: tuple, ours: tuple, before: tuple, where: str, settings: dict[str, Any]) -> None:
    """Compare the observations at an episode's end. The older frames must be equal, but the newest frame of ale-py is
    wrong.

    ale-py never reads the screen at which an episode ends. The newest frame of ale-py's final observation is the
    previous frame, or the maximum of the previous frame and the second-last screen (`test_the_last_screen_is_shown`).
    If an episode ends with a lost life while the game continues, ale-py's `obs` is right, but its `final_obs` is
    uninitialized memory.
    """
    same_step = "final_obs" in theirs[-1]
    seen, our_seen = (theirs[-1]["final_obs"], ours[-1]["final_obs"]) if same_step else (theirs[0], ours[0])
    info = ours[-1]["final_info"] if same_step else ours[-1]
    ended = theirs[2] | theirs[3]
    if same_step:
        np.testing.assert_array_equal(ours[-1]["_final_obs"], ended, err_msg=where)
    goes_on = ended & ~theirs[3] & (info["lives"] > 0) & settings.get("life_loss_info", False)
    if not same_step:
        np.testing.assert_array_equal(our_seen[goes_on], seen[goes_on], err_msg=f"{where}: obs")
    stopped = ended & ~goes_on
    np.testing.assert_array_equal(our_seen[stopped, :-1], seen[stopped, :-1], err_msg=f"{where}: obs at the end")
    frames = info["frame_number"] - before[1]["frame_number"]
    assert (seen[stopped, -1] >= before[0][stopped, -1]).all(), where
    stale = stopped & ((frames < settings.get("frameskip", 4)) | (not settings.get("maxpool", True)))
    np.testing.assert_array_equal(seen[stale, -1], before[0][stale, -1], err_msg=f"{where}: the peer's stale frame")


def compare(game: str, steps: int, n: int = 2, seed: int = 3, **settings: Any) -> int:
    """The number of ends."""
    theirs = AtariVectorEnv(game, n, num_threads=1, **settings)
    ours = VectorEnv(game, n, num_threads=1, **settings)
    assert ours.single_observation_space == theirs.single_observation_space
    assert ours.action_space == theirs.action_space
    rng = np.random.default_rng(seed)
    before, ours_before = theirs.reset(seed=seed), ours.reset(seed=seed)
    assert_equal(before, ours_before, f"{game}, reset")
    ends = 0
    for t in range(steps):
        if settings.get("continuous"):
            actions = rng.uniform((0, -np.pi, 0), (1, np.pi, 1), (n, 3)).astype(np.float32)
            actions[rng.random(n) < 0.3, 0] = 1  # a fully pushed joystick
        else:
            actions = rng.integers(ours.single_action_space.n, size=n)
        result, our_result, where = theirs.step(actions), ours.step(actions), f"{game} {settings}, step {t}"
        assert_equal(result, our_result, where)
        if (result[2] | result[3]).any():
            assert_ends_equal(result, our_result, before, where, settings)
            ends += int(np.sum(result[2] | result[3]))
        before = (result[0].copy(), result[-1])
    theirs.close()
    ours.close()
    return ends


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
@pytest.mark.parametrize("game", ["seaquest", *(slow(g) for g in ("breakout", "pong", "double_dunk"))])
def test_it_plays_as_the_peer(game: str, mode: str) -> None:
    compare(game, 100, autoreset_mode=mode, repeat_action_probability=0.25)


@pytest.mark.parametrize(
    "settings",
    [
        slow({"episodic_life": True}),
        slow({"life_loss_info": True}),
        {"episodic_life": True, "autoreset_mode": "SameStep"},
        {"life_loss_info": True, "autoreset_mode": "SameStep"},
        slow({"max_num_frames_per_episode": 101}),
        {"max_num_frames_per_episode": 101, "autoreset_mode": "SameStep"},
        {"frameskip": 3, "full_action_space": True, "use_fire_reset": False},
        {"frameskip": 1, "maxpool": False, "stack_num": 1},
        {"noop_max": 0, "reward_clipping": False, "maxpool": False, "stack_num": 2},
    ],
    ids=lambda s: "-".join(f"{k}={v}" for k, v in s.items()),
)
def test_settings_mean_what_they_mean_to_the_peer(settings: dict[str, Any]) -> None:
    # With lost lives, compare two environments, whose episodes end at different steps.
    n = 2 if {"episodic_life", "life_loss_info"} & set(settings) else 1
    ends = compare("breakout", 80, n, **settings)
    assert ends > 0 or not {"episodic_life", "life_loss_info", "max_num_frames_per_episode"} & set(settings)


@pytest.mark.parametrize("limit", [slow(108_000), 100], ids=["game over", "time limit"])
def test_the_last_screen_is_shown(limit: int) -> None:
    """At an episode's end, VectorEnv's frame equals the last screen of ALEInterface, but AtariVectorEnv's frame is
    older.

    AtariVectorEnv never reads the screen at which an episode ends. AtariVectorEnv returns the previous step's frame, or
    the maximum of this frame and the last step's second-last screen if it has read that screen.
    """
    import ale_py
    import cv2

    from accel_rl.emulator.games import rom_path
    from accel_rl.envs.colors import luminance

    settings: dict[str, Any] = {"noop_max": 0, "use_fire_reset": False, "stack_num": 1}
    settings["max_num_frames_per_episode"] = limit
    theirs, ours = AtariVectorEnv("breakout", 1, num_threads=1, **settings), VectorEnv("breakout", 1, **settings)

    def shown(*screens: np.ndarray) -> np.ndarray:
        return cv2.resize(np.maximum.reduce(screens), (84, 84), interpolation=cv2.INTER_AREA)

    referee = ale_py.ALEInterface()
    referee.setFloat("repeat_action_probability", 0.0)
    referee.loadROM(rom_path("breakout"))
    codes = referee.getMinimalActionSet()
    wrong, lengths = 0, set()
    for seed in range(4):
        referee.reset_game()
        rng = np.random.default_rng(seed)
        theirs.reset()  # no seed: with a seed, ale-py would load the ROM again
        ours.reset()
        before = luminance(210)[referee.getScreen()]
        ended, frames = False, 0
        while not ended:
            action = rng.integers(4, size=1)
            their_obs, _, their_end, their_late, _ = theirs.step(action)
            obs, _, terminated, truncated, _ = ours.step(action)
            ended = bool(terminated[0] or truncated[0])
            assert ended == bool(their_end[0] or their_late[0])
            screens = []
            while len(screens) < 4 and frames < limit and not referee.game_over():
                referee.act(codes[action[0]])
                screens.append(luminance(210)[referee.getScreen()])
                frames += 1
            whole = len(screens) == 4
            np.testing.assert_array_equal(obs[0, 0], shown(*(screens[-2:] if whole else screens[-1:])))
            if not ended:
                before = np.maximum(*screens[-2:])
            np.testing.assert_array_equal(their_obs[0, 0], shown(before, *(screens[2:3] if whole else [])))
        lengths.add(len(screens))
        wrong += bool((their_obs != obs).any())
    assert wrong
    assert lengths == {4} if limit == 100 else lengths - {4}


def test_resets_go_on_with_the_seeds_streams() -> None:
    theirs, ours = AtariVectorEnv("assault", 2, num_threads=1), VectorEnv("assault", 2)
    for seed in (7, None, None, np.array([5, -1]), 7):
        assert_equal(theirs.reset(seed=seed), ours.reset(seed=seed), f"seed {seed}")
    theirs.step(np.array([1, 2]))
    ours.step(np.array([1, 2]))
    options = {"reset_mask": np.array([False, True])}
    assert_equal(theirs.reset(options=options), ours.reset(options=options), "a part")


def test_threads_play_the_same() -> None:
    envs = [VectorEnv("breakout", 5, num_threads=k, thread_affinity_offset=o) for k, o in ((1, -1), (3, 0))]
    for env in envs:
        env.reset(seed=1)
    for t in range(60):
        one, three = (env.step(np.full(5, t % 4)) for env in envs)
        assert_equal(one, three, f"step {t}")


def test_arrival() -> None:
    """The games of an environment do not depend on whether recv returns batches of 2 or of all 6 environments."""
    whole, parts = VectorEnv("pong", 6, noop_max=0), VectorEnv("pong", 6, noop_max=0, batch_size=2, num_threads=2)
    first, _ = whole.reset(seed=0)
    obs, info = parts.reset(seed=0)
    assert obs.shape == (2, 4, 84, 84)
    np.testing.assert_array_equal(obs, first[info["env_id"]])
    trace = [whole.step(np.full(6, t % 6))[0] for t in range(60)]
    steps = np.zeros(6, int)
    for _ in range(60):
        which = info["env_id"]
        assert len(set(which)) == 2
        parts.send(steps[which] % 6)
        steps[which] += 1
        obs, _, _, _, info = parts.recv()
        for i, picture in zip(info["env_id"], obs, strict=True):
            if steps[i]:
                np.testing.assert_array_equal(picture, trace[steps[i] - 1][i])
    assert (steps > 0).all()


def test_disabled_waits_for_the_mask() -> None:
    env = VectorEnv("pong", 3, autoreset_mode="Disabled", max_num_frames_per_episode=40, noop_max=20)
    env.reset(seed=2)
    for _ in range(5):
        env.step(np.array([2, 3, 0]))
    env.reset(options={"reset_mask": np.array([True, False, False])})  # it ends later
    while True:
        obs, _, _, truncated, info = env.step(np.array([2, 3, 0]))
        if truncated.any():
            break
    np.testing.assert_array_equal(truncated, [False, True, True])
    with pytest.raises(gymnasium.error.ResetNeeded, match="have ended"):
        env.step(np.array([2, 3, 0]))
    shown, later = env.reset(options={"reset_mask": truncated})
    assert (later["episode_frame_number"][truncated] < 20).all()
    np.testing.assert_array_equal(shown[~truncated], obs[~truncated])
    np.testing.assert_array_equal(later["episode_frame_number"][~truncated], info["episode_frame_number"][~truncated])
    env.step(np.array([2, 3, 0]))


def test_final_info_is_that_of_the_end() -> None:
    env = VectorEnv("pong", 2, autoreset_mode="SameStep", max_num_frames_per_episode=40, noop_max=20)
    env.reset(seed=2)
    seen = 0
    for _ in range(30):
        _, _, _, truncated, info = env.step(np.array([2, 3]))
        if truncated.any():
            np.testing.assert_array_equal(info["_final_info"], truncated)
            assert (info["final_info"]["episode_frame_number"][truncated] >= 40).all()
            assert (info["episode_frame_number"][truncated] < 20).all()
            seen += 1
    assert seen


def test_two_buffers_are_written_in_turn() -> None:
    torch = pytest.importorskip("torch")
    env, reference = VectorEnv("pong", 2, copy=False), VectorEnv("pong", 2)
    tensors = [torch.from_numpy(env.reset(seed=0)[0])]
    kept = [reference.reset(seed=0)[0]]
    for _ in range(20):
        tensors.append(torch.from_numpy(env.step(np.array([2, 3]))[0]))
        kept.append(reference.step(np.array([2, 3]))[0])
        for tensor, obs in zip(tensors[-2:], kept[-2:], strict=True):
            np.testing.assert_array_equal(tensor.numpy(), obs)
    assert len({t.data_ptr() for t in tensors}) == 2


def test_results_have_the_declared_arrays() -> None:
    """The arrays that VectorEnv returns have the dtypes that its type hints declare, which mypy cannot check in C++
    code."""
    env = VectorEnv("pong", 2, autoreset_mode="SameStep", max_num_frames_per_episode=4)
    obs, info = env.reset(seed=0)
    results = [(obs, info), env.step(np.zeros(2, int))]
    hints, numbers = get_type_hints(VectorInfo), get_type_hints(GameNumbers)
    assert set(results[0][-1]) == set(numbers) and set(results[1][-1]) == set(hints) - {"game"}
    for result in results:
        for value, hint in zip(result[:-1], get_args(StepResult), strict=False):
            assert type(value) is get_origin(hint) and value.dtype == get_args(get_args(hint)[1])[0]
        for name, value in result[-1].items():
            if name == "final_info":
                assert set(value) == set(numbers)
            else:
                assert value.dtype == get_args(get_args(hints[name])[1])[0], name


def test_options_are_kept_and_constant() -> None:
    env = VectorEnv("pong", 2, frameskip=3)
    assert env.options == VectorOptions("pong", 2, frameskip=3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        env.options.frameskip = 4  # type: ignore[misc]
    with pytest.raises(TypeError, match="num_envs"):
        VectorEnv("pong")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"game": "pongg"}, "nearest: pong"),
        ({"game": "PongNoFrameskip-v4"}, "nearest: pong"),
        ({"game": "ALE/MsPacman-v5"}, "nearest: ms_pacman"),
        ({"game": "pong", "grayscale": False}, "use obs_type='rgb'"),
        ({"game": "king_kong"}, "AtariVectorEnv"),
        ({"img_height": 64}, "img_height=64: must be 84; for others use ale_py"),
        ({"grayscale": False}, "grayscale=False: must be True"),
        ({"frameskip": 0}, "frameskip=0: must be a whole number from 1"),
        ({"batch_size": 3}, "batch_size=3: must be a whole number from 0 to 2"),
        ({"autoreset_mode": "SameStepp"}, "nearest: SameStep"),
        ({"repeat_action_probability": 1.5}, "must be from 0 to 1"),
        ({"obs_type": "None"}, "obs_type='None': must be one of None, rgb, grayscale, ram"),
        ({"num_envs": "2"}, "num_envs='2': must be a whole number from 1 to 65536"),
    ],
)
def test_what_it_has_not_is_said_in_a_line(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        VectorEnv(**({"game": "pong", "num_envs": 2} | settings))
    assert "\n" not in str(caught.value)


def test_batches_are_answered_in_any_order() -> None:
    """Batches may be received and answered in the order recv, recv, send, send, recv, as in AtariVectorEnv and
    EnvPool."""
    envs, alone = VectorEnv("breakout", 6, batch_size=2, num_threads=2), [VectorEnv("breakout", 1) for _ in range(6)]
    for i, env in enumerate(alone):
        env.reset(seed=5 + i)
    first = envs.reset(seed=5)[1]["env_id"]
    second = envs.recv()[-1]["env_id"]
    third = envs.recv()[-1]["env_id"]
    assert sorted([*first, *second, *third]) == list(range(6))
    with pytest.raises(gymnasium.error.NoAsyncCallError):
        envs.recv()
    envs.send(np.array([2, 3]), second)
    with pytest.raises(gymnasium.error.AlreadyPendingCallError):
        envs.send(np.array([2, 3]), second)
    with pytest.raises(gymnasium.error.AlreadyPendingCallError):
        envs.clone_state(second)
    envs.send(np.array([2, 3]), first)
    for _ in range(2):
        obs, _, _, _, info = envs.recv()
        for k, i in enumerate(info["env_id"]):
            action = 2 + int(np.flatnonzero((first if i in first else second) == i)[0])
            np.testing.assert_array_equal(obs[k], alone[i].step(np.array([action]))[0][0])
    assert len(envs.clone_state()) == 6
    envs.close()


@pytest.mark.parametrize("seed", [0, slow(1), slow(2), slow(3)])
def test_any_schedule_gives_each_environment_its_own_results(seed: int) -> None:
    """In a random order of recv and send, in which send answers some of the received environments, each environment
    gives the results of a separate VectorEnv."""
    n, rng = 7, np.random.default_rng(seed)
    envs = VectorEnv("breakout", n, batch_size=2, num_threads=3, max_num_frames_per_episode=120, noop_max=3)
    alone = [VectorEnv("breakout", 1, max_num_frames_per_episode=120, noop_max=3) for _ in range(n)]
    expected = [env.reset(seed=9 + i) for i, env in enumerate(alone)]
    obs, info = envs.reset(seed=9)
    received, playing = set(info["env_id"].tolist()), n - 2
    for k, i in enumerate(info["env_id"]):
        np.testing.assert_array_equal(obs[k], expected[i][0][0])
    for _ in range(200):
        if playing >= 2 and (rng.random() < 0.5 or not received):
            obs, reward, terminated, truncated, info = envs.recv()
            playing -= 2
            for k, i in enumerate(info["env_id"]):
                theirs = expected[i]
                np.testing.assert_array_equal(obs[k], theirs[0][0])
                assert info["frame_number"][k] == theirs[-1]["frame_number"][0]
                if len(theirs) == 5:
                    assert [reward[k], terminated[k], truncated[k]] == [value[0] for value in theirs[1:4]]
                received.add(int(i))
        else:
            which = rng.permutation(sorted(received))[: rng.integers(1, len(received) + 1)]
            actions = rng.integers(4, size=len(which))
            envs.send(actions, which)
            playing += len(which)
            for i, action in zip(which, actions, strict=True):
                expected[i] = alone[i].step(np.array([action]))
                received.remove(int(i))
    envs.close()


def test_steps_in_the_calling_thread_and_in_threads_are_equal() -> None:
    """Results do not depend on the thread: step() with num_threads=1 plays in the calling thread, and send() in another
    thread."""
    direct, threads = VectorEnv("breakout", 3, num_threads=1), VectorEnv("breakout", 3, num_threads=2)
    direct.reset(seed=1), threads.reset(seed=1)
    for t in range(60):
        actions = np.array([t % 4, (t + 1) % 4, 2])
        threads.send(actions)
        if t % 3:
            result = direct.step(actions)
        else:
            direct.send(actions)
            if t % 2:
                for env in (direct, threads):
                    env.reset(options={"reset_mask": np.zeros(3, bool)})
                continue
            result = direct.recv()
        for a, b in zip(result[:4], threads.recv()[:4], strict=True):
            np.testing.assert_array_equal(a, b)
    direct.step(np.array([0, 2]), [2, 0])
    threads.step(np.array([0, 2]), [2, 0])
    assert direct.clone_state() == threads.clone_state()
    direct.close(), threads.close()


def test_calls_out_of_order_and_wrong_actions() -> None:
    env = VectorEnv("pong", 2)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.send(np.zeros(2, int))
    env.reset(seed=0)
    with pytest.raises(gymnasium.error.NoAsyncCallError):
        env.recv()
    for actions, message in (
        (np.zeros(3, int), "shape"),
        (np.zeros(2), "float"),
        (np.array([0, 6]), "action 6: must be 0 to 5"),
    ):
        with pytest.raises(ValueError, match=message):
            env.send(actions)
    env.send(np.zeros(2, int))
    with pytest.raises(gymnasium.error.AlreadyPendingCallError):
        env.send(np.zeros(2, int))
    env.reset(seed=0)  # reset() discards actions that were sent.
    with pytest.raises(ValueError, match="reset_mask"):
        env.reset(options={"reset_mask": np.array([1, 0])})
    env.close()


@pytest.mark.parametrize(
    ("game", "settings"),
    [
        slow("breakout", {"repeat_action_probability": 0.25}),
        slow("seaquest", {"repeat_action_probability": 0.25}),
        ("pong", {"continuous_action_threshold": 0.2}),
        slow("breakout", {"episodic_life": True, "autoreset_mode": "SameStep", "continuous_action_threshold": 0.0}),
        *(
            slow(game, {"repeat_action_probability": 0.25})
            for game in ("kaboom", "surround", "tennis", "wizard_of_wor")
        ),
    ],
)
def test_continuous_actions_are_those_of_the_peer(game: str, settings: dict[str, Any]) -> None:
    """Continuous actions give the results of AtariVectorEnv, also in games in which the action's radius turns a
    paddle."""
    compare(game, 400, continuous=True, **settings)


@pytest.mark.parametrize("game", ["skiing", slow("lost_luggage"), "kaboom"])
def test_continuous_actions_of_one_game_are_those_of_the_peer(game: str) -> None:
    """Continuous actions give the results of ale-py's AtariEnv in games for which AtariVectorEnv plays wrong
    actions."""
    import ale_py

    frames = {"frameskip": 4, "continuous": True, "repeat_action_probability": 0.0}
    theirs = gymnasium.make(f"ALE/{''.join(w.title() for w in game.split('_'))}-v5", obs_type="ram", **frames)
    ours = VectorEnv(game, 1, obs_type="ram", noop_max=0, use_fire_reset=False, reward_clipping=False, **frames)
    assert ale_py.__version__ and ours.single_action_space == theirs.action_space
    theirs.reset(seed=0)
    ours.reset(seed=int(np.int32(np.random.SeedSequence(0).generate_state(2)[1])) % 2**32)
    rng = np.random.default_rng(1)
    for t in range(300):
        action = rng.uniform((0, -np.pi, 0), (1, np.pi, 1)).astype(np.float32)
        ram, reward, over, _, _ = theirs.step(action)
        our_ram, our_reward, our_over, _, _ = ours.step(action[None])
        np.testing.assert_array_equal(our_ram[0], ram, err_msg=f"{game}, step {t}")
        assert (our_reward[0], our_over[0]) == (reward, over)
        if over:
            return


def test_continuous_actions_are_copied_and_checked() -> None:
    """A copy of an environment also has the radius of the last action, which a sticky action may repeat."""
    envs = VectorEnv("breakout", 2, continuous=True, num_threads=1, repeat_action_probability=0.9, obs_type="ram")
    envs.reset(seed=1)
    for wrong in (np.zeros(2, int), np.zeros((2, 3), int), np.zeros((3, 3), np.float32), np.zeros(2, np.float32)):
        with pytest.raises(ValueError, match=r"must be floats \[2, 3\]"):
            envs.step(wrong)
    rng = np.random.default_rng(0)
    for _ in range(30):
        action = rng.uniform((0.6, -0.5, 0), (1, 0.5, 1), (2, 3)) * (1, rng.choice([-6, 0]), 1)
        other = copy.deepcopy(envs)
        envs.step(action), other.step(action)
        np.testing.assert_array_equal(envs.step(action)[0], other.step(action.astype(np.float32))[0])
    one = SingleEnv("breakout", continuous=True)
    one.reset(seed=1)
    assert one.action_space == envs.single_action_space and one.step(action[0])[0].shape == (4, 84, 84)


@pytest.mark.parametrize(("game", "fire"), [slow("asterix", False), ("kangaroo", True)])
def test_a_game_that_ends_within_its_no_ops_begins_again(game: str, fire: bool) -> None:
    compare(game, 5, n=2, noop_max=400, use_fire_reset=fire, max_num_frames_per_episode=12)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("game", vector_games())
def test_every_game_plays_as_the_peer(game: str) -> None:
    for mode, episodic in itertools.product(("NextStep", "SameStep"), (True, False)):
        compare(game, 1000, n=2, autoreset_mode=mode, repeat_action_probability=0.25, episodic_life=episodic)
    if game not in ("skiing", "lost_luggage"):
        compare(game, 300, n=2, continuous=True, repeat_action_probability=0.25)
