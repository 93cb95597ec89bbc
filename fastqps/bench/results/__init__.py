"""The results of measurements, and their files."""
