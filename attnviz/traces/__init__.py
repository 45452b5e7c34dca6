"""Everything that is computed for one sentence (a Trace), and every way to compute it."""
