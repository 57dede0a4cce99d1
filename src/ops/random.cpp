// Random values in place of a tensor's own: normal, uniform, exponential, integers, bernoulli, and
// multinomial draws. Dropout is in random_dropout.cpp; new random tensors (rand, randn, randint,
// randperm) are in creation_random.cpp. Numbers depend on the seed, the offset of the call
// and the position in row-major order alone.
#include "kernels/random.h"

#include <cmath>
#include <limits>

#include "ops/random.h"
#include "pellucid/autograd.h"
#include "pellucid/ops.h"

namespace pellucid {
namespace {

uint64_t blocks_of_self(const Call& c) {
  return kernels::blocks_for(c.in(0).dtype(), c.in(0).numel());
}
uint64_t mask_blocks(const Call& c) { return kernels::mask_blocks_for(c.in(0).numel()); }

Cost fill_cost(const Call& c) {
  return {static_cast<double>(c.out().numel()), static_cast<double>(c.out().nbytes())};
}

/// Calls fill(data) for the output's elements in row-major order, through a buffer where they lie
/// otherwise.
template <class F> void fill_output(Call& c, const F& fill) {
  const Tensor& out = c.out();
  if (out.numel() == 0) return;
  if (out.impl().is_contiguous()) return fill(out.raw_data());
  const NoGradGuard off;
  const Tensor values = empty(out.sizes(), out.dtype());
  fill(values.raw_data());
  out.data().copy_(values);  // the dispatcher counts the version
}

void infer_floating(Call& c) {
  check_defined(c, 0, "self");
  check_floating(c, c.in(0), "self");
  c.make_output(c.in(0).sizes(), c.in(0).dtype());
}

void check_deviation(const Call& c, double deviation) {
  PELLUCID_CHECK(deviation >= 0, ValueError, "{}: std must not be negative, found {}.", c.name(),
                 deviation);
}

void infer_normal(Call& c) {
  infer_floating(c);
  check_deviation(c, c.number(1));
}

void run_normal(Call& c) {
  fill_output(c, [&](void* out) {
    kernels::random_normal(c.out().dtype(), out, c.out().numel(), range_of(c), c.number(0),
                           c.number(1));
  });
}

// The integers that a dtype holds exactly: [0, last].
int64_t last_integer(DType t) {
  switch (t) {
    case kBool:
      return 1;
    case kUInt8:
      return 255;
    case kInt8:
      return 127;
    case kInt16:
      return 32767;
    case kInt32:
      return std::numeric_limits<int32_t>::max();
    case kFloat16:
      return int64_t{1} << 11;
    case kBFloat16:
      return int64_t{1} << 8;
    case kFloat32:
      return int64_t{1} << 24;
    case kFloat64:
      return int64_t{1} << 53;
    case kInt64:
      break;
  }
  return std::numeric_limits<int64_t>::max() - 1;
}

void infer_integers(Call& c, int64_t low, int64_t high) {
  check_defined(c, 0, "self");
  const DType t = c.in(0).dtype();
  PELLUCID_CHECK(low < high, ValueError, "random: 'from' must be less than 'to', found {} and {}.",
                 low, high);
  PELLUCID_CHECK(high - 1 <= last_integer(t) && low >= -last_integer(t) - 1, ValueError,
                 "random: [{}, {}) does not fit into {}.", low, high, t);
  c.make_output(c.in(0).sizes(), t);
}

void run_integers(Call& c, int64_t low, int64_t high) {
  fill_output(c, [&](void* out) {
    kernels::random_integers(c.out().dtype(), out, c.out().numel(), range_of(c), low, high);
  });
}

int64_t high_of(const Call& c) {
  return c.has_attr(1) ? c.integer(1) : last_integer(c.in(0).dtype()) + 1;
}

void check_probabilities(const Tensor& probabilities) {
  const NoGradGuard off;
  PELLUCID_CHECK(probabilities.numel() == 0 || (probabilities.ge(0).all().item<bool>() &&
                                                probabilities.le(1).all().item<bool>()),
                 ValueError, "bernoulli: every probability must be between 0 and 1.");
}

void run_bernoulli(Call& c, const Tensor& probabilities) {
  check_probabilities(probabilities);
  const Tensor p = contiguous_values(probabilities.detach());
  fill_output(c, [&](void* out) {
    kernels::random_bernoulli(c.out().dtype(), out, c.out().numel(), range_of(c), p.dtype(),
                              p.raw_data());
  });
}

void infer_multinomial(Call& c) {
  check_defined(c, 0, "self");
  const Tensor& p = c.in(0);
  check_floating(c, p, "self");
  PELLUCID_CHECK(p.dim() == 1 || p.dim() == 2, ShapeError,
                 "multinomial: 'self' must have 1 or 2 dimensions, found sizes {}.", p.sizes());
  const int64_t n = c.integer(0), classes = p.size(-1);
  PELLUCID_CHECK(n > 0, ValueError, "multinomial: num_samples must be positive, found {}.", n);
  PELLUCID_CHECK(c.flag(1) || n <= classes, ValueError,
                 "multinomial: {} samples of {} classes cannot be drawn without replacement.", n,
                 classes);
  PELLUCID_CHECK(classes > 0, ShapeError,
                 "multinomial: there are no classes to draw from (sizes {}).", p.sizes());
  c.make_output(p.dim() == 1 ? Dims{n} : Dims{p.size(0), n}, kInt64);
}

int64_t distributions(const Tensor& p) { return p.dim() == 1 ? 1 : p.size(0); }

Tensor checked_distributions(const Call& c) {
  Tensor p = contiguous_values(c.in(0).detach());
  const int64_t n = c.integer(0);
  const int64_t bad = kernels::first_bad_distribution(p.dtype(), p.raw_data(), distributions(p),
                                                      p.size(-1), n, c.flag(1));
  PELLUCID_CHECK(bad < 0, ValueError,
                 "multinomial: row {} is no distribution to draw {} samples from: it has negative, "
                 "infinite or NaN weights, or too few positive ones.",
                 bad, n);
  return p;
}

void run_multinomial(Call& c) {
  const Tensor p = checked_distributions(c);
  kernels::random_multinomial(p.dtype(), p.raw_data(), distributions(p), p.size(-1), c.integer(0),
                              c.flag(1), range_of(c), c.out().raw<int64_t>());
}

Tensor scaled_normal(const Call& c, IntArrayRef sizes, DType dtype) {
  return randn(sizes, to_float(dtype)).mul(c.in(c.input_count() - 1).detach());
}

void check_deviations(const Call& c, const Tensor& deviation) {
  check_defined(c, c.input_count() - 1, "std");
  PELLUCID_CHECK(!deviation.lt(0).any().item<bool>(), ValueError,
                 "normal: every element of 'std' must be at least 0.");
}

void samples_of_fill(Samples& s) {
  s.add_no_grad({sample_randn({3, 4})});
  s.add_no_grad({sample_randn({3, 4}).permute({1, 0})});
  s.add_no_grad({sample_randn({0, 4})});
  s.error({sample_ints({3}, 0, 2)}, "must be a floating tensor");
  s.large([] { return Values{zeros({4096, 1024})}; });
}

}  // namespace

extern constinit const OpDef normal_op = {
    .schema = "normal[_!](Tensor self, float mean=0.0, float std=1.0) -> Tensor",
    .doc = "Normal random numbers of self's sizes and dtype.",
    .kind = OpKind::Random,
    .infer = infer_normal,
    .cost = fill_cost,
    .kernel = run_normal,
    .vjp = independent,
    .samples =
        [](Samples& s) {
          samples_of_fill(s);
          s.error({sample_randn({3}), 0.0, -1.0}, "std must not be negative");
        },
    .writes_over = 1,
    .random_count = blocks_of_self};

extern constinit const OpDef normal_float_float_op = {
    .schema =
        "normal.float_float(float mean, float std, int[] size, *, ScalarType? dtype=None, Device? "
        "device=None) -> Tensor",
    .doc = "A new tensor of normal random numbers.",
    .kind = OpKind::Random,
    .infer =
        [](Call& c) {
          check_deviation(c, c.number(1));
          const DType t = c.dtype_if(3).value_or(get_default_dtype());
          PELLUCID_CHECK(is_floating(t), TypeError, "normal: the dtype must be floating, found {}.",
                         t);
          c.make_output(c.ints(2), t);
        },
    .cost = fill_cost,
    .kernel = run_normal,
    .vjp = no_gradient,
    .samples =
        [](Samples& s) {
          s.add_no_grad({0.5, 2.0, Value::ints({2, 3})});
          s.error({0.0, -2.0, Value::ints({2, 3})}, "std must not be negative");
        },
    .random_count =
        [](const Call& c) { return kernels::blocks_for(c.out().dtype(), c.out().numel()); }};

extern constinit const OpDef normal_tensor_tensor_op = {
    .schema = "normal.Tensor_Tensor(Tensor mean, Tensor std) -> Tensor",
    .doc = "Normal random numbers with a mean and a deviation for each element.",
    .kind = OpKind::Random,
    .compose = [](const Call& c) -> Tensors {
      check_defined(c, 0, "mean");
      check_deviations(c, c.in(1));
      return {scaled_normal(c, broadcast_sizes(c.name(), c.in(0).sizes(), c.in(1).sizes()),
                            c.in(0).dtype())
                  .add(c.in(0).detach())};
    },
    .samples =
        [](Samples& s) {
          s.add_no_grad({sample_randn({2, 3}), sample_uniform({3}, 0.5, 2)});
          s.error({sample_randn({2}), sample_uniform({2}, -2, -1)}, "must be at least 0");
        }};

extern constinit const OpDef normal_tensor_float_op = {
    .schema = "normal.Tensor_float(Tensor mean, float std=1.0) -> Tensor",
    .doc = "Normal random numbers with a mean for each element.",
    .kind = OpKind::Random,
    .compose = [](const Call& c) -> Tensors {
      check_defined(c, 0, "mean");
      check_deviation(c, c.number(0));
      return {
          zeros(c.in(0).sizes(), c.in(0).dtype()).normal_(0, c.number(0)).add(c.in(0).detach())};
    },
    .samples =
        [](Samples& s) {
          s.add_no_grad({sample_randn({2, 3}), 0.5});
          s.add_no_grad({sample_randn({3})});
          s.error({sample_randn({2}), -1.0}, "std must not be negative");
        }};

extern constinit const OpDef normal_float_tensor_op = {
    .schema = "normal.float_Tensor(float mean, Tensor std) -> Tensor",
    .doc = "Normal random numbers with a deviation for each element.",
    .kind = OpKind::Random,
    .compose = [](const Call& c) -> Tensors {
      check_deviations(c, c.in(0));
      return {scaled_normal(c, c.in(0).sizes(), c.in(0).dtype()).add(c.number(0))};
    },
    .samples =
        [](Samples& s) {
          s.add_no_grad({1.5, sample_uniform({3}, 0.5, 2)});
          s.error({0.0, sample_uniform({2}, -2, -1)}, "must be at least 0");
        }};

extern constinit const OpDef uniform_op = {
    .schema = "uniform[_!](Tensor self, float from=0.0, float to=1.0) -> Tensor",
    .doc = "Random numbers of self's sizes and dtype, uniform in [from, to).",
    .kind = OpKind::Random,
    .infer =
        [](Call& c) {
          infer_floating(c);
          PELLUCID_CHECK(c.number(0) <= c.number(1) && std::isfinite(c.number(1) - c.number(0)),
                         ValueError,
                         "uniform: 'from' must not be greater than 'to', both finite, found {} and "
                         "{}.",
                         c.number(0), c.number(1));
        },
    .cost = fill_cost,
    .kernel =
        [](Call& c) {
          fill_output(c, [&](void* out) {
            kernels::random_uniform(c.out().dtype(), out, c.out().numel(), range_of(c), c.number(0),
                                    c.number(1));
          });
        },
    .vjp = independent,
    .samples =
        [](Samples& s) {
          samples_of_fill(s);
          s.add_no_grad({sample_randn({3}), -2.0, 2.0});
          s.error({sample_randn({3}), 2.0, -2.0}, "'from' must not be greater than 'to'");
          s.error({sample_randn({3}), 0.0, std::numeric_limits<double>::infinity()}, "both finite");
        },
    .writes_over = 1,
    .random_count = blocks_of_self};

extern constinit const OpDef exponential_op = {
    .schema = "exponential[_!](Tensor self, float lambd=1.0) -> Tensor",
    .doc = "Random numbers of self's sizes and dtype with density lambd exp(-lambd x).",
    .kind = OpKind::Random,
    .infer =
        [](Call& c) {
          infer_floating(c);
          PELLUCID_CHECK(c.number(0) > 0, ValueError,
                         "exponential: lambd must be positive, found {}.", c.number(0));
        },
    .cost = fill_cost,
    .kernel =
        [](Call& c) {
          fill_output(c, [&](void* out) {
            kernels::random_exponential(c.out().dtype(), out, c.out().numel(), range_of(c),
                                        c.number(0));
          });
        },
    .vjp = independent,
    .samples =
        [](Samples& s) {
          samples_of_fill(s);
          s.error({sample_randn({3}), 0.0}, "lambd must be positive");
        },
    .writes_over = 1,
    .random_count = blocks_of_self};

extern constinit const OpDef log_normal_op = {
    .schema = "log_normal[_!](Tensor self, float mean=1.0, float std=2.0) -> Tensor",
    .doc = "exp of normal random numbers with the given mean and deviation.",
    .kind = OpKind::Random,
    .compose = [](const Call& c) -> Tensors {
      PELLUCID_CHECK(c.number(1) > 0, ValueError, "log_normal: std must be positive, found {}.",
                     c.number(1));
      return {empty_like(c.in(0)).normal_(c.number(0), c.number(1)).exp()};
    },
    .samples =
        [](Samples& s) {
          samples_of_fill(s);
          s.error({sample_randn({3}), 0.0, 0.0}, "std must be positive, found 0");
        }};

extern constinit const OpDef random_op = {
    .schema = "random[_!](Tensor self) -> Tensor",
    .doc =
        "Random integers of self's sizes and dtype, from 0 to the last that the dtype holds "
        "exactly.",
    .kind = OpKind::Random,
    .infer = [](Call& c) { infer_integers(c, 0, last_integer(c.in(0).dtype()) + 1); },
    .cost = fill_cost,
    .kernel = [](Call& c) { run_integers(c, 0, last_integer(c.out().dtype()) + 1); },
    .vjp = independent,
    .samples =
        [](Samples& s) {
          s.add_no_grad({sample_ints({3, 4}, 0, 2)});
        },
    .writes_over = 1,
    .random_count = [](const Call& c) { return kernels::blocks_for(kInt64, c.in(0).numel()); }};

extern constinit const OpDef random_to_op = {
    .schema = "random[_!].to(Tensor self, int to) -> Tensor",
    .doc = "Random integers of self's sizes and dtype in [0, to).",
    .kind = OpKind::Random,
    .infer = [](Call& c) { infer_integers(c, 0, c.integer(0)); },
    .cost = fill_cost,
    .kernel = [](Call& c) { run_integers(c, 0, c.integer(0)); },
    .vjp = independent,
    .samples =
        [](Samples& s) {
          s.add_no_grad({sample_ints({3, 4}, 0, 2), 10});
          s.error({sample_ints({3}, 0, 2), 0}, "'from' must be less than 'to'");
        },
    .writes_over = 1,
    .random_count = [](const Call& c) { return kernels::blocks_for(kInt64, c.in(0).numel()); }};

extern constinit const OpDef random_from_op = {
    .schema = "random[_!].from(Tensor self, int from, int? to) -> Tensor",
    .doc =
        "Random integers of self's sizes and dtype in [from, to), or from `from` to the last that "
        "the dtype holds exactly.",
    .kind = OpKind::Random,
    .infer = [](Call& c) { infer_integers(c, c.integer(0), high_of(c)); },
    .cost = fill_cost,
    .kernel = [](Call& c) { run_integers(c, c.integer(0), high_of(c)); },
    .vjp = independent,
    .samples =
        [](Samples& s) {
          s.add_no_grad({sample_randn({3, 4}), -5, 5});
          s.add_no_grad({sample_ints({3, 4}, 0, 2), 7, {}});
          s.error({sample_ints({3}, 0, 2).to(kInt8), 0, 1000}, "does not fit into int8");
        },
    .writes_over = 1,
    .random_count = [](const Call& c) { return kernels::blocks_for(kInt64, c.in(0).numel()); }};

extern constinit const OpDef bernoulli_op = {
    .schema = "bernoulli(Tensor self) -> Tensor",
    .doc = "1 with the probability that self gives, else 0.",
    .kind = OpKind::Random,
    .infer = infer_floating,
    .cost = fill_cost,
    .kernel = [](Call& c) { run_bernoulli(c, c.in(0)); },
    .check = [](const Call& c) { check_probabilities(c.in(0)); },
    .vjp = independent,
    .samples =
        [](Samples& s) {
          s.add_no_grad({sample_uniform({3, 4}, 0, 1)});
          s.error({sample_uniform({3}, 1.5, 2)}, "must be between 0 and 1");
        },
    .random_count = mask_blocks};

namespace {

constexpr OpDef bernoulli_of_number(std::string_view schema) {
  return {.schema = schema,
          .doc = "1 with probability p, else 0, of self's sizes and dtype.",
          .kind = OpKind::Random,
          .infer =
              [](Call& c) {
                check_defined(c, 0, "self");
                check_probability(c, c.number(0));
                c.make_output(c.in(0).sizes(), c.in(0).dtype());
              },
          .cost = fill_cost,
          .kernel =
              [](Call& c) {
                fill_output(c, [&](void* out) {
                  kernels::random_bernoulli(c.out().dtype(), out, c.out().numel(), range_of(c),
                                            c.number(0));
                });
              },
          .vjp = independent,
          .samples =
              [](Samples& s) {
                s.add_no_grad({sample_randn({3, 4}), 0.3});
                s.add_no_grad({sample_ints({3, 4}, 0, 2), 1.0});
                s.error({sample_randn({3}), 1.5}, "p must be between 0 and 1, found 1.5");
                s.large([] { return Values{zeros({4096, 1024}), 0.5}; });
              },
          .writes_over = 1,
          .random_count = mask_blocks};
}

}  // namespace

extern constinit const OpDef bernoulli_p_op =
    bernoulli_of_number("bernoulli.p(Tensor self, float p) -> Tensor");
extern constinit const OpDef bernoulli_float_op =
    bernoulli_of_number("bernoulli[_!].float(Tensor self, float p=0.5) -> Tensor");

extern constinit const OpDef bernoulli_tensor_op = {
    .schema = "bernoulli[_].Tensor(Tensor self, Tensor p) -> Tensor",
    .doc = "1 with the probability that p gives, else 0, of self's sizes and dtype.",
    .kind = OpKind::Random,
    .infer =
        [](Call& c) {
          check_defined(c, 0, "self");
          check_defined(c, 1, "p");
          check_floating(c, c.in(1), "p");
          PELLUCID_CHECK(broadcasts_to(c.in(1).sizes(), c.in(0).sizes()), ShapeError,
                         "bernoulli: the sizes {} of 'p' do not broadcast to {}.", c.in(1).sizes(),
                         c.in(0).sizes());
          c.make_output(c.in(0).sizes(), c.in(0).dtype());
        },
    .cost = fill_cost,
    .kernel = [](Call& c) { run_bernoulli(c, c.in(1).detach().expand(c.in(0).sizes())); },
    .check = [](const Call& c) { check_probabilities(c.in(1)); },
    .vjp = independent,
    .samples =
        [](Samples& s) {
          s.add_no_grad({sample_ints({3, 4}, 0, 2), sample_uniform({4}, 0, 1)});
          s.error({sample_randn({3}), sample_uniform({3}, 1.5, 2)}, "must be between 0 and 1");
          s.error({sample_randn({3}), sample_uniform({2}, 0, 1)}, "do not broadcast to [3]");
        },
    .random_count = mask_blocks};

extern constinit const OpDef multinomial_op = {
    .schema = "multinomial(Tensor self, int num_samples, bool replacement=False) -> Tensor",
    .doc = "Class indices drawn from each row with probabilities proportional to its weights.",
    .kind = OpKind::Random,
    .infer = infer_multinomial,
    .cost =
        [](const Call& c) {
          return Cost{static_cast<double>(c.in(0).numel()), moved_bytes(c)};
        },
    .kernel = run_multinomial,
    .check = [](const Call& c) { checked_distributions(c); },
    .vjp = no_gradient,
    .samples =
        [](Samples& s) {
          s.add({sample_uniform({3, 5}, 0.1, 1), 2});
          s.add({sample_uniform({5}, 0.1, 1), 7, true});
          s.error({sample_uniform({5}, 0.1, 1), 7},
                  "7 samples of 5 classes cannot be drawn without replacement");
          s.error({sample_uniform({5}, -1, -0.5), 2}, "row 0 is no distribution");
          s.large([] { return Values{rand({64, 10000}), 8, true}; });
        },
    .random_count =
        [](const Call& c) {
          return kernels::multinomial_blocks(distributions(c.in(0)), c.in(0).size(-1), c.integer(0),
                                             c.flag(1));
        }};

}  // namespace pellucid
