"""torch.version: there is no CUDA, HIP or other device library."""
cuda = hip = xpu = None
debug = False
