"""What the machine has and does: files, memory, signals, the environment of a process."""
