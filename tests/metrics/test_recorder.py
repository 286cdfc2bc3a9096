import numpy as np
import torch

from accel_rl.checkpoints.state_tree import decode, encode
from accel_rl.metrics.recorder import Recorder
from accel_rl.metrics.update_metrics import UpdateMetrics


def fed(values, recorder=None):
    recorder = recorder or Recorder()
    for v in values:
        recorder.add(UpdateMetrics.of({"loss": torch.tensor(v, requires_grad=True), "n": torch.tensor(2)}))
    return recorder


def test_means_over_the_updates_since_the_last_row():
    recorder = fed([1.0, 2.0, 6.0])
    assert recorder.means() == {"loss": 3.0, "n": 2.0}
    assert recorder.means() == {}
    assert fed([5.0], recorder).means() == {"loss": 5.0, "n": 2.0}


def test_small_values_do_not_drown():
    """In float32, 2**24 + 1 is 2**24, so that the sum of a long series of ones would stop growing."""
    recorder = fed([2.0**24, *[1.0] * 64])
    assert recorder.means()["loss"] == (2**24 + 64) / 65


def test_what_was_added_may_change_afterwards():
    recorder, value = Recorder(), torch.tensor(1.0, dtype=torch.float64)
    recorder.add(UpdateMetrics.of({"x": value}))
    recorder.add(UpdateMetrics.of({"x": torch.tensor(3.0)}))
    recorder.add(UpdateMetrics.of({"x": torch.tensor(5.0)}))
    assert value.item() == 1.0 and recorder.means() == {"x": 3.0}


def test_state_goes_through_a_checkpoint():
    values = np.random.default_rng(0).normal(size=20).tolist()
    whole, first = fed(values), fed(values[:7])
    second = fed([99.0])  # The loaded state must replace the value 99.
    second.load_state_dict(decode(*encode(first.state_dict())))
    assert fed(values[7:], second).means() == whole.means()
    assert first.means()["loss"] != whole.means()


def test_sums_of_several_updates_and_a_name_in_two_groups():
    recorder = fed([1.0, 2.0])
    recorder.add(UpdateMetrics(("loss",), torch.tensor([9.0]).double(), 3))
    assert recorder.means() == {"loss": 12.0 / 5, "n": 2.0}
