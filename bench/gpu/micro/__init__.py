"""What decides how things are built, a module each with ``measure(run)``: no figure here is the product's."""
