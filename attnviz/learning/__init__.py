"""Learning: tasks, training of small models, and their progress."""
