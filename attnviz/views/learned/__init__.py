"""What is shown of a model after its training (`attnviz learn`)."""
