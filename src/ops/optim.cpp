// The optimisers' steps, one op each: a call moves one parameter and its state in one pass.
// They return nothing and have no gradient. The learning rate and the count of steps are 0-dim
// tensors, so that a captured step reads their present values. 16-bit floats and arrays with gaps
// are worked on in a float32 or contiguous copy.
#include "ops/optim.h"

#include "kernels/optim.h"

namespace pellucid {

using namespace optim_steps;

namespace {

void infer_sgd(Call& c) {
  check_arrays(c, 1, 0);
  check_rate(c, 3);
  PELLUCID_CHECK(c.number(0) == 0 || c.has_in(2), ValueError,
                 "sgd_step: momentum {} needs a momentum_buffer.", c.number(0));
}

// Attributes: momentum, dampening, weight_decay, nesterov, first.
void run_sgd(Call& c) {
  const NoGradGuard off;
  const Arrays<3> a(c);
  kernels::sgd_step(a.type, a.n,
                    {.lr = number_in(c, 3),
                     .momentum = c.number(0),
                     .dampening = c.number(1),
                     .weight_decay = c.number(2),
                     .nesterov = c.flag(3),
                     .first = c.flag(4)},
                    a[0], a[1], a[2]);
  a.finish();
}

void infer_adam(Call& c) {
  check_arrays(c, 3, 2);
  check_step(c, 5);
  check_rate(c, 6);
}

// Attributes: beta1, beta2, eps, weight_decay, decoupled.
void run_adam(Call& c) {
  const NoGradGuard off;
  const Arrays<5> a(c);
  kernels::adam_step(a.type, a.n,
                     {.lr = number_in(c, 6),
                      .beta1 = c.number(0),
                      .beta2 = c.number(1),
                      .eps = c.number(2),
                      .weight_decay = c.number(3),
                      .step = next_step(c, 5),
                      .decay = c.number(3) == 0 ? kernels::Decay::None
                               : c.flag(4)      ? kernels::Decay::Decoupled
                                                : kernels::Decay::Gradient},
                     a[0], a[1], a[2], a[3], a[4]);
  a.finish();
}

void infer_rmsprop(Call& c) {
  check_arrays(c, 3, 1);
  check_step(c, 5);
  check_rate(c, 6);
}

// Attributes: alpha, eps, weight_decay, momentum.
void run_rmsprop(Call& c) {
  const NoGradGuard off;
  const Arrays<5> a(c);
  next_step(c, 5);
  kernels::rmsprop_step(a.type, a.n,
                        {.lr = number_in(c, 6),
                         .alpha = c.number(0),
                         .eps = c.number(1),
                         .weight_decay = c.number(2),
                         .momentum = c.number(3)},
                        a[0], a[1], a[2], a[3], a[4]);
  a.finish();
}

void infer_adagrad(Call& c) {
  check_arrays(c, 1, 1);
  check_step(c, 3);
  check_rate(c, 4);
}

// Attributes: lr_decay, weight_decay, eps.
void run_adagrad(Call& c) {
  const NoGradGuard off;
  const Arrays<3> a(c);
  const auto before = static_cast<double>(next_step(c, 3) - 1);
  kernels::adagrad_step(a.type, a.n,
                        {.lr = number_in(c, 4) / (1 + before * c.number(0)),
                         .eps = c.number(2),
                         .weight_decay = c.number(1)},
                        a[0], a[1], a[2]);
  a.finish();
}

}  // namespace

extern constinit const OpDef sgd_step_op = {
    .schema =
        "sgd_step(Tensor(a!) param, Tensor grad, Tensor(a!)? momentum_buffer, Tensor lr, *, "
        "float momentum=0, float dampening=0, float weight_decay=0, bool nesterov=False, "
        "bool first=False) -> ()",
    .doc =
        "One step of stochastic gradient descent: param -= lr * (grad + weight_decay * param), "
        "or with momentum, buffer = momentum * buffer + (1 - dampening) * grad in its place.",
    .kind = OpKind::Opaque,
    .infer = infer_sgd,
    .cost = [](const Call& c) { return step_cost(c, c.number(0) != 0 ? 6 : 2); },
    .kernel = run_sgd,
    .vjp = no_gradient,
    .samples =
        [](Samples& s) {
          const Tensor x = sample_randn({2, 3}), g = sample_randn({2, 3});
          s.add_no_grad({x, g, Value(), rate()});
          s.add_no_grad({x, g, sample_randn({2, 3}), rate()},
                        {{"momentum", 0.9}, {"weight_decay", 0.1}, {"nesterov", true}});
          s.error({x, sample_randn({3}), Value(), rate()}, "'grad' has sizes [3] but 'param' has");
          s.error({x, g, Value(), rate()}, "needs a momentum_buffer", {{"momentum", 0.9}});
          s.error({x, g, Value(), ones({2})}, "'lr' must be a 0-dimensional floating tensor");
        }};

extern constinit const OpDef adam_step_op = {
    .schema =
        "adam_step(Tensor(a!) param, Tensor grad, Tensor(a!) exp_avg, Tensor(a!) exp_avg_sq, "
        "Tensor(a!)? max_exp_avg_sq, Tensor(a!) step, Tensor lr, *, float beta1=0.9, "
        "float beta2=0.999, float eps=1e-8, float weight_decay=0, bool decoupled=False) -> ()",
    .doc =
        "One step of Adam, or of AdamW where decoupled: param -= lr * m / (sqrt(v) + eps) with "
        "the bias-corrected averages m of the gradient and v of its square.",
    .kind = OpKind::Opaque,
    .infer = infer_adam,
    .cost = [](const Call& c) { return step_cost(c, 14); },
    .kernel = run_adam,
    .vjp = no_gradient,
    .samples =
        [](Samples& s) {
          const Tensor x = sample_randn({2, 3}), g = sample_randn({2, 3}), m = sample_randn({2, 3});
          s.add_no_grad({x, g, m, square({2, 3}), Value(), steps(), rate()});
          s.add_no_grad({x, g, m, square({2, 3}), square({2, 3}), steps(), rate()},
                        {{"weight_decay", 0.1}, {"decoupled", true}});
          s.error({x, g, m, square({2}), Value(), steps(), rate()}, "'exp_avg_sq' has sizes [2]");
          s.error({x, g, m, square({2, 3}), Value(), ones({2}, kInt64), rate()},
                  "'step' must be a 0-dimensional int64 or floating tensor");
        }};

extern constinit const OpDef rmsprop_step_op = {
    .schema =
        "rmsprop_step(Tensor(a!) param, Tensor grad, Tensor(a!) square_avg, "
        "Tensor(a!)? grad_avg, Tensor(a!)? momentum_buffer, Tensor(a!) step, Tensor lr, *, "
        "float alpha=0.99, float eps=1e-8, float weight_decay=0, float momentum=0) -> ()",
    .doc =
        "One step of RMSprop: param -= lr * grad / (sqrt(v) + eps) with the average v of the "
        "gradient's square, less the square of its average where grad_avg is given.",
    .kind = OpKind::Opaque,
    .infer = infer_rmsprop,
    .cost = [](const Call& c) { return step_cost(c, 10); },
    .kernel = run_rmsprop,
    .vjp = no_gradient,
    .samples =
        [](Samples& s) {
          const Tensor x = sample_randn({2, 3}), g = sample_randn({2, 3});
          s.add_no_grad({x, g, square({2, 3}), Value(), Value(), steps(), rate()});
          s.add_no_grad({x, g, square({2, 3}).add(4.0), sample_uniform({2, 3}, 0, 0.1),
                         sample_randn({2, 3}), steps(), rate()},
                        {{"momentum", 0.9}, {"weight_decay", 0.1}});
          s.error({x, g, square({3}), Value(), Value(), steps(), rate()},
                  "'square_avg' has sizes [3]");
        }};

extern constinit const OpDef adagrad_step_op = {
    .schema =
        "adagrad_step(Tensor(a!) param, Tensor grad, Tensor(a!) sum, Tensor(a!) step, "
        "Tensor lr, *, float lr_decay=0, float weight_decay=0, float eps=1e-10) -> ()",
    .doc =
        "One step of Adagrad: sum += grad^2; param -= lr / (1 + (step - 1) * lr_decay) * grad / "
        "(sqrt(sum) + eps).",
    .kind = OpKind::Opaque,
    .infer = infer_adagrad,
    .cost = [](const Call& c) { return step_cost(c, 7); },
    .kernel = run_adagrad,
    .vjp = no_gradient,
    .samples =
        [](Samples& s) {
          const Tensor x = sample_randn({2, 3}), g = sample_randn({2, 3});
          s.add_no_grad({x, g, square({2, 3}), steps(), rate()});
          s.add_no_grad({x, g, square({2, 3}), steps(), rate()},
                        {{"lr_decay", 0.1}, {"weight_decay", 0.1}});
          s.error({x, g.to(kFloat32), square({2, 3}), steps(), rate()}, "dtype");
        }};

}  // namespace pellucid
