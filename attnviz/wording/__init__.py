"""How things are put: words, numbers, and sums written out."""
