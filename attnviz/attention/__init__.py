"""From vectors to weights and context vectors: the arithmetic, and the rows that vary it."""
