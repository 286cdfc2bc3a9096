"""Experience replay stores each frame once in a ring buffer, with uniform or prioritized sampling."""
