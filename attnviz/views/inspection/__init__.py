"""What is shown of the heads of a model on a sentence (`attnviz inspect`)."""
