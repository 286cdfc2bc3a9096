"""Environments with a common interface: Atari games, played by ale-py or by this project's emulator, and Gymnasium
environments."""
