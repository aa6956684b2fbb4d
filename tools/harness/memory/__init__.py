"""Where inputs and outputs lie, on the host and on a GPU."""
