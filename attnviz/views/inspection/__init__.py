"""What is shown of the heads of a model."""
