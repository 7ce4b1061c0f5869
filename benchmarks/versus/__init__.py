"""Ways to learn a model's test error, compared on the same models and the same rows."""
