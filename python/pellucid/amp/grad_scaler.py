"""GradScaler: multiplies a loss so that small gradients survive float16, and leaves out steps with infinite ones."""
import math

from .._tensor import Tensor


class GradScaler:
    """scale(loss).backward(), step(optimizer), update(). Without a GPU `device="cuda"` means disabled, as in PyTorch."""

    def __init__(self, device="cuda", init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000,
                 enabled=True):
        if enabled and str(device).startswith("cuda"):
            import warnings
            warnings.warn("torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.", stacklevel=2)
            enabled = False
        self._enabled = enabled
        if growth_factor <= 1.0 or not 0 < backoff_factor < 1.0:
            raise AssertionError("The growth factor must be > 1.0 and the backoff factor < 1.0.")
        self._scale, self._growth, self._backoff, self._interval = init_scale, growth_factor, backoff_factor, growth_interval
        self._good_steps, self._found, self._unscaled = 0, {}, set()

    def is_enabled(self):
        return self._enabled

    def scale(self, outputs):
        """The outputs times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._scale
        return type(outputs)(self.scale(o) for o in outputs)

    def unscale_(self, optimizer):
        """Divides the gradients by the scale, so that they can be clipped."""
        if not self._enabled:
            return
        if id(optimizer) in self._unscaled:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        total = 0.0
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.grad.mul_(1.0 / self._scale)
                    total += p.grad.abs().sum().item()  # an infinite or NaN entry makes it so
        self._unscaled.add(id(optimizer))
        self._found[id(optimizer)] = not math.isfinite(total)

    def step(self, optimizer, *args, **kwargs):
        """The optimiser's step, unless a gradient is not finite."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        if id(optimizer) not in self._unscaled:
            self.unscale_(optimizer)
        return None if self._found[id(optimizer)] else optimizer.step(*args, **kwargs)

    def update(self, new_scale=None):
        """A smaller scale after infinite gradients, a larger one after many good steps."""
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale = float(new_scale)
        else:
            if not self._found:
                raise AssertionError("No inf checks were recorded prior to update.")
            if any(self._found.values()):
                self._scale, self._good_steps = self._scale * self._backoff, 0
            else:
                self._good_steps += 1
                if self._good_steps == self._interval:
                    self._scale, self._good_steps = self._scale * self._growth, 0
        self._found, self._unscaled = {}, set()

    def get_scale(self):
        return self._scale if self._enabled else 1.0

    def get_growth_factor(self):
        return self._growth

    def get_backoff_factor(self):
        return self._backoff

    def get_growth_interval(self):
        return self._interval

    def state_dict(self):
        if not self._enabled:
            return {}
        return {"scale": self._scale, "growth_factor": self._growth, "backoff_factor": self._backoff,
                "growth_interval": self._interval, "_growth_tracker": self._good_steps}

    def load_state_dict(self, state_dict):
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError("The source state dict is empty, possibly because it was saved from a disabled instance of "
                               "GradScaler.")
        self._scale, self._growth = state_dict["scale"], state_dict["growth_factor"]
        self._backoff, self._interval = state_dict["backoff_factor"], state_dict["growth_interval"]
        self._good_steps = state_dict["_growth_tracker"]
