"""Complete programs of numerics, statistics and classic models, as functions of the module `torch` (see whole_programs.py)."""
import math

from whole_programs import integers, numbers


def kalman_filter(torch):
    dt = 0.1
    motion = torch.tensor([[1, dt, dt * dt / 2], [0, 1, dt], [0, 0, 1.0]])
    seen = torch.tensor([[1.0, 0, 0]])
    noise, error = 0.01 * torch.eye(3), torch.tensor([[0.2]], requires_grad=True)
    x, p, total, track = torch.zeros(3, 1), torch.eye(3), 0.0, []
    for z in numbers(torch, 25, seed=1).cumsum(0):
        x, p = motion @ x, motion @ p @ motion.T + noise
        residual, s = z - seen @ x, seen @ p @ seen.T + error
        gain = torch.linalg.solve(s, seen @ p).T
        x, p = x + gain @ residual, (torch.eye(3) - gain @ seen) @ p
        total = total + 0.5 * (residual.T @ torch.inverse(s) @ residual + torch.logdet(s)).squeeze()
        track.append(x.detach().squeeze())
    total.backward()
    return {"track": torch.stack(track), "likelihood": total, "slope": error.grad, "p": p}


def matrix_factorisation(torch):
    ratings, known = numbers(torch, 12, 9, seed=2) * 3, integers(torch, 12, 9, seed=3, high=2) > 0
    users, items = (torch.nn.Parameter(numbers(torch, n, 4, seed=n) * 0.5) for n in (12, 9))
    optimizer, losses = torch.optim.SGD([users, items], lr=0.5, momentum=0.5), []
    for _ in range(30):
        optimizer.zero_grad()
        wrong = (users @ items.t() - ratings)[known]
        loss = wrong.pow(2).mean() + 0.01 * (users.norm() ** 2 + items.norm() ** 2)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    best = (users @ items.T).topk(3, 1)
    return {"losses": losses, "values": best.values, "indices": best.indices, "users": users}


def einsum_models(torch):
    x, a, b = (numbers(torch, *s, seed=i).requires_grad_() for i, s in enumerate([(3, 4, 5), (5, 6), (4, 6, 2)]))
    trilinear = torch.einsum("bij,jk,ikl->bl", x, a, b)
    outer = torch.einsum("bi,bj->bij", x[:, 0], x[:, 1])
    trace = torch.einsum("bii->b", outer)
    core = torch.tensordot(x, a, dims=([2], [0])).movedim(-1, 0)
    kron = torch.kron(a[:2, :2], b[0, :2])
    (trilinear.tanh().sum() + trace.square().sum() + core.sin().sum() + kron.prod()).backward()
    return {"trilinear": trilinear, "trace": trace, "core": core, "kron": kron, "grads": [x.grad, a.grad, b.grad]}


def k_means(torch):
    points = torch.cat([numbers(torch, 20, 2, seed=i) * 0.7 + torch.tensor(c) for i, c in enumerate([[0.0, 0], [2, 2], [-2, 1]])])
    centres, moves = points[[0, 25, 50]].clone(), []
    for _ in range(10):
        owner = torch.cdist(points, centres).argmin(1)
        counts = torch.bincount(owner, minlength=3)
        new = torch.zeros(3, 2).index_add_(0, owner, points) / counts.clamp(min=1).unsqueeze(1)
        moves.append((new - centres).norm())
        centres = new
    one_hot = torch.nn.functional.one_hot(owner, 3)
    spread = torch.zeros(3).scatter_add_(0, owner, (points - centres[owner]).square().sum(1))
    return {"centres": centres, "owner": owner, "counts": counts, "moves": moves, "hot": one_hot.sum(0), "spread": spread}


def principal_components(torch):
    x = numbers(torch, 30, 6, seed=4) @ numbers(torch, 6, 6, seed=5)
    centred = x - x.mean(0)
    u, s, vh = torch.linalg.svd(centred, full_matrices=False)
    values, vectors = torch.linalg.eigh(centred.T @ centred)
    rebuilt = (u[:, :3] * s[:3]) @ vh[:3]
    white = centred @ vectors / values.sqrt()
    return {"s": s, "values": values, "rebuilt": rebuilt, "covariance": torch.cov(x.T), "correlation": torch.corrcoef(x.T),
            "white": white.T @ white, "share": (s ** 2 / (s ** 2).sum()).cumsum(0), "rank": torch.linalg.matrix_rank(centred),
            "pinv": torch.linalg.pinv(centred), "condition": torch.linalg.cond(centred)}


def gaussian_process(torch):
    x, at = torch.linspace(-2, 2, 12).unsqueeze(1), torch.linspace(-3, 3, 9).unsqueeze(1)
    y = torch.sin(2 * x).squeeze()
    log_length, log_noise = torch.zeros((), requires_grad=True), torch.tensor(-2.0, requires_grad=True)
    optimizer, losses = torch.optim.Adam([log_length, log_noise], lr=0.1), []
    for _ in range(10):
        k = torch.exp(-0.5 * torch.cdist(x, x) ** 2 / log_length.exp() ** 2) + log_noise.exp() * torch.eye(12)
        low = torch.linalg.cholesky(k)
        alpha = torch.cholesky_solve(y.unsqueeze(1), low)
        loss = 0.5 * (y @ alpha).squeeze() + low.diagonal().log().sum() + 6 * math.log(2 * math.pi)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        across = torch.exp(-0.5 * torch.cdist(at, x) ** 2 / log_length.exp() ** 2)
        inner = torch.linalg.solve_triangular(low, across.T, upper=False)
        deviation = (1 - inner.square().sum(0)).clamp(min=0).sqrt()
    density = torch.distributions.MultivariateNormal(torch.zeros(12), scale_tril=low.detach()).log_prob(y)
    return {"losses": losses, "mean": across @ alpha, "deviation": deviation, "density": density}


def differential_equation(torch):
    rates = torch.tensor([1.1, 0.4, 0.1, 0.4], requires_grad=True)

    def slope(state):
        a, b = state
        return torch.stack([rates[0] * a - rates[1] * a * b, rates[2] * a * b - rates[3] * b])

    state, path, h = torch.tensor([10.0, 5.0]), [], 0.05
    for _ in range(60):
        k1 = slope(state)
        k2 = slope(state + h / 2 * k1)
        k3 = slope(state + h / 2 * k2)
        k4 = slope(state + h * k3)
        state = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        path.append(state)
    path = torch.stack(path)
    area = torch.trapezoid(path, dx=h, dim=0)
    area.prod().backward()
    hessian = torch.autograd.functional.hessian(lambda v: (v ** 3).sum() * v[0], state.detach())
    jacobian = torch.autograd.functional.jacobian(lambda v: slope(v), state.detach())
    return {"path": path, "area": area, "grad": rates.grad, "hessian": hessian, "jacobian": jacobian,
            "slopes": torch.gradient(path.detach()[:, 0], spacing=h)[0]}


def statistics_pipeline(torch):
    x = (numbers(torch, 60, 4, seed=6) * 8).round() / 2
    x[3, 1] = math.nan
    clean = torch.where(x.isnan(), x.nanmean(0), x)
    q = torch.quantile(clean, torch.tensor([0.0, 0.25, 0.5, 0.9]), dim=0)
    counts, edges = torch.histogram(clean[:, 0], 7)
    dense = torch.histogram(clean[:, 1], torch.tensor([-4.0, -1.0, 0.0, 4.0]), density=True).hist
    same = torch.histogram(torch.full((5,), 2.0), 4)
    values, inverse, number = clean[:, 0].unique(return_inverse=True, return_counts=True)
    order = clean[:, 2].sort(descending=True, stable=True)
    runs = torch.unique_consecutive(clean[:, 3].sort().values, return_counts=True)
    return {"q": q, "nan": torch.nanquantile(x, 0.3, 0, interpolation="lower"), "counts": counts, "edges": edges, "dense": dense,
            "same": list(same), "values": values, "inverse": inverse, "number": number, "order": list(order), "runs": list(runs),
            "median": clean.median(0).values, "mode": clean.mode(0).values, "std": clean.std(0, correction=0), "var": clean.var(1),
            "moments": list(torch.std_mean(clean, (0, 1))), "rank": clean[:, 0].argsort(stable=True).argsort(), "diff": clean.diff(2, 0),
            "bins": torch.bucketize(clean[:, 1], edges), "grid": torch.histc(clean, 5), "cum": list(clean.cummax(0)),
            "logcum": clean.logcumsumexp(0), "kth": clean.kthvalue(7, 0).values, "top": clean.topk(3, 0, largest=False).values,
            "cov": torch.cov(clean.T, fweights=torch.arange(60) % 3), "norms": clean.renorm(2, 1, 5.0)}


def fourier_free_filters(torch):
    signal = torch.sin(torch.linspace(0, 20, 80)) + 0.3 * numbers(torch, 80, seed=7)
    window = torch.hann_window(9)
    smooth = torch.nn.functional.conv1d(signal.view(1, 1, -1), (window / window.sum()).view(1, 1, -1), padding=4).flatten()
    frames = signal.unfold(0, 16, 8) * torch.hamming_window(16)
    angles = torch.outer(torch.arange(9.0), torch.arange(16.0)) * (2 * math.pi / 16)
    power = (frames @ angles.cos().T) ** 2 + (frames @ angles.sin().T) ** 2
    peaks = ((smooth[1:-1] > smooth[:-2]) & (smooth[1:-1] > smooth[2:])).nonzero().flatten() + 1
    running = torch.stack([signal.cumsum(0)[4:] - torch.cat([torch.zeros(1), signal.cumsum(0)[:-5]])]) / 5
    return {"smooth": smooth, "power": power.log1p(), "peaks": peaks, "running": running,
            "median": signal.unfold(0, 5, 1).median(-1).values}


def hidden_markov_model(torch):
    states, steps = 4, 15
    logits = [numbers(torch, *s, seed=i).requires_grad_() for i, s in enumerate([(states,), (states, states), (states, 5)], 8)]
    first, move, emit = (t.log_softmax(-1) for t in logits)
    seen = integers(torch, steps, seed=9, high=5)
    forward, best, back = first + emit[:, seen[0]], first + emit[:, seen[0]], []
    for t in seen[1:]:
        forward = torch.logsumexp(forward.unsqueeze(1) + move, 0) + emit[:, t]
        most = (best.unsqueeze(1) + move).max(0)
        best, back = most.values + emit[:, t], [*back, most.indices]
    state = best.argmax()
    path = [state.item()]
    for places in reversed(back):
        path.append(places[path[-1]].item())
    likelihood = forward.logsumexp(0)
    likelihood.backward()
    return {"likelihood": likelihood, "path": path[::-1], "grads": [t.grad for t in logits]}


def page_rank_and_graphs(torch):
    edges = torch.stack([integers(torch, 40, seed=10, high=12), integers(torch, 40, seed=11, high=12)])
    links = torch.zeros(12, 12).index_put_((edges[0], edges[1]), torch.ones(40), accumulate=True)
    out = links.sum(1, keepdim=True)
    walk = torch.where(out > 0, links / out.clamp(min=1), 1 / 12)
    rank = torch.full((12,), 1 / 12)
    for _ in range(30):
        rank = 0.85 * rank @ walk + 0.15 / 12
    degree = torch.zeros(12, dtype=torch.long).scatter_add_(0, edges[1], torch.ones(40, dtype=torch.long))
    features = numbers(torch, 12, 3, seed=12).requires_grad_()
    gathered = torch.zeros(12, 3).index_add(0, edges[1], features[edges[0]]) / degree.clamp(min=1).unsqueeze(1)
    most = torch.full((12, 3), -10.0).scatter_reduce(0, edges[1].unsqueeze(1).expand(-1, 3), features.detach()[edges[0]], "amax")
    gathered.square().sum().backward()
    power = torch.linalg.matrix_power(walk, 3)
    return {"rank": rank, "degree": degree, "gathered": gathered, "most": most, "grad": features.grad, "power": power,
            "order": rank.argsort(descending=True, stable=True), "reach": (torch.matrix_power(links, 4) > 0).sum()}


def number_theory(torch):
    n = torch.arange(2, 60)
    primes = n[((n.unsqueeze(1) % n) == 0).sum(1) == 1]
    a, b = integers(torch, 20, seed=13, high=200) - 100, integers(torch, 20, seed=14, high=60)
    bits = (a.unsqueeze(1).bitwise_and(2 ** torch.arange(8)) != 0).int()
    return {"primes": primes, "gcd": torch.gcd(a, b), "lcm": torch.lcm(a, b), "bits": bits, "xor": a ^ b, "shift": a << 2,
            "floor": torch.div(a, b + 1, rounding_mode="floor"), "trunc": torch.div(a, b + 1, rounding_mode="trunc"),
            "rest": torch.remainder(a, b + 1), "fmod": torch.fmod(a, b + 1), "pairs": torch.combinations(primes[:5], 2),
            "grid": torch.cartesian_prod(a[:2], b[:3]), "places": list(torch.unravel_index(b, (10, 20)))}


PROGRAMS = [kalman_filter, matrix_factorisation, einsum_models, k_means, principal_components, gaussian_process, differential_equation,
            statistics_pipeline, fourier_free_filters, hidden_markov_model, page_rank_and_graphs, number_theory]
