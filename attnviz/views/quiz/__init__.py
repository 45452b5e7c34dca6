"""The questions of a quiz in words, with what is shown beside them."""
