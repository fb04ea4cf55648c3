"""What is done with a batch, one strategy a module."""
