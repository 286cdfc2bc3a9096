"""Training processes (ranks): starting them, exchanging gradients between them, and handling their failures."""
