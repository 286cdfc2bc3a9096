"""Training processes (ranks): their start, their exchange, and their faults."""
