"""What a measurement found, and the files that keep it."""
