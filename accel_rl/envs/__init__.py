"""Environments behind one interface (`base`): Atari through ale-py, Gymnasium's; `make` makes batches."""
