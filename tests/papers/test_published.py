"""Numbers of papers that follow from other numbers of the same paper."""

from accel_rl.papers.published import percent_of, published_by


def test_the_percentages_of_daley_and_amato_follow_from_the_scores():
    """Table 4, but for the slip that the note names: riverraid's percentage of DQN is printed as 57.3."""
    table = published_by("daley")["table_4"]
    slips = {}
    for game, row in table["games"].items():
        random, human, dqn, _, score, _, *printed = row
        for whose, raw, share in zip(("dqn", "daley"), (dqn, score), printed, strict=True):
            if abs((computed := percent_of(raw, random, human)) - share) > 0.06 + 1e-3 * abs(share):
                slips[game, whose] = (share, round(computed, 1))
    assert slips == {("riverraid", "dqn"): (57.3, 55.8)}
    assert "57.3 percent in riverraid does not follow from its score here (55.8 does)" in table["note"]
