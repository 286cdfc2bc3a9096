"""How ranks learn one set of parameters together."""
