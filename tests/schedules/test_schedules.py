"""The real sampling and learning code in simulated orders, also with planted faults."""

import logging

import pytest

from tests.marks import slow

pytestmark = pytest.mark.needs("greenlet")


@pytest.fixture(autouse=True)
def quiet():
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("weak", [False, True], ids=["strong", "weak"])
@pytest.mark.parametrize(
    "kind", ["sampling", "threads", "periods", "asynchronous", "synchronous", "server", "replay", "disk"]
)  # fmt: skip
def test_no_order_goes_wrong(kind, weak):
    from tests.schedules.__main__ import run_one

    points = [run_one(kind, n, 5, weak) for n in range(8 if kind == "threads" else 12)]
    assert run_one(kind, 7, 5, weak) == points[7] and len(set(points)) > 5


@pytest.mark.parametrize(
    "name",
    [
        *("fence", "wake-up", "answer", "release", "drop", "join", "torn", "twice", "owners", "state"),
        *(
            "barrier",
            "turn",
            "order",
            "group",
            "last",
            "early",
            "owed",
            "staged",
            "newest",
            "life",
            "wait",
        ),
        *("bytes", "names", "name", "rename", "place", "removed", "segment", "held", "swap"),
        slow("folders"),
        slow("epoch"),
        slow("attach"),
    ],
)
def test_a_planted_fault_is_found(name):
    from tests.schedules.__main__ import run_one
    from tests.schedules.planted import FAULTS

    fault = FAULTS[name]
    with fault.planted(), pytest.raises(Exception):  # noqa: B017 - the schedule may raise any error
        for n in range(1_000):
            run_one(fault.kind, n, 0, fault.weak)


def test_the_program_runs_one_schedule_again(capsys):
    from benchmarks.harness.program import program
    from tests.schedules.__main__ import Options, report, run

    def main(*argv):
        return program("tests.schedules", "", Options, list(argv), run, report)

    assert main("--only", "sampling/3/weak") == 0
    assert "| sampling, weak | 1 |" in capsys.readouterr().out
    assert main("--only", "sampling/3") == 2
    assert main("--schedules", "6", "--seed", "4") == 0
    assert "| wrong | 0 |" in capsys.readouterr().out
