"""Parameters, optimizers and the exchange of gradients, on flat vectors."""
