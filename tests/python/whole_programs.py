"""Complete programs as users write them, each a function of the module `torch` that returns what it computed, by name.

They draw no random numbers of the library: data and weights come from `numbers`. test_whole_programs.py runs each with both.
Programs that train networks are here; those of numerics, statistics and classic models are in whole_programs_numeric.py.
"""
import math
import random


def numbers(torch, *shape, seed=0, low=-1.0, high=1.0, dtype=None):
    """Numbers in [low, high) that depend on the seed alone."""
    draw = random.Random(seed)
    values = [draw.uniform(low, high) for _ in range(math.prod(shape))]
    return torch.tensor(values, dtype=dtype or torch.get_default_dtype()).reshape(shape)


def integers(torch, *shape, seed=0, high=10):
    draw = random.Random(seed)
    return torch.tensor([draw.randrange(high) for _ in range(math.prod(shape))]).reshape(shape)


def filled(torch, model, seed=0, scale=0.5):
    """The model with weights that depend on the seed alone; norms' weights around 1."""
    with torch.no_grad():
        for k, (name, p) in enumerate(model.named_parameters()):
            p.copy_(numbers(torch, *p.shape, seed=seed * 1000 + k) * scale)
            if p.ndim == 1 and "weight" in name:
                p.add_(1.0)
    return model


def gradients(model):
    return {f"grad {n}": p.grad for n, p in model.named_parameters()}


def weights(model):
    return {f"weight {n}": p.detach() for n, p in model.named_parameters()}


def linear_regression(torch):
    x = numbers(torch, 50, 3, seed=1)
    y = x @ torch.tensor([[1.5], [-2.0], [0.5]]) + 0.3 + 0.1 * numbers(torch, 50, 1, seed=2)
    w, b = torch.zeros(3, 1, requires_grad=True), torch.zeros(1, requires_grad=True)
    losses = []
    for _ in range(40):
        loss = ((x @ w + b - y) ** 2).mean()
        loss.backward()
        with torch.no_grad():
            w -= 0.3 * w.grad
            b -= 0.3 * b.grad
            w.grad.zero_()
            b.grad.zero_()
        losses.append(loss.item())
    return {"losses": losses, "w": w, "b": b, "exact": torch.linalg.lstsq(torch.cat([x, torch.ones(50, 1)], 1), y).solution}


def mlp_classifier(torch):
    nn = torch.nn
    x, t = numbers(torch, 40, 6, seed=3), integers(torch, 40, seed=4, high=3)
    model = filled(torch, nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 8), nn.SiLU(), nn.Linear(8, 3)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1, amsgrad=True)
    losses, accuracy = [], []
    for _ in range(8):
        for i in range(0, 40, 10):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x[i:i + 10]), t[i:i + 10], label_smoothing=0.1)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        with torch.no_grad():
            accuracy.append((model(x).argmax(1) == t).double().mean())
    return {"losses": losses, "accuracy": accuracy, **weights(model)}


def cnn_with_batch_norm(torch):
    nn, F = torch.nn, torch.nn.functional

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.norm1 = nn.Conv2d(2, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
            self.conv2, self.norm2 = nn.Conv2d(4, 6, 3, stride=2), nn.BatchNorm2d(6)
            self.drop, self.head = nn.Dropout(0.5), nn.Linear(6, 3)

        def forward(self, x):
            x = F.max_pool2d(F.relu(self.norm1(self.conv1(x))), 2)
            x = F.adaptive_avg_pool2d(F.leaky_relu(self.norm2(self.conv2(x)), 0.1), 1).flatten(1)
            return self.head(self.drop(x))

    x, t = numbers(torch, 12, 2, 10, 10, seed=5), integers(torch, 12, seed=6, high=3)
    model = filled(torch, Net())
    model.drop.p = 0.0
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-3)
    losses = []
    for _ in range(6):
        optimizer.zero_grad(set_to_none=True)
        loss = F.nll_loss(F.log_softmax(model(x), 1), t)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.drop.p = 0.5
    model.eval()
    return {"losses": losses, "eval": model(x), "mean": model.norm2.running_mean, "var": model.norm1.running_var,
            "batches": model.norm1.num_batches_tracked, **gradients(model)}


def lstm_language_model(torch):
    nn = torch.nn
    vocabulary, text = 11, integers(torch, 9, 4, seed=7, high=11)  # [T, B]
    embedding, lstm, head = nn.Embedding(vocabulary, 6, padding_idx=0), nn.LSTM(6, 8, 2), nn.Linear(8, vocabulary)
    model = filled(torch, nn.ModuleList([embedding, lstm, head]))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses, state = [], None
    for _ in range(6):
        optimizer.zero_grad()
        out, state = lstm(embedding(text[:-1]), state)
        state = tuple(s.detach() for s in state)
        loss = nn.functional.cross_entropy(head(out).flatten(0, 1), text[1:].flatten(), ignore_index=0)
        loss.backward()
        total = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        losses += [loss.item(), total]
    return {"losses": losses, "h": state[0], "c": state[1], **gradients(model)}


def packed_gru_classifier(torch):
    nn = torch.nn
    rnn_utils = torch.nn.utils.rnn
    sequences = [numbers(torch, n, 3, seed=10 + n) for n in (5, 2, 7, 4)]
    padded, lengths = rnn_utils.pad_sequence(sequences, batch_first=True), torch.tensor([5, 2, 7, 4])
    gru, head = nn.GRU(3, 5, bidirectional=True, batch_first=True), nn.Linear(10, 1)
    model = filled(torch, nn.ModuleList([gru, head]))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=0.01, centered=True, momentum=0.5)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        packed = rnn_utils.pack_padded_sequence(padded, lengths, batch_first=True, enforce_sorted=False)
        out, last = gru(packed)
        logits = head(torch.cat([last[0], last[1]], 1)).squeeze(1)
        loss = nn.functional.binary_cross_entropy_with_logits(logits, torch.tensor([1.0, 0.0, 1.0, 0.0]))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    back, sizes = rnn_utils.pad_packed_sequence(out, batch_first=True)
    return {"losses": losses, "back": back, "sizes": sizes, **weights(model)}


def transformer_encoder(torch):
    nn = torch.nn
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, norm_first=True, activation="gelu")
    model = filled(torch, nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(8), enable_nested_tensor=False))
    x = numbers(torch, 3, 6, 8, seed=20)
    padding = torch.tensor([[False] * 6, [False] * 4 + [True] * 2, [False] * 5 + [True]])
    causal = nn.Transformer.generate_square_subsequent_mask(6)
    optimizer = torch.optim.NAdam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        out = model(x, mask=causal, src_key_padding_mask=torch.zeros(3, 6).masked_fill(padding, float("-inf")))
        loss = (out * ~padding.unsqueeze(-1)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"losses": losses, "out": out, **gradients(model)}


def variational_autoencoder(torch):
    nn, F = torch.nn, torch.nn.functional
    encoder, decoder = nn.Linear(12, 2 * 3), nn.Sequential(nn.Linear(3, 10), nn.Tanh(), nn.Linear(10, 12))
    model = filled(torch, nn.ModuleList([encoder, decoder]))
    x = numbers(torch, 20, 12, seed=21, low=0.0)
    optimizer = torch.optim.Adamax(model.parameters(), lr=0.02)
    losses = []
    for step in range(6):
        noise = numbers(torch, 20, 3, seed=100 + step)
        mean, log_variance = encoder(x).chunk(2, -1)
        z = mean + noise * (0.5 * log_variance).exp()
        rebuilt = F.binary_cross_entropy(torch.sigmoid(decoder(z)), x, reduction="sum")
        prior = torch.distributions.Normal(torch.zeros(3), torch.ones(3))
        kl = torch.distributions.kl_divergence(torch.distributions.Normal(mean, (0.5 * log_variance).exp()), prior).sum()
        optimizer.zero_grad()
        (rebuilt + 0.5 * kl).backward()
        optimizer.step()
        losses += [rebuilt.item(), kl.item()]
    return {"losses": losses, **weights(model)}


def adversarial_networks(torch):
    nn, F = torch.nn, torch.nn.functional
    make = filled(torch, nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 5)), 1)
    judge = filled(torch, nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(5, 8)), nn.LeakyReLU(0.2), nn.Linear(8, 1)), 2)
    of_make, of_judge = (torch.optim.Adam(m.parameters(), lr=0.01, betas=(0.5, 0.9)) for m in (make, judge))
    real, losses = numbers(torch, 16, 5, seed=22), []
    for step in range(5):
        noise = numbers(torch, 16, 4, seed=200 + step)
        fake = make(noise)
        of_judge.zero_grad()
        right = F.binary_cross_entropy_with_logits(judge(real), torch.ones(16, 1))
        wrong = F.binary_cross_entropy_with_logits(judge(fake.detach()), torch.zeros(16, 1))
        (right + wrong).backward()
        of_judge.step()
        of_make.zero_grad()
        fooled = F.softplus(-judge(fake)).mean()
        fooled.backward()
        of_make.step()
        losses += [right.item(), wrong.item(), fooled.item()]
    return {"losses": losses, "fake": fake, **weights(make)}


def gradient_penalty(torch):
    nn = torch.nn
    critic = filled(torch, nn.Sequential(nn.Linear(4, 9), nn.Softplus(), nn.Linear(9, 1)))
    real, fake = numbers(torch, 7, 4, seed=23), numbers(torch, 7, 4, seed=24)
    optimizer, losses = torch.optim.SGD(critic.parameters(), lr=0.05), []
    for step in range(5):
        share = numbers(torch, 7, 1, seed=300 + step, low=0.0)
        mixed = (share * real + (1 - share) * fake).requires_grad_()
        slope, = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
        penalty = ((slope.norm(2, dim=1) - 1) ** 2).mean()
        loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses += [loss.item(), penalty.item()]
    return {"losses": losses, **gradients(critic)}


def policy_gradient(torch):
    nn = torch.nn
    policy, value = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 4)), nn.Sequential(nn.Linear(3, 8), nn.ELU(), nn.Linear(8, 1))
    model = filled(torch, nn.ModuleDict({"policy": policy, "value": value}))
    optimizer, losses = torch.optim.RAdam(model.parameters(), lr=0.02, weight_decay=0.01), []
    for episode in range(8):
        states, actions = numbers(torch, 10, 3, seed=400 + episode), integers(torch, 10, seed=500 + episode, high=4)
        rewards, returns, total = numbers(torch, 10, seed=600 + episode), [], 0.0
        for r in reversed(rewards.tolist()):
            total = r + 0.9 * total
            returns.insert(0, total)
        returns = torch.tensor(returns)
        returns = (returns - returns.mean()) / (returns.std() + 1e-8)
        chosen = torch.distributions.Categorical(logits=policy(states))
        advantage = returns - value(states).squeeze(-1)
        loss = -(chosen.log_prob(actions) * advantage.detach()).mean() + advantage.pow(2).mean() - 0.01 * chosen.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"losses": losses, **weights(model)}


def _fit(torch, **options):
    x = torch.linspace(0, 3, 30)
    y = 2.0 * torch.exp(-1.3 * x) + 0.5
    parameters = [torch.tensor(v, requires_grad=True) for v in (1.0, -0.5, 0.0)]
    optimizer, losses = torch.optim.LBFGS(parameters, **options), []

    def closure():
        optimizer.zero_grad()
        a, b, c = parameters
        loss = ((a * torch.exp(b * x) + c - y) ** 2).sum()
        loss.backward()
        return loss

    for _ in range(12):
        losses.append(optimizer.step(closure).item())
    return {"losses": losses, "parameters": parameters, "evaluations": optimizer.state[parameters[0]]["func_evals"]}


def lbfgs_plain(torch):
    return _fit(torch, lr=0.01, max_iter=4)


def lbfgs_unit_steps(torch):
    return _fit(torch, lr=0.3, max_iter=6, history_size=3)


def lbfgs_strong_wolfe(torch):
    return _fit(torch, lr=0.01, line_search_fn="strong_wolfe")


def lbfgs_few_evaluations(torch):
    return _fit(torch, lr=1.0, max_iter=5, max_eval=6, line_search_fn="strong_wolfe")


def maml_inner_loop(torch):
    def predict(w, x):
        return torch.tanh(x @ w[0] + w[1]) @ w[2] + w[3]

    shapes = [(1, 8), (8,), (8, 1), (1,)]
    meta = [(numbers(torch, *s, seed=30 + i) * 0.5).requires_grad_() for i, s in enumerate(shapes)]
    optimizer, losses = torch.optim.Adagrad(meta, lr=0.05, lr_decay=0.01), []
    for step in range(5):
        outer = 0.0
        for task in range(3):
            x = numbers(torch, 8, 1, seed=700 + step * 3 + task, low=-2.0, high=2.0)
            y = torch.sin(x + task)
            w = meta
            for _ in range(2):
                slopes = torch.autograd.grad(((predict(w, x) - y) ** 2).mean(), w, create_graph=True)
                w = [a - 0.1 * g for a, g in zip(w, slopes)]
            outer = outer + ((predict(w, x + 0.3) - torch.sin(x + 0.3 + task)) ** 2).mean()
        optimizer.zero_grad()
        outer.backward()
        optimizer.step()
        losses.append(outer.item())
    return {"losses": losses, "meta": meta, "grads": [m.grad for m in meta]}


def tied_weights(torch):
    nn = torch.nn

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.out = nn.Embedding(9, 5), nn.Linear(5, 9, bias=False)
            self.out.weight = self.embed.weight

        def forward(self, t):
            return self.out(torch.tanh(self.embed(t)).cumsum(1))

    model, text = filled(torch, Tied()), integers(torch, 4, 6, seed=31, high=9)
    optimizer, losses = torch.optim.Adam(model.parameters(), lr=0.02), []
    for _ in range(5):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(text[:, :-1]).transpose(1, 2), text[:, 1:])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"losses": losses, "count": len(list(model.parameters())), "keys": sorted(model.state_dict()), **weights(model)}


def accumulation_clipping_schedules(torch):
    nn, schedule = torch.nn, torch.optim.lr_scheduler
    model = filled(torch, nn.Sequential(nn.Linear(4, 7), nn.Hardswish(), nn.Linear(7, 2)))
    optimizer = torch.optim.SGD([{"params": model[0].parameters(), "lr": 0.05}, {"params": model[2].parameters()}], lr=0.1,
                                momentum=0.9, dampening=0.1)
    warm = schedule.SequentialLR(optimizer, [schedule.LinearLR(optimizer, 0.1, total_iters=3),
                                             schedule.CosineAnnealingLR(optimizer, T_max=8, eta_min=1e-3)], [3])
    plateau = schedule.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
    losses, rates = [], []
    for step in range(10):
        optimizer.zero_grad()
        total = 0.0
        for part in range(3):
            x = numbers(torch, 5, 4, seed=800 + step * 3 + part)
            loss = nn.functional.smooth_l1_loss(model(x), x[:, :2].sin(), beta=0.5) / 3
            loss.backward()
            total += loss.item()
        nn.utils.clip_grad_value_(model[0].parameters(), 0.05)
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1, norm_type=1.0)
        optimizer.step()
        warm.step()
        if step > 6:
            plateau.step(total)
        losses += [total, norm]
        rates.append([g["lr"] for g in optimizer.param_groups])
    return {"losses": losses, "rates": rates, **weights(model)}


def averaged_models(torch):
    nn, swa = torch.nn, torch.optim.swa_utils
    model = filled(torch, nn.Sequential(nn.Linear(3, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 1)))
    plain, moving = swa.AveragedModel(model), swa.AveragedModel(model, multi_avg_fn=swa.get_ema_multi_avg_fn(0.9))
    optimizer = torch.optim.ASGD(model.parameters(), lr=0.05, t0=2, lambd=0.01)
    rate, rates = swa.SWALR(optimizer, swa_lr=0.01, anneal_epochs=3), []
    batches = [numbers(torch, 8, 3, seed=900 + i) for i in range(6)]
    for x in batches:
        optimizer.zero_grad()
        (model(x) - x.sum(1, keepdim=True)).abs().mean().backward()
        optimizer.step()
        plain.update_parameters(model)
        moving.update_parameters(model)
        rate.step()
        rates.append(optimizer.param_groups[0]["lr"])
    swa.update_bn(batches, plain)
    plain.eval()
    moving.eval()
    return {"rates": rates, "plain": plain(batches[0]), "moving": moving(batches[0]), "mean": plain.module[1].running_mean}


def checkpoint_round_trip(torch):
    import io
    nn = torch.nn

    def build():
        model = filled(torch, nn.Sequential(nn.Conv1d(2, 3, 3, bias=False), nn.BatchNorm1d(3), nn.Flatten(), nn.Linear(12, 2)))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        return model, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)

    def train(parts, steps, start):
        model, optimizer, schedule = parts
        losses = []
        for i in range(start, start + steps):
            optimizer.zero_grad()
            loss = model(numbers(torch, 5, 2, 6, seed=1000 + i)).square().mean()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        return losses

    whole = build()
    losses = train(whole, 3, 0)
    file = io.BytesIO()
    torch.save({name: part.state_dict() for name, part in zip("mos", whole)}, file)
    losses += train(whole, 3, 3)
    file.seek(0)
    saved, again = torch.load(file), build()
    for name, part in zip("mos", again):
        part.load_state_dict(saved[name])
    resumed = train(again, 3, 3)
    return {"losses": losses, "resumed": resumed, "same": resumed == losses[3:], **weights(again[0])}


def custom_functions(torch):
    class Clipped(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, limit):
            ctx.save_for_backward(x)
            ctx.limit = limit
            return x.clamp(-limit, limit)

        @staticmethod
        def backward(ctx, grad):
            x, = ctx.saved_tensors
            return grad * (x.abs() <= ctx.limit).to(grad.dtype) + 0.1 * grad, None

    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x ** 3, x.sign()

        @staticmethod
        def backward(ctx, grad, grad_sign):
            x, = ctx.saved_tensors
            return grad * 3 * x ** 2

    x = (numbers(torch, 4, 5, seed=40) * 3).requires_grad_()
    y, sign = Cube.apply(Clipped.apply(x, 1.5))
    first, = torch.autograd.grad((y * sign.detach()).sum(), x, create_graph=True)
    second, = torch.autograd.grad(first.square().sum(), x)
    return {"y": y, "first": first, "second": second}


def masked_attention(torch):
    F = torch.nn.functional
    q, k, v = ((numbers(torch, 2, 3, 5, 4, seed=41 + i) * 2).requires_grad_() for i in range(3))
    bias = numbers(torch, 5, 5, seed=44)
    keep = torch.ones(5, 5).tril().bool()
    scores = (q @ k.transpose(-2, -1) / 2 + bias).masked_fill(~keep, float("-inf"))
    by_hand = scores.softmax(-1) @ v
    fused = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.masked_fill(~keep, float("-inf")))
    causal = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3)
    attention = filled(torch, torch.nn.MultiheadAttention(4, 2, batch_first=True, bias=True))
    out, shares = attention(q[:, 0], k[:, 0], v[:, 0], key_padding_mask=torch.tensor([[False] * 5, [False] * 3 + [True] * 2]))
    (by_hand.sum() + fused.square().sum() + causal.sin().sum() + out.sum()).backward()
    return {"by_hand": by_hand, "fused": fused, "causal": causal, "out": out, "shares": shares, "grads": [q.grad, k.grad, v.grad]}


def embedding_bags(torch):
    nn, F = torch.nn, torch.nn.functional
    bag, head = nn.EmbeddingBag(13, 4, mode="mean", padding_idx=2), nn.Linear(4, 3)
    model = filled(torch, nn.ModuleList([bag, head]))
    words, starts = integers(torch, 20, seed=45, high=13), torch.tensor([0, 3, 3, 9, 15])
    optimizer, losses = torch.optim.Rprop(model.parameters(), lr=0.01), []
    for _ in range(6):
        optimizer.zero_grad()
        loss = F.multi_margin_loss(head(bag(words, starts)), torch.tensor([0, 1, 2, 1, 0]))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    sums = F.embedding_bag(words.view(4, 5), bag.weight.detach(), mode="sum", per_sample_weights=numbers(torch, 4, 5, seed=46))
    most = F.embedding_bag(words, bag.weight.detach(), starts, mode="max")
    return {"losses": losses, "sums": sums, "most": most, **gradients(model)}


def speech_with_ctc(torch):
    nn, F = torch.nn, torch.nn.functional
    model = filled(torch, nn.Sequential(nn.Conv1d(3, 6, 3, padding=1), nn.ReLU6(), nn.Conv1d(6, 5, 1)))
    x = numbers(torch, 3, 3, 12, seed=47)
    targets, lengths = torch.tensor([1, 2, 2, 3, 4, 1, 3]), torch.tensor([3, 2, 2])
    optimizer, losses = torch.optim.Adadelta(model.parameters(), lr=1.0), []
    for reduction in ("mean", "sum", "mean", "sum"):
        optimizer.zero_grad()
        log_probs = model(x).permute(2, 0, 1).log_softmax(-1)
        loss = F.ctc_loss(log_probs, targets, torch.tensor([12, 10, 8]), lengths, reduction=reduction, zero_infinity=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"losses": losses, "best": log_probs.argmax(-1), **gradients(model)}


def image_augmentation(torch):
    F = torch.nn.functional
    images = numbers(torch, 2, 3, 9, 11, seed=48, low=0.0)
    small = F.interpolate(images, scale_factor=0.6, mode="bilinear", antialias=True)
    large = F.interpolate(images, size=(15, 20), mode="bicubic", align_corners=True)
    bytes_ = (images * 255).to(torch.uint8)
    resized = [F.interpolate(bytes_, size=(7, 13), mode=m, antialias=a) for m in ("bilinear", "bicubic") for a in (False, True)]
    angle = torch.tensor([0.3, -0.7])
    theta = torch.stack([torch.stack([angle.cos(), -angle.sin(), 0.1 * angle], -1),
                         torch.stack([angle.sin(), angle.cos(), -0.2 * angle], -1)], 1).requires_grad_()
    grid = F.affine_grid(theta, (2, 3, 8, 8), align_corners=False)
    turned = [F.grid_sample(images, grid, mode=m, padding_mode=p, align_corners=False)
              for m in ("bilinear", "nearest", "bicubic") for p in ("zeros", "border", "reflection")]
    sum(t.square().sum() for t in turned).backward()
    flipped = torch.where(torch.tensor([True, False]).view(2, 1, 1, 1), images.flip(-1), images)
    padded = F.pad(flipped, (2, 1, 0, 3), mode="reflect").roll((1, -2), (-2, -1))
    mean, std = padded.mean((0, 2, 3), keepdim=True), padded.std((0, 2, 3), keepdim=True)
    return {"small": small, "large": large, "bytes": resized, "turned": turned, "theta": theta.grad, "normal": (padded - mean) / std}


def mixed_dtypes(torch):
    nn = torch.nn
    model = filled(torch, nn.Sequential(nn.Linear(4, 6), nn.Sigmoid(), nn.Linear(6, 3))).to(torch.bfloat16)
    x = numbers(torch, 5, 4, seed=49)
    out = model(x.to(torch.bfloat16))
    counts, flags = torch.arange(5, dtype=torch.int32), torch.tensor([True, False, True, True, False])
    values = {"int * float": counts * 0.5, "int / int": counts / 2, "bool + int": flags + counts,
              "uint8 wraps": torch.tensor([250], dtype=torch.uint8) + 10,
              "half sum": x.half().sum(), "long mean": counts.double().mean(), "floor": -counts // 2, "rest": -counts % 3,
              "float32 + float64": x.float() + x.double(), "where": torch.where(flags, counts, 1.5),
              "half dot": (x.half() @ x.half().t()).float()}
    return {"out": out, **values}


PROGRAMS = [linear_regression, mlp_classifier, cnn_with_batch_norm, lstm_language_model, packed_gru_classifier, transformer_encoder,
            variational_autoencoder, adversarial_networks, gradient_penalty, policy_gradient, lbfgs_plain, lbfgs_unit_steps,
            lbfgs_strong_wolfe, lbfgs_few_evaluations, maml_inner_loop, tied_weights, accumulation_clipping_schedules,
            averaged_models, checkpoint_round_trip, custom_functions, masked_attention, embedding_bags, speech_with_ctc,
            image_augmentation, mixed_dtypes]
