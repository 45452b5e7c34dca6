"""WINGS: products that the core does not need, and what each adds to it."""
