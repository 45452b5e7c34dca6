"""Everything that happened to one sentence, and each way to come by it."""
