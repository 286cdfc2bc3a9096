"""Each paper that the package reproduces has a folder with its experiments, its published numbers and its tables.

`accel-rl sweep stooke:figure_3` names the experiment `figure_3` of accel_rl.papers.stooke.
"""
