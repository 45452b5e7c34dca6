"""From Tokens to vectors: drawn from a seed or loaded from a file, and told where they stand."""
