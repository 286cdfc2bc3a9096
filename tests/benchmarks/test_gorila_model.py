"""The simulation of a Gorila cluster, in cases with a known answer."""

import pytest

from benchmarks.gorila_model import Costs, Simulation, bounds


def simulate(costs: Costs, learners: int, shards: int = 1, in_flight: int = 0, max_delay: int = 100, seed: int = 0):
    return Simulation(costs, learners, shards, in_flight, max_delay, seed).run(2_000)


def test_one_learner_that_waits_is_never_stale():
    costs = Costs(cycle_s=0.01, push_s=0.004, pull_s=0.001, send_s=0.002, receive_s=0.003, spread=0.0)
    found = simulate(costs, 1)
    assert (found.staleness_mean, found.staleness_95, found.discarded) == (0, 0, 0)
    assert found.updates_per_s == pytest.approx(1 / 0.02)  # all parts, one after the other


@pytest.mark.parametrize("in_flight", [1, 2])
def test_one_learner_is_stale_by_its_own_pushes(in_flight):
    """Each push arrives before the answer to the one before it is used; the learner never waits."""
    costs = Costs(cycle_s=0.01, push_s=0.004, pull_s=0.0, latency_s=0.001, spread=0.0)
    found = simulate(costs, 1, in_flight=in_flight)
    assert found.staleness_mean == pytest.approx(1)
    assert found.updates_per_s == pytest.approx(100, rel=0.01)


def test_many_learners_on_a_slow_shard_reach_its_rate():
    """Each other learner has a push in the queue: staleness is the number of the others."""
    costs = Costs(cycle_s=0.001, push_s=0.009, pull_s=0.001)
    found = simulate(costs, 10)
    assert found.updates_per_s == pytest.approx(bounds(costs, 10, 1)["shard"], rel=0.01) == pytest.approx(100)
    assert found.staleness_mean == pytest.approx(9, abs=0.2)


def test_many_learners_on_a_fast_shard_reach_their_own_rate():
    costs = Costs(cycle_s=0.1, push_s=1e-5, pull_s=1e-5)
    found = simulate(costs, 10)
    assert found.updates_per_s == pytest.approx(bounds(costs, 10, 1)["learner"], rel=0.02) == pytest.approx(100)
    assert found.staleness_mean == pytest.approx(9, abs=0.3)  # each other learner pushes once in a cycle


@pytest.mark.parametrize("in_flight", [0, 1, 2])
def test_a_learner_that_sends_for_long_is_the_bound(in_flight):
    """Answers that arrive while a learner still sends do not begin its next cycle."""
    costs = Costs(cycle_s=0.01, push_s=1e-5, pull_s=1e-5, send_s=0.002, receive_s=0.001)
    limit = bounds(costs, 5, 20)["learner"]
    assert limit == pytest.approx(5 / 0.07)
    assert simulate(costs, 5, 20, in_flight).updates_per_s == pytest.approx(limit, rel=0.02)


def test_a_slow_network_limits_the_updates():
    costs = Costs(cycle_s=0.001, push_s=1e-5, pull_s=1e-5, bytes=1e6, network=1e8)
    assert bounds(costs, 10, 1)["network"] == 100 and bounds(costs, 2, 4)["network"] == 50
    assert simulate(costs, 10).updates_per_s == pytest.approx(100, rel=0.02)


def test_shards_divide_the_work():
    one = simulate(Costs(cycle_s=0.001, push_s=0.008, pull_s=0.0), 20)
    four = simulate(Costs(cycle_s=0.001, push_s=0.002, pull_s=0.0), 20, shards=4)
    assert four.updates_per_s == pytest.approx(4 * one.updates_per_s, rel=0.02)


def test_old_gradients_are_discarded():
    costs = Costs(cycle_s=0.1, push_s=1e-5, pull_s=1e-5)
    found = simulate(costs, 10, max_delay=5)
    assert 0.1 < found.discarded < 0.9 and found.updates_per_s < 100
    assert simulate(costs, 10, max_delay=0).discarded > 0.5
    assert simulate(costs, 10, max_delay=1_000).discarded == 0


def test_the_same_seed_gives_the_same_results():
    costs = Costs(cycle_s=0.01, push_s=0.001, pull_s=0.001)
    assert simulate(costs, 5, 3, 1, seed=1) == simulate(costs, 5, 3, 1, seed=1) != simulate(costs, 5, 3, 1, seed=2)
