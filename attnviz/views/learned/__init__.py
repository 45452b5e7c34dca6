"""What a model learned, and when."""
