"""From updates and episodes to rows, and from rows to whoever wants them."""
