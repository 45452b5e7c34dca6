"""Small models, learned or written by hand: tensors, vocabularies and cards."""
