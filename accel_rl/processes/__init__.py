"""Child processes, what they leave behind, and waiting for them."""
