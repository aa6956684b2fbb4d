def own(w, m, v, g, rate):
    m.mul_(0.9).add_(g, alpha=0.1)
    v.mul_(0.999).addcmul_(g, g, value=0.001)
    w.sub_(rate * m / (v.sqrt() + 1e-8))
