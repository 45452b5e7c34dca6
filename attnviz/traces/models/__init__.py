"""Models, learned or written by hand: their tensors, their vocabularies, and their cards."""
