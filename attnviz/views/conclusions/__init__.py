"""What a comparison comes to, in one sentence, and what may be claimed of numbers drawn."""
