"""A user's environment is inspected in a child process, because it may block or crash."""

import pytest

from accel_rl.envs import inspection
from accel_rl.envs.make import make_spec
from accel_rl.processes import child
from accel_rl.text.errors import ConfigError
from tests.env_settings import env_of

HERE = "tests.environments:"


@pytest.mark.parametrize(
    ("name", "timeout_s", "says"),
    [
        ("blocks", 0.5, "was not made within --sampler.start-timeout-s 0.5"),
        ("crashes", 60.0, "the process in which the environment was made was killed by SIGSEGV"),
        ("exits", 60.0, "its code called os._exit(0) while the environment was made"),
        ("raises", 60.0, "OSError: no server answers"),
        ("no_such_function", 60.0, "has no no_such_function"),
    ],
)
def test_a_factory_that_fails_ends_in_one_line(name, timeout_s, says):
    with pytest.raises(ConfigError) as error:
        env_of(id=HERE + name).check(timeout_s)
    assert f"id='{HERE}{name}'" in str(error.value) and says in str(error.value) and "\n" not in str(error.value)


def test_the_spec_is_that_of_this_process(monkeypatch):
    """The child process returns the environment's spec, even if the environment prints text or its close() blocks."""
    monkeypatch.setattr(child, "CLOSE_S", 0.1)
    config = env_of(id=HERE + "blocks_at_close", max_evaluation_steps=40)
    for training in (True, False):
        ours = make_spec(env_of(id="CartPole-v1", max_evaluation_steps=40), training)
        theirs = make_spec(config, training, start_timeout_s=60.0)
        assert theirs.to_dict() == {**ours.to_dict(), "name": config.id}
    assert inspection.inspected.cache_info().misses, "the evaluation's spec is of the same process"
    assert not inspection.is_of_user("CartPole-v1") and inspection.is_of_user("no:Such-v0")
