"""How often the processes of a Gorila run may die before the run ends with an error."""

from accel_rl.gorila.keeper import MAX_PAUSE_S, MOST, OVER_S, Deaths


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_process_that_never_works_ends_the_run_after_growing_pauses() -> None:
    clock = Clock()
    deaths = Deaths(clock)
    pauses = []
    while (pause := deaths.died()) is not None:
        pauses.append(pause)
        clock.now += pause + 0.5
    assert pauses[:6] == [0, 0, 1, 2, 4, 8] and max(pauses) == MAX_PAUSE_S
    assert OVER_S < clock.now - 1000 < OVER_S + 2 * MAX_PAUSE_S


def test_many_deaths_in_a_short_time_do_not() -> None:
    deaths = Deaths(Clock())
    assert all(deaths.died() is not None for _ in range(10 * MOST))


def test_rare_deaths_do_not() -> None:
    clock = Clock()
    deaths = Deaths(clock)
    for _ in range(10):
        clock.now += 2 * OVER_S
        assert deaths.died() == 0
        deaths.worked()


def test_few_deaths_over_a_long_time_do_not() -> None:
    clock = Clock()
    deaths = Deaths(clock)
    for _ in range(MOST):
        clock.now += OVER_S
        assert deaths.died() is not None
    assert deaths.died() is None
