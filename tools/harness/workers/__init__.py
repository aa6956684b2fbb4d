"""The processes that kernels run in, and the supervisor's handles of them."""
