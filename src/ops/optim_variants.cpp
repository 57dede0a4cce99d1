// The steps of Adadelta, Adamax, NAdam, RAdam, ASGD and Rprop, one op definition each, under the
// rules of optim.cpp. Numbers that a step keeps beside its arrays are 0-dim tensors, too.
#include "kernels/optim_variants.h"

#include <algorithm>
#include <cmath>

#include "ops/optim.h"

namespace pellucid {

using namespace optim_steps;

namespace {

/// Where the decay goes, and its number for the kernel; attributes i and i + 1 are weight_decay and
/// decoupled.
kernels::Decay decay_of(const Call& c, size_t i, double& number) {
  if (c.number(i) == 0) return kernels::Decay::None;
  return c.flag(i + 1) ? kernels::Decay::Decoupled
                       : (number = c.number(i), kernels::Decay::Gradient);
}

/// Two arrays of state, then the count of steps and the learning rate.
void infer_two_states(Call& c) {
  check_arrays(c, 2, 2);
  check_step(c, 4);
  check_rate(c, 5);
}

// Attributes: rho, eps, weight_decay.
void run_adadelta(Call& c) {
  if (c.described()) return;
  const NoGradGuard off;
  const Arrays<4> a(c);
  next_step(c, 4);
  kernels::adadelta_step(
      a.type, a.n,
      {.lr = number_in(c, 5), .rho = c.number(0), .eps = c.number(1), .weight_decay = c.number(2)},
      a[0], a[1], a[2], a[3]);
  a.finish();
}

// Attributes: beta1, beta2, eps, weight_decay.
void run_adamax(Call& c) {
  if (c.described()) return;
  const NoGradGuard off;
  const Arrays<4> a(c);
  const auto steps = static_cast<double>(next_step(c, 4));
  kernels::adamax_step(a.type, a.n,
                       {.step_size = number_in(c, 5) / (1 - std::pow(c.number(0), steps)),
                        .beta1 = c.number(0),
                        .beta2 = c.number(1),
                        .eps = c.number(2),
                        .weight_decay = c.number(3)},
                       a[0], a[1], a[2], a[3]);
  a.finish();
}

void infer_nadam(Call& c) {
  check_arrays(c, 2, 2);
  check_number(c, 4);
  check_step(c, 5);
  check_rate(c, 6);
}

// Attributes: beta1, beta2, eps, weight_decay, decoupled, momentum_decay.
void run_nadam(Call& c) {
  if (c.described()) return;
  const NoGradGuard off;
  const Arrays<4> a(c);
  const auto steps = static_cast<double>(next_step(c, 5));
  const double lr = number_in(c, 6), beta1 = c.number(0), beta2 = c.number(1);
  const auto momentum = [&](double step) {  // 0.96 and 0.5 are the constants of Dozat's schedule
    return beta1 * (1 - 0.5 * std::pow(0.96, step * c.number(5)));
  };
  const double mu = momentum(steps), next = momentum(steps + 1);
  set_number(c, 4, number_in(c, 4) * mu);
  const double product = number_in(c, 4);
  double decay = 1 - lr * c.number(3);
  const kernels::Decay where = decay_of(c, 3, decay);
  kernels::nadam_step(a.type, a.n,
                      {.grad_size = lr * (1 - mu) / (1 - product),
                       .mean_size = lr * next / (1 - product * next),
                       .beta1 = beta1,
                       .beta2 = beta2,
                       .eps = c.number(2),
                       .correction2 = 1 - std::pow(beta2, steps),
                       .decay = decay,
                       .where = where},
                      a[0], a[1], a[2], a[3]);
  a.finish();
}

// Attributes: beta1, beta2, eps, weight_decay, decoupled.
void run_radam(Call& c) {
  if (c.described()) return;
  const NoGradGuard off;
  const Arrays<4> a(c);
  const auto steps = static_cast<double>(next_step(c, 4));
  const double lr = number_in(c, 5), beta1 = c.number(0), beta2 = c.number(1);
  const double correction2 = 1 - std::pow(beta2, steps);
  // The length of the average's memory, now and in the long run; up to 5 its variance is infinite.
  const double most = 2 / (1 - beta2) - 1;
  const double length = most - 2 * steps * std::pow(beta2, steps) / correction2;
  double size = lr / (1 - std::pow(beta1, steps));
  if (length > 5)
    size *= std::sqrt((length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length)) *
            std::sqrt(correction2);
  double decay = 1 - lr * c.number(3);
  const kernels::Decay where = decay_of(c, 3, decay);
  kernels::radam_step(a.type, a.n,
                      {.step_size = size,
                       .beta1 = beta1,
                       .beta2 = beta2,
                       .eps = c.number(2),
                       .decay = decay,
                       .where = where,
                       .rectified = length > 5},
                      a[0], a[1], a[2], a[3]);
  a.finish();
}

void infer_asgd(Call& c) {
  check_arrays(c, 1, 1);
  check_number(c, 3);
  check_number(c, 4);
  check_step(c, 5);
  check_rate(c, 6);
}

// Attributes: lambd, alpha, t0, weight_decay.
void run_asgd(Call& c) {
  if (c.described()) return;
  const NoGradGuard off;
  const Arrays<3> a(c);
  const auto steps = static_cast<double>(next_step(c, 5));
  kernels::asgd_step(a.type, a.n,
                     {.eta = number_in(c, 3),
                      .mu = number_in(c, 4),
                      .lambd = c.number(0),
                      .weight_decay = c.number(3)},
                     a[0], a[1], a[2]);
  a.finish();
  const double lr = number_in(c, 6);
  set_number(c, 3, lr / std::pow(1 + c.number(0) * lr * steps, c.number(1)));
  set_number(c, 4, 1 / std::max(1.0, steps - c.number(2)));
}

void infer_rprop(Call& c) {
  check_arrays(c, 2, 2);
  check_step(c, 4);
}

// Attributes: eta_minus, eta_plus, step_min, step_max.
void run_rprop(Call& c) {
  if (c.described()) return;
  const NoGradGuard off;
  const Arrays<4> a(c);
  next_step(c, 4);
  kernels::rprop_step(a.type, a.n,
                      {.eta_minus = c.number(0),
                       .eta_plus = c.number(1),
                       .step_min = c.number(2),
                       .step_max = c.number(3)},
                      a[0], a[1], a[2], a[3]);
  a.finish();
}

Tensor number(double value) { return full({}, value, kFloat64); }

}  // namespace

extern constinit const OpDef adadelta_step_op = {
    .schema =
        "adadelta_step(Tensor(a!) param, Tensor grad, Tensor(a!) square_avg, "
        "Tensor(a!) acc_delta, Tensor(a!) step, Tensor lr, *, float rho=0.9, float eps=1e-6, "
        "float weight_decay=0) -> ()",
    .doc =
        "One step of Adadelta: param -= lr * delta with delta = sqrt(u + eps) / sqrt(v + eps) * "
        "grad, v and u the averages of the squares of the gradient and of delta.",
    .kind = OpKind::Opaque,
    .infer = infer_two_states,
    .cost = [](const Call& c) { return step_cost(c, 14); },
    .kernel = run_adadelta,
    .vjp = no_gradient,
    .samples =
        [](Samples& s) {
          const Tensor x = sample_randn({2, 3}), g = sample_randn({2, 3});
          s.add_no_grad({x, g, square({2, 3}), square({2, 3}), steps(), rate()});
          s.add_no_grad({x, g, square({2, 3}), square({2, 3}), steps(), rate()},
                        {{"rho", 0.8}, {"weight_decay", 0.1}});
          s.error({x, g, square({2, 3}), square({3}), steps(), rate()},
                  "'acc_delta' has sizes [3] but 'param' has");
        },
    .describes = true};

extern constinit const OpDef adamax_step_op = {
    .schema =
        "adamax_step(Tensor(a!) param, Tensor grad, Tensor(a!) exp_avg, Tensor(a!) exp_inf, "
        "Tensor(a!) step, Tensor lr, *, float beta1=0.9, float beta2=0.999, float eps=1e-8, "
        "float weight_decay=0) -> ()",
    .doc =
        "One step of Adamax: param -= lr / (1 - beta1^step) * m / u with the average m of the "
        "gradient and u = max(beta2 * u, |grad| + eps).",
    .kind = OpKind::Opaque,
    .infer = infer_two_states,
    .cost = [](const Call& c) { return step_cost(c, 10); },
    .kernel = run_adamax,
    .vjp = no_gradient,
    .samples =
        [](Samples& s) {
          const Tensor x = sample_randn({2, 3}), g = sample_randn({2, 3}), m = sample_randn({2, 3});
          s.add_no_grad({x, g, m, square({2, 3}), steps(), rate()});
          s.add_no_grad({x, g, m, square({2, 3}), steps(), rate()},
                        {{"beta1", 0.8}, {"weight_decay", 0.1}});
          s.error({x, g, m, Value(), steps(), rate()}, "exp_inf");
        },
    .describes = true};

extern constinit const OpDef nadam_step_op = {
    .schema =
        "nadam_step(Tensor(a!) param, Tensor grad, Tensor(a!) exp_avg, Tensor(a!) exp_avg_sq, "
        "Tensor(a!) mu_product, Tensor(a!) step, Tensor lr, *, float beta1=0.9, "
        "float beta2=0.999, float eps=1e-8, float weight_decay=0, bool decoupled=False, "
        "float momentum_decay=4e-3) -> ()",
    .doc =
        "One step of NAdam: Adam's, with the average of the gradient as it will be after the next "
        "step (Nesterov); mu_product is the product of the momenta so far.",
    .kind = OpKind::Opaque,
    .infer = infer_nadam,
    .cost = [](const Call& c) { return step_cost(c, 17); },
    .kernel = run_nadam,
    .vjp = no_gradient,
    .samples =
        [](Samples& s) {
          const Tensor x = sample_randn({2, 3}), g = sample_randn({2, 3}), m = sample_randn({2, 3});
          s.add_no_grad({x, g, m, square({2, 3}), number(0.7), steps(), rate()});
          s.add_no_grad({x, g, m, square({2, 3}), number(0.7), steps(), rate()},
                        {{"weight_decay", 0.1}, {"decoupled", true}, {"momentum_decay", 0.1}});
          s.error({x, g, m, square({2, 3}), ones({2}), steps(), rate()},
                  "'mu_product' must be a 0-dimensional floating tensor");
        },
    .describes = true};

extern constinit const OpDef radam_step_op = {
    .schema =
        "radam_step(Tensor(a!) param, Tensor grad, Tensor(a!) exp_avg, Tensor(a!) exp_avg_sq, "
        "Tensor(a!) step, Tensor lr, *, float beta1=0.9, float beta2=0.999, float eps=1e-8, "
        "float weight_decay=0, bool decoupled=False) -> ()",
    .doc =
        "One step of RAdam: Adam's times the rectification of its variance; the first steps, while "
        "that variance is infinite, are lr * m.",
    .kind = OpKind::Opaque,
    .infer = infer_two_states,
    .cost = [](const Call& c) { return step_cost(c, 13); },
    .kernel = run_radam,
    .vjp = no_gradient,
    .samples =
        [](Samples& s) {
          const Tensor x = sample_randn({2, 3}), g = sample_randn({2, 3}), m = sample_randn({2, 3});
          s.add_no_grad({x, g, m, square({2, 3}), steps(), rate()});
          s.add_no_grad({x, g, m, square({2, 3}), full({}, 20, kInt64), rate()},
                        {{"weight_decay", 0.1}});
          s.add_no_grad({x, g, m, square({2, 3}), full({}, 20, kInt64), rate()},
                        {{"weight_decay", 0.1}, {"decoupled", true}});
          s.error({x, g, m, square({2, 3}), steps(), ones({2})},
                  "'lr' must be a 0-dimensional floating tensor");
        },
    .describes = true};

extern constinit const OpDef asgd_step_op = {
    .schema =
        "asgd_step(Tensor(a!) param, Tensor grad, Tensor(a!) ax, Tensor(a!) eta, Tensor(a!) mu, "
        "Tensor(a!) step, Tensor lr, *, float lambd=1e-4, float alpha=0.75, float t0=1e6, "
        "float weight_decay=0) -> ()",
    .doc =
        "One step of averaged gradient descent: param = param * (1 - lambd * eta) - eta * grad; ax "
        "+= mu * (param - ax); then eta = lr / (1 + lambd * lr * step)^alpha and mu = 1 / max(1, "
        "step - t0).",
    .kind = OpKind::Opaque,
    .infer = infer_asgd,
    .cost = [](const Call& c) { return step_cost(c, 6); },
    .kernel = run_asgd,
    .vjp = no_gradient,
    .samples =
        [](Samples& s) {
          const Tensor x = sample_randn({2, 3}), g = sample_randn({2, 3}), m = sample_randn({2, 3});
          s.add_no_grad({x, g, m, number(0.1), number(1), steps(), rate()});
          s.add_no_grad({x, g, m, number(0.1), number(0.3), steps(), rate()},
                        {{"t0", 1.0}, {"weight_decay", 0.1}});
          s.error({x, g, m, ones({2}), number(1), steps(), rate()},
                  "'eta' must be a 0-dimensional floating tensor");
        },
    .describes = true};

extern constinit const OpDef rprop_step_op = {
    .schema =
        "rprop_step(Tensor(a!) param, Tensor grad, Tensor(a!) prev, Tensor(a!) step_size, "
        "Tensor(a!) step, *, float eta_minus=0.5, float eta_plus=1.2, float step_min=1e-6, "
        "float step_max=50) -> ()",
    .doc =
        "One step of Rprop: step_size grows by eta_plus where the gradient keeps its sign and "
        "shrinks by eta_minus where it turns; param -= sign(grad) * step_size, except where it "
        "turned.",
    .kind = OpKind::Opaque,
    .infer = infer_rprop,
    .cost = [](const Call& c) { return step_cost(c, 5); },
    .kernel = run_rprop,
    .vjp = no_gradient,
    .samples =
        [](Samples& s) {
          const Tensor x = sample_randn({2, 3}), g = sample_randn({2, 3});
          s.add_no_grad({x, g, sample_randn({2, 3}), square({2, 3}), steps()});
          s.add_no_grad({x, g, sample_randn({2, 3}), square({2, 3}), steps()},
                        {{"eta_minus", 0.2}, {"step_max", 0.5}});
          s.error({x, g.to(kFloat32), sample_randn({2, 3}), square({2, 3}), steps()}, "dtype");
        },
    .describes = true};

}  // namespace pellucid
