"""Whole networks: estimates of the test error for any ``nn.Module``, from all training rows."""
