"""Random faults of whole runs."""

import importlib.util

import pytest

from benchmarks.harness.program import program
from tests.chaos import __main__ as chaos
from tests.chaos.planted_faults import PLANTED

SEED = 4_470


def main(*argv):
    return program("tests.chaos", "", chaos.Options, list(argv), chaos.run_trials, chaos.report)


@pytest.fixture(scope="module")
def references(tmp_path_factory):
    """The folder of the undisturbed runs, one for each training mode."""
    return tmp_path_factory.mktemp("chaos")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("fault", chaos.FAULTS)
def test_each_fault_is_survived(fault, capsys):
    assert main("--seed", "2", "--trials", "2", "--faults", fault) == 0, capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(name, references):
    assert chaos.find(name, SEED, references)[-1]["violation"]


def test_each_fault_is_planted_into_a_module_that_exists():
    """No trial would notice that a planted fault names a module which does not exist."""
    assert all(importlib.util.find_spec(planted.module) for planted in PLANTED.values())


def test_the_table_counts_trials_that_did_nothing_and_lost_steps():
    trials = [
        {"fault": "kill", "outcome": "survived", "lost_steps": 80},
        {"fault": "kill", "outcome": "nothing done", "lost_steps": 0},
        {"fault": "stop", "outcome": "lost", "lost_steps": 400},
    ]
    lines = chaos.report(chaos.Options(), {"trials": trials, "wrong": []})
    assert "| kill | 1 | 1 | 0 | 0 | 0 | 80 |" in lines and "| all | 1 | 1 | 1 | 0 | 0 | 400 |" in lines


def test_wrong_options_are_one_line(capsys):
    assert main("--faults", "kil") == 2
    assert "nearest: kill" in capsys.readouterr().err
    assert main("--minutes", "0") == 2
