"""The dispatcher process: it claims requests, prepares steps and runs them. It never imports a front door."""
