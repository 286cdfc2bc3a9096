"""Experience replay: a ring that stores each frame once, with uniform and prioritized sampling."""
