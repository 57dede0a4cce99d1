"""What a data type costs: memory of a 1000 x 1000 tensor, and the time of a matrix product with the cast of integers inside."""
import time

import torch

if __name__ == "__main__":
    print(f"{'dtype':<14}{'MiB':>6}{'matmul ms':>11}")
    for dtype in (torch.float32, torch.float64, torch.float16, torch.int32, torch.int64, torch.bool):
        x = torch.ones(1000, 1000, dtype=dtype)
        best = float("inf")
        for _ in range(3):
            begun = time.perf_counter()
            wide = x if x.is_floating_point() else x.float()
            y = wide @ wide
            best = min(best, time.perf_counter() - begun)
        assert y[0, 0] == 1000
        print(f"{str(dtype):<14}{x.element_size() * x.nelement() / 2**20:6.2f}{best * 1e3:11.2f}")
