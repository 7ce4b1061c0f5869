"""Every row left out along the whole path of the training."""
