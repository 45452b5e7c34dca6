"""What can be shown of a result, with nothing left of tensors."""
