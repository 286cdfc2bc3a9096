"""Environments behind one interface (`base`): Atari through ale-py, Gymnasium's, and batches of either (`make`)."""
