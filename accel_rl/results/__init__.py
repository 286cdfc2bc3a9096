"""What runs have left, as reports read it: runs, their settings, and tables."""
