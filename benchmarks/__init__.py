"""Throughput programs. Each compares with a peer or a ceiling measured in the same run."""
