"""What can be learned: a file for each task, with its words and its data."""
