"""What processes of one server share about starting, ending and being ready."""
