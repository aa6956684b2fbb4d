import time

import torch

calls = 0


def own(x):
    global calls
    calls += 1
    if calls > 2:
        time.sleep(0.002)
    return torch.softmax(x, -1)
