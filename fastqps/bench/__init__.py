"""``fastqps bench`` measures a deployment, shows where its time goes, and tunes its settings."""
