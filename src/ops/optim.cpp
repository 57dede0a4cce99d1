// The optimisers' steps, one op each: a call moves one parameter and its state in one pass.
// They return nothing and have no gradient. The learning rate and the count of steps are 0-dim
// tensors, so that a captured step reads their present values. 16-bit floats and arrays with gaps
// are worked on in a float32 or contiguous copy.
#include "ops/optim.h"

#include "kernels/optim.h"
#include "kernels/tiles.h"

namespace pellucid {

using namespace optim_steps;

namespace {

// Whether the arrays, inputs 0 to N - 1, can be worked on where they are.
template <size_t N> bool are_plain(const Call& c) {
  const DType type = c.in(0).dtype();
  for (size_t i = 0; i < N; ++i)
    if (c.has_in(i) && !c.in(i).impl().is_contiguous()) return false;
  return type == kFloat32 || type == kFloat64;
}

// Runs a step, or tells it: make(type, array(i), count) gives the update, and the count of steps is
// at input `counter`, if there is one.
template <size_t N, class Make> void run_step(Call& c, std::optional<size_t> counter, Make&& make) {
  const NoGradGuard off;
  kernels::TileStep* const step = c.described();
  if (step && !are_plain<N>(c)) return;
  const bool runs = !step || step->begins;
  int64_t count = 0;
  if (counter) count = runs ? next_step(c, *counter) : 1;
  if (!step) {
    const Arrays<N> a(c);
    const kernels::Update update = make(
        a.type, [&](size_t i) { return a[i]; }, count);
    kernels::run_update(update, a.type, a.n, a[1]);
    return a.finish();
  }
  const auto array = [&](size_t i) { return c.has_in(i) ? c.in(i).raw_data() : nullptr; };
  const DType type = c.in(0).dtype();
  const kernels::Update update = make(type, array, count);
  static_assert(sizeof(update) <= kernels::TileStep::kContextBytes);
  step->set_context(&update, sizeof(update));
  step->update = [](const void* context, int64_t begin, int64_t n, const void* grad) {
    (*static_cast<const kernels::Update*>(context))(begin, n, grad);
  };
  for (size_t i = 0; i < kernels::Update::kMostArrays; ++i)
    step->changed[i] = static_cast<const char*>(update.arrays[i]);
  step->work = 4;
  step->out_computed = type;
  step->input_count = 1;
  step->inputs[0] = {.number = 1, .computed = type, .through = type};
}

void infer_sgd(Call& c) {
  check_arrays(c, 1, 0);
  check_rate(c, 3);
  PELLUCID_CHECK(c.number(0) == 0 || c.has_in(2), ValueError,
                 "sgd_step: momentum {} needs a momentum_buffer.", c.number(0));
}

// Attributes: momentum, dampening, weight_decay, nesterov, first.
void run_sgd(Call& c) {
  run_step<3>(c, {}, [&](DType type, const auto& array, int64_t) {
    return kernels::sgd_update(type,
                               {.lr = number_in(c, 3),
                                .momentum = c.number(0),
                                .dampening = c.number(1),
                                .weight_decay = c.number(2),
                                .nesterov = c.flag(3),
                                .first = c.flag(4)},
                               array(0), array(2));
  });
}

void infer_adam(Call& c) {
  check_arrays(c, 3, 2);
  check_step(c, 5);
  check_rate(c, 6);
}

// Attributes: beta1, beta2, eps, weight_decay, decoupled.
void run_adam(Call& c) {
  run_step<5>(c, 5, [&](DType type, const auto& array, int64_t count) {
    return kernels::adam_update(type,
                                {.lr = number_in(c, 6),
                                 .beta1 = c.number(0),
                                 .beta2 = c.number(1),
                                 .eps = c.number(2),
                                 .weight_decay = c.number(3),
                                 .step = count,
                                 .decay = c.number(3) == 0 ? kernels::Decay::None
                                          : c.flag(4)      ? kernels::Decay::Decoupled
                                                           : kernels::Decay::Gradient},
                                array(0), array(2), array(3), array(4));
  });
}

void infer_rmsprop(Call& c) {
  check_arrays(c, 3, 1);
  check_step(c, 5);
  check_rate(c, 6);
}

// Attributes: alpha, eps, weight_decay, momentum.
void run_rmsprop(Call& c) {
  run_step<5>(c, 5, [&](DType type, const auto& array, int64_t) {
    return kernels::rmsprop_update(type,
                                   {.lr = number_in(c, 6),
                                    .alpha = c.number(0),
                                    .eps = c.number(1),
                                    .weight_decay = c.number(2),
                                    .momentum = c.number(3)},
                                   array(0), array(2), array(3), array(4));
  });
}

void infer_adagrad(Call& c) {
  check_arrays(c, 1, 1);
  check_step(c, 3);
  check_rate(c, 4);
}

// Attributes: lr_decay, weight_decay, eps.
void run_adagrad(Call& c) {
  run_step<3>(c, 3, [&](DType type, const auto& array, int64_t count) {
    return kernels::adagrad_update(
        type,
        {.lr = number_in(c, 4) / (1 + static_cast<double>(count - 1) * c.number(0)),
         .eps = c.number(2),
         .weight_decay = c.number(1)},
        array(0), array(2));
  });
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
        },
    .describes = true};

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
        },
    .describes = true};

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
        },
    .describes = true};

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
        },
    .describes = true};

}  // namespace pellucid
