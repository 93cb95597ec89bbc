"""The cost of single steps on a device, for the profiles of ``sim``."""
