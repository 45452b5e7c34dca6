"""Views as lines of text, for a terminal, a pipe or a file."""
