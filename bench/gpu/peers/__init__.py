"""Other programs that are measured beside ours, set up as their best users would. They never import our server."""
