"""What other libraries make of reference.py, where they are installed: a benchmark times it beside torch."""


def liger():
    from liger_kernel.ops import LigerRMSNormFunction

    return lambda x, weight, eps: LigerRMSNormFunction.apply(x, weight, eps)


def quack():
    import quack

    return lambda x, weight, eps: quack.rmsnorm(x, weight, eps=eps)
