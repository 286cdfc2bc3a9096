"""Pure equations: tensors in, tensors out."""
