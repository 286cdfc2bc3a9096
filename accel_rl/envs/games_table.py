"""The table that `accel-rl games` prints."""

from accel_rl.envs.games import ATARI_49, ATARI_57, GAMES, scores


def table() -> list[str]:
    """A line per game: which benchmarks it is in, published random and human scores (null-op starts)."""
    published = scores("null_op")
    lines = [f"{'game':<20} {'49':>3} {'57':>3} {'random':>10} {'human':>10}"]
    for game in GAMES:
        row = published.get(game, {})
        cells = "".join(f" {row[k]:>10,.1f}" if k in row else f" {'-':>10}" for k in ("random", "human"))
        in_49, in_57 = ("x" if game in names else "" for names in (ATARI_49, ATARI_57))
        lines.append(f"{game:<20} {in_49:>3} {in_57:>3}{cells}")
    lines.append(f"{len(GAMES)} games; scores from null-op starts: Nair et al. 2015, table 4")
    return lines
