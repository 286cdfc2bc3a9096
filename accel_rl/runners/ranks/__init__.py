"""The ranks of a run: their group, starters and contexts; torchrun."""
