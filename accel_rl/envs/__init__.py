"""All environments have one interface: Atari games through ale-py or this project's emulator, and Gymnasium
environments."""
