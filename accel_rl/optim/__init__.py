"""Parameters, update rules and the exchange of gradients, on flat vectors."""
