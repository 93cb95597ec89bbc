"""Worker slots: each keeps one child process running, over all its restarts."""
