"""``fastqps doctor`` reports what this machine has and lacks."""
