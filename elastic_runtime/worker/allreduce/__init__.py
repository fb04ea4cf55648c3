"""Training in which the workers hold the model and average their gradients."""
