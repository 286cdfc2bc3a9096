"""Environments behind one interface (`base`): Atari through ale-py, and Gymnasium's. `make` makes batches."""
