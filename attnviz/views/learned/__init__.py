"""What can be shown of a model that learned: how it came to read what it reads."""
