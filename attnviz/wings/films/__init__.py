"""Films: GIFs, several Traces of one sentence, and the checkpoints of a training."""
