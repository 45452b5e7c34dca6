"""What heads do over many texts: surveys, minimal pairs, and effects of head ablation."""
