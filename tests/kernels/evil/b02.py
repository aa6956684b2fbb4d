import torch

calls = 0


def own(x):
    global calls
    calls += 1
    if calls == 40:
        raise RuntimeError("it is not ready")
    return torch.softmax(x, -1)
