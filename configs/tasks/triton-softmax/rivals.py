"""What other libraries make of reference.py, where they are installed: a benchmark times it beside torch."""


def liger():
    from liger_kernel.ops import LigerSoftmaxFunction

    return lambda x: LigerSoftmaxFunction.apply(x)


def quack():
    import quack

    return lambda x: quack.softmax(x)


def flashinfer():
    from flashinfer.sampling import softmax

    return lambda x: softmax(x)
