"""The machine: files, memory, signals, and the environment of the process."""
