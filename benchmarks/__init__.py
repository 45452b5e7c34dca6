"""How long things take, each beside what it is held against."""
