"""Words, numbers, commands and written calculations that people read."""
