"""What is shown of a head: its map or its rows, bars of tokens, and sentences on it."""
