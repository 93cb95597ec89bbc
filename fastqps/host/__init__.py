"""The machine that fastqps runs on: cores, memory, GPUs."""
