import json
import math
from enum import IntEnum
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save

from accel_rl.checkpoints.state_tree import decode, encode
from accel_rl.text.errors import ConfigError


class Color(IntEnum):
    RED = 1


TENSOR_TYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8]
ARRAY_TYPES = ["float32", "float64", "float16", "int8", "int64", "uint8", "uint32", "uint64", "bool"]


def state() -> dict:
    rng = np.random.default_rng(0)
    base = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4)
    return {
        "tensors": {str(t): torch.arange(-2, 3).to(t) for t in TENSOR_TYPES}
        | {
            "bool": torch.tensor([True, False]),
            "scalar": torch.tensor(3.5),
            "empty": torch.zeros(0),
            "no rows": torch.zeros(0, 4, dtype=torch.int64),
            "transposed": base.transpose(0, 2),
            "channels last": torch.rand(2, 3, 4, 5).contiguous(memory_format=torch.channels_last),
            "part": base[:, 1],
            "same part": base[:, 1],  # shares memory
            "odd": torch.tensor([math.nan, math.inf, -0.0, 1e-45]),
            "gradient": torch.ones(2, requires_grad=True),
        },
        "arrays": {t: (rng.random((3, 2)) * 9).astype(t) for t in ARRAY_TYPES}
        | {"empty": np.zeros((0, 3)), "columns": np.arange(6).reshape(2, 3).T, "big": np.array([2**64 - 1], np.uint64)},
        "bytes": [b"", b"\0", b"\0\xff" * 500, bytes(range(256))],
        "numbers": [0, -1, 2**80, 0.1, -0.0, 1e-320, math.inf, True, False, None],
        "numpy": [np.float64(0.1), np.float32(0.5), np.int64(-7), np.bool_(True)],
        "text": ["", 'ü\n\0"', "__ref__"],
        "nested": {"": {}, "list": [], "deep": [{"a": [[torch.ones(1)], {"b": b"x"}]}]},
        "pair": (1, "two"),
        "keys": {0: {"step": torch.ones(())}, 10: "ten", 9: {-1: b"x"}, "0": 1, "__ref__": 2},
    }


def assert_same(a, b, where="") -> None:
    if isinstance(a, torch.Tensor):
        assert isinstance(b, torch.Tensor) and a.dtype == b.dtype and a.shape == b.shape, where
        assert torch.equal(torch.nan_to_num(a.detach().double()), torch.nan_to_num(b.double())), where
        assert not b.requires_grad, where
    elif isinstance(a, np.ndarray):
        assert isinstance(b, np.ndarray) and a.dtype == b.dtype and a.shape == b.shape and (a == b).all(), where
    elif isinstance(a, dict):
        assert a.keys() == b.keys(), where
        for k in a:
            assert_same(a[k], b[k], f"{where}/{k}")
    elif isinstance(a, list | tuple):
        assert isinstance(b, list) and len(a) == len(b), where
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            assert_same(x, y, f"{where}/{i}")
    elif isinstance(a, np.generic):
        assert type(b) is type(a.item()) and a.item() == b, where
    else:
        assert type(a) is type(b) and a == b and str(a) == str(b), where  # -0.0 too


def test_everything_comes_back():
    given = state()
    assert_same(given, decode(*encode(given)))
    assert decode(*encode({})) == {}


def test_nan_comes_back():
    assert math.isnan(decode(*encode({"score": math.nan}))["score"])


def test_equal_states_are_equal_bytes():
    torch.manual_seed(0)
    a = state()
    torch.manual_seed(0)
    b = dict(reversed(state().items()))
    assert encode(a) == encode(b) == encode(a)
    b["bytes"][0] = b"\0"
    assert encode(a) != encode(b)


def test_what_is_encoded_may_change_afterwards():
    tensor, array = torch.zeros(3), np.zeros(3)
    encoded = encode({"t": tensor, "a": array})
    tensor += 1
    array += 1
    back = decode(*encoded)
    assert back["t"].tolist() == back["a"].tolist() == [0, 0, 0]


def test_what_is_decoded_may_be_written_to():
    back = decode(*encode({"t": torch.zeros(3), "a": np.zeros(3)}))
    back["t"] += 1
    back["a"] += 1
    assert back["t"].tolist() == back["a"].tolist() == [1, 1, 1]


@pytest.mark.parametrize("bad", [object(), {1, 2}, 1j, {1.5: 2}, {(1, 2): 3}, torch.float32, Path("x"), Color.RED])
def test_what_cannot_be_kept_is_refused_in_one_line(bad):
    with pytest.raises(ConfigError, match=r"^state x/0(:| is a)") as e:
        encode({"x": [bad]})
    assert "\n" not in str(e.value)


def test_the_state_of_an_optimizer_of_torch_comes_back():
    def optimizer():
        layer = torch.nn.Linear(2, 3)
        return layer, torch.optim.Adam(layer.parameters(), lr=0.1)

    layer, adam = optimizer()
    layer(torch.ones(1, 2)).sum().backward()
    adam.step()
    other = optimizer()[1]
    other.load_state_dict(decode(*encode(adam.state_dict())))
    assert_same(adam.state_dict()["state"], other.state_dict()["state"])


TEXT, TENSORS = encode({"t": torch.ones(4), "a": np.ones(3), "b": b"hello", "n": 1})


def replaced(**changes) -> bytes:
    return json.dumps({**json.loads(TEXT), **changes}).encode()


@pytest.mark.parametrize(
    ("text", "tensors"),
    [
        (b"", TENSORS),
        (TEXT[:-3], TENSORS),
        (b"\xff\xfe" + TEXT, TENSORS),
        (TEXT, b""),
        (TEXT, TENSORS[:-1]),
        (TEXT, TENSORS[:20]),
        (TEXT, b"\xff" * 8 + TENSORS[8:]),
        (TEXT, TENSORS + b"\0"),
        (TEXT, save({"/t": torch.ones(4)})),
        (replaced(t={"__ref__": ["tensor", "/elsewhere"]}), TENSORS),
        (replaced(t={"__ref__": ["tensor", ["/t"]]}), TENSORS),
        (replaced(t={"__ref__": ["tensor"]}), TENSORS),
        (replaced(t={"__ref__": 3}), TENSORS),
        (replaced(t={"__ref__": None}), TENSORS),
        (b"[" * 100_000, TENSORS),
    ],
)
def test_damage_is_a_value_error(text, tensors):
    with pytest.raises(ValueError):
        decode(text, tensors)


def test_random_generators_go_through():
    """A random generator draws the same numbers after its state was encoded and decoded."""
    numpy_rng, torch_rng = np.random.default_rng(3), torch.Generator().manual_seed(4)
    numpy_rng.random(5), torch.rand(5, generator=torch_rng)
    back = decode(*encode({"n": numpy_rng.bit_generator.state, "t": torch_rng.get_state()}))
    other, other_torch = np.random.default_rng(0), torch.Generator()
    other.bit_generator.state = back["n"]
    other_torch.set_state(back["t"])
    assert (other.random(9) == numpy_rng.random(9)).all()
    assert torch.equal(torch.rand(9, generator=other_torch), torch.rand(9, generator=torch_rng))
