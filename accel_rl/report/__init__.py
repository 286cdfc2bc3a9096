"""What runs have come to, beside what is published."""
