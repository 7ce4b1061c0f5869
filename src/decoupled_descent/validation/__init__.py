"""Zero-cost validation: stop, choose and search on the train error."""
