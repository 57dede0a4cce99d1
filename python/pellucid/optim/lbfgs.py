"""L-BFGS: steps along an inverse Hessian that the last gradients tell, by a closure that computes the loss anew."""
from .. import _C
from ..autograd.forward_modes import enable_grad, no_grad
from .optimizer import Optimizer, check

_F = _C.functions


def _between(x1, f1, g1, x2, f2, g2, bounds=None):
    """The least point of the cubic through two points with their slopes; the middle where it has none. The slopes are tensors,
    so that a division by 0 is infinite, as it is in PyTorch."""
    low, high = bounds if bounds is not None else (min(x1, x2), max(x1, x2))
    if x1 > x2:
        x1, f1, g1, x2, f2, g2 = x2, f2, g2, x1, f1, g1
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = d1 ** 2 - g1 * g2
    if not square >= 0:
        return (low + high) / 2
    d2 = square.sqrt()
    return min(max(x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2)), low), high)


class _Point:
    """A step length with the loss, the gradient and the slope along the direction there. Slopes, and what is computed from them,
    stay tensors of the parameters' dtype: computed with more digits, float32 runs leave PyTorch's path within a few steps."""

    def __init__(self, t, loss, grad, slope):
        self.t, self.loss, self.grad, self.slope = t, loss, grad, slope


def _bracket(evaluate, point, start, c1, c2, max_ls):
    """Lengthens the step until an interval holds a point of Wolfe's conditions. (points, done, tries beyond the first)."""
    before = start
    for tries in range(max_ls):
        if point.loss > start.loss + c1 * point.t * start.slope or (tries > 1 and point.loss >= before.loss):
            return [before, point], False, tries
        if abs(point.slope) <= -c2 * start.slope:
            return [point], True, tries
        if point.slope >= 0:
            return [before, point], False, tries
        low, high = point.t + 0.01 * (point.t - before.t), point.t * 10
        t = _between(before.t, before.loss, before.slope, point.t, point.loss, point.slope, (low, high))
        before, point = point, evaluate(t)
    return [start, point], False, max_ls


def strong_wolfe(evaluate, t, loss, grad, slope, size, c1=1e-4, c2=0.9, tolerance_change=1e-9, max_ls=25):
    """A step length that lowers loss and slope enough. (loss, gradient, length, evaluations)."""
    start = _Point(0.0, loss, grad, slope)
    points, done, tries = _bracket(evaluate, evaluate(t), start, c1, c2, max_ls)
    slow = False
    low, high = (0, -1) if points[0].loss <= points[-1].loss else (-1, 0)
    while not done and tries < max_ls:
        a, b = points
        if abs(b.t - a.t) * size < tolerance_change:
            break
        t = _between(a.t, a.loss, a.slope, b.t, b.loss, b.slope)
        least, most = min(a.t, b.t), max(a.t, b.t)
        margin = 0.1 * (most - least)
        if min(most - t, t - least) < margin:  # too near an end: the second time, or beyond it, step away
            if slow or t >= most or t <= least:
                t = most - margin if abs(t - most) < abs(t - least) else least + margin
                slow = False
            else:
                slow = True
        else:
            slow = False
        point = evaluate(t)
        tries += 1
        if point.loss > start.loss + c1 * point.t * start.slope or point.loss >= points[low].loss:
            points[high] = point
            low, high = (0, 1) if points[0].loss <= points[1].loss else (1, 0)
        else:
            if abs(point.slope) <= -c2 * start.slope:
                done = True
            elif point.slope * (points[high].t - points[low].t) >= 0:
                points[high] = points[low]
            points[low] = point
    best = points[low]
    return best.loss, best.grad, best.t, 1 + tries


class LBFGS(Optimizer):
    """Limited-memory BFGS; step(closure) takes up to max_iter steps. One group of parameters."""

    def __init__(self, params, lr=1, max_iter=20, max_eval=None, tolerance_grad=1e-7, tolerance_change=1e-9, history_size=100,
                 line_search_fn=None):
        check("learning rate", lr)
        if line_search_fn not in (None, "strong_wolfe"):
            raise RuntimeError("only 'strong_wolfe' is supported")
        super().__init__(params, dict(lr=lr, max_iter=max_iter, max_eval=max_iter * 5 // 4 if max_eval is None else max_eval,
                                      tolerance_grad=tolerance_grad, tolerance_change=tolerance_change,
                                      history_size=history_size, line_search_fn=line_search_fn))
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]

    def _gradient(self):
        return _F["cat"]([(_F["zeros_like"](p) if p.grad is None else p.grad).reshape(-1) for p in self._params])

    def _move(self, direction, length):
        at = 0
        for p in self._params:
            p.add_(direction[at:at + p.numel()].view_as(p), alpha=float(length))
            at += p.numel()

    def _put(self, values):
        for p, value in zip(self._params, values):
            p.copy_(value)

    @staticmethod
    def _direction(state, grad):
        """-(inverse Hessian) gradient, by the two loops over what is remembered."""
        steps, changes, rhos = state["old_stps"], state["old_dirs"], state["ro"]
        q, alphas = -grad, []
        for s, y, rho in zip(reversed(steps), reversed(changes), reversed(rhos)):
            alphas.append(s.dot(q) * rho)
            q.add_(y, alpha=-alphas[-1].item())
        d = q * state["H_diag"]
        for s, y, rho, alpha in zip(steps, changes, rhos, reversed(alphas)):
            d.add_(s, alpha=(alpha - y.dot(d) * rho).item())
        return d

    @staticmethod
    def _remember(state, grad, history_size):
        change, step = grad - state["prev_flat_grad"], state["d"] * state["t"]
        curve = change.dot(step)
        if not curve > 1e-10:
            return
        if len(state["old_dirs"]) == history_size:
            for name in ("old_dirs", "old_stps", "ro"):
                state[name].pop(0)
        state["old_dirs"].append(change)
        state["old_stps"].append(step)
        state["ro"].append(1.0 / curve)
        state["H_diag"] = curve / change.dot(change)

    def _search(self, closure, direction, t, loss, grad, slope, most_tries):
        before = [p.detach().clone() for p in self._params]

        def evaluate(length):
            self._move(direction, length)
            value = float(closure())
            found = self._gradient()
            self._put(before)
            return _Point(length, value, found, found.dot(direction))

        loss, grad, t, count = strong_wolfe(evaluate, t, loss, grad, slope, direction.abs().max(), max_ls=most_tries)
        self._move(direction, t)
        return loss, grad, t, count

    @no_grad()
    def step(self, closure):
        """Takes steps until max_iter, max_eval or a tolerance; returns the first loss."""
        closure = enable_grad()(closure)
        group = self.param_groups[0]
        state = self.state[self._params[0]]
        for name in ("func_evals", "n_iter"):
            state.setdefault(name, 0)
        first = closure()
        loss, evaluations, taken = float(first), 1, 0
        state["func_evals"] += 1
        grad = self._gradient()
        if grad.abs().max().item() <= group["tolerance_grad"]:
            return first
        while taken < group["max_iter"]:
            taken += 1
            state["n_iter"] += 1
            if state["n_iter"] == 1:
                state.update(d=-grad, old_dirs=[], old_stps=[], ro=[], H_diag=1)
                t = min(1.0, 1.0 / grad.abs().sum()) * float(group["lr"])
            else:
                self._remember(state, grad, group["history_size"])
                state["d"], t = self._direction(state, grad), float(group["lr"])
            direction, old_loss, state["t"] = state["d"], loss, t
            state["prev_flat_grad"] = grad.clone()
            slope = grad.dot(direction)
            if slope > -group["tolerance_change"]:
                break
            used = 0
            if group["line_search_fn"] == "strong_wolfe":
                loss, grad, t, used = self._search(closure, direction, t, loss, grad, slope, group["max_eval"] - evaluations)
            else:
                self._move(direction, t)
                if taken != group["max_iter"]:
                    loss, used = float(closure()), 1
                    grad = self._gradient()
            state["t"] = t
            evaluations += used
            state["func_evals"] += used
            small = (direction * t).abs().max().item() <= group["tolerance_change"]
            if (taken == group["max_iter"] or evaluations >= group["max_eval"] or small
                    or grad.abs().max().item() <= group["tolerance_grad"]
                    or abs(loss - old_loss) < group["tolerance_change"]):
                break
        return first

