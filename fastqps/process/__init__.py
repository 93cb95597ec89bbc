"""Starting, ending and readiness of the processes of one server."""
