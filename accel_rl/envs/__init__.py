"""All environments have one interface (`environment`): Atari through ale-py or this project's emulator, and Gymnasium's
environments. The module `make` creates batches of environments."""
