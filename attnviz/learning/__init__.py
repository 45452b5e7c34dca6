"""Models that learn before one's eyes: tasks, training, and what came of it."""
