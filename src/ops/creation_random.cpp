// Tensors of random values. Each call reserves its range of Philox counters in the dispatcher, so
// the numbers depend on the seed and the order of calls alone, never on threads.
#include "kernels/random.h"
#include "ops/index.h"
#include "ops/random.h"
#include "pellucid/ops.h"

namespace pellucid {

namespace {

uint64_t fill_blocks(const Call& c) {
  return kernels::blocks_for(c.out().dtype(), c.out().numel());
}

void check_float_dtype(const Call& c, DType dtype) {
  PELLUCID_CHECK(is_floating(dtype), TypeError,
                 "{}: the dtype must be a floating one, found {}. Use randint for integers.",
                 c.name(), dtype);
}

void infer_random(Call& c) {
  const DType dtype = c.dtype_if(1).value_or(get_default_dtype());
  check_float_dtype(c, dtype);
  c.make_output(c.ints(0), dtype);
}

// The memory order of self is kept unless another format is asked for.
void make_like(Call& c, size_t dtype_at, DType dtype) {
  const MemoryFormat format =
      c.has_attr(dtype_at + 1) ? c.attr(dtype_at + 1).format() : MemoryFormat::Preserve;
  const Tensor& self = c.in(0);
  switch (format) {
    case MemoryFormat::Contiguous:
      return c.make_output(self.sizes(), dtype);
    case MemoryFormat::ChannelsLast:
      check_dim(c, self, 4, "self");
      return c.make_output(self.sizes(), detail::channels_last_strides(self.sizes()), dtype);
    case MemoryFormat::Preserve:
      return c.make_output(self.sizes(), dense_strides_like(self), dtype);
  }
}

void infer_random_like(Call& c) {
  check_defined(c, 0, "self");
  const DType dtype = c.dtype_if(0).value_or(c.in(0).dtype());
  check_float_dtype(c, dtype);
  make_like(c, 0, dtype);
}

// Numbers go by the order of elements, not of memory, so they do not depend on strides.
template <class Fill> void fill_in_order(const Tensor& out, Fill fill) {
  if (out.impl().is_contiguous()) return fill(out);
  const Tensor dense = empty(out.sizes(), out.dtype());
  fill(dense);
  copy_values(out, dense);
}

void run_uniform(Call& c) {
  fill_in_order(c.out(), [&](const Tensor& t) {
    kernels::random_uniform(t.dtype(), t.raw_data(), t.numel(), range_of(c), 0, 1);
  });
}

void draw_normal(Call& c) {
  fill_in_order(c.out(), [&](const Tensor& t) {
    kernels::random_normal(t.dtype(), t.raw_data(), t.numel(), range_of(c), 0, 1);
  });
}

// The integers that a dtype holds exactly.
std::pair<int64_t, int64_t> limits_of(DType t) {
  switch (t) {
    case kBool:
      return {0, 1};
    case kUInt8:
      return {0, 255};
    case kInt8:
      return {-128, 127};
    case kInt16:
      return {-32768, 32767};
    case kInt32:
      return {INT32_MIN, INT32_MAX};
    case kFloat16:
      return {-2048, 2048};
    case kBFloat16:
      return {-256, 256};
    case kFloat32:
      return {-(int64_t{1} << 24), int64_t{1} << 24};
    case kFloat64:
      return {-(int64_t{1} << 53), int64_t{1} << 53};
    case kInt64:
      break;
  }
  return {INT64_MIN, INT64_MAX};
}

void check_interval(const Call& c, int64_t low, int64_t high, DType dtype) {
  PELLUCID_CHECK(low < high, ValueError, "{}: low must be less than high, found {} and {}.",
                 c.name(), low, high);
  const auto [least, most] = limits_of(dtype);
  PELLUCID_CHECK(low >= least && high - 1 <= most, ValueError,
                 "{}: {} holds the integers from {} to {}, found low {} and high {}.", c.name(),
                 dtype, least, most, low, high);
}

void draw_integers(Call& c, int64_t low, int64_t high) {
  fill_in_order(c.out(), [&](const Tensor& t) {
    kernels::random_integers(t.dtype(), t.raw_data(), t.numel(), range_of(c), low, high);
  });
}

}  // namespace

extern constinit const OpDef rand_op = {
    .schema = "rand(int[] size, *, ScalarType? dtype=None, Device? device=None) -> Tensor",
    .doc = "Uniform random numbers in [0, 1).",
    .kind = OpKind::Random,
    .infer = infer_random,
    .cost = write_cost,
    .kernel = run_uniform,
    .vjp = no_gradient,
    .samples =
        [](Samples& s) {
          s.add_no_grad({Value::ints({2, 3})});
          s.add_no_grad({Value::ints({3})}, {{"dtype", kFloat64}});
          s.error({Value::ints({2})}, "must be a floating one", {{"dtype", kInt64}});
          s.large([] { return Values{Value::ints({4096, 1024})}; });
        },
    .random_count = fill_blocks,
};

extern constinit const OpDef randn_op = {
    .schema = "randn(int[] size, *, ScalarType? dtype=None, Device? device=None) -> Tensor",
    .doc = "Normal random numbers with mean 0 and variance 1.",
    .kind = OpKind::Random,
    .infer = infer_random,
    .cost = write_cost,
    .kernel = draw_normal,
    .vjp = no_gradient,
    .samples =
        [](Samples& s) {
          s.add_no_grad({Value::ints({2, 3})});
          s.add_no_grad({Value::ints({3})}, {{"dtype", kBFloat16}});
          s.error({Value::ints({2})}, "must be a floating one", {{"dtype", kInt64}});
          s.large([] { return Values{Value::ints({4096, 1024})}; });
        },
    .random_count = fill_blocks,
};

extern constinit const OpDef rand_like_op = {
    .schema =
        "rand_like(Tensor self, *, ScalarType? dtype=None, Device? device=None, MemoryFormat? "
        "memory_format=None) -> Tensor",
    .doc = "rand with the sizes and dtype of self.",
    .kind = OpKind::Random,
    .infer = infer_random_like,
    .cost = write_cost,
    .kernel = run_uniform,
    .vjp = no_gradient,
    .samples =
        [](Samples& s) {
          s.add_no_grad({sample_randn({2, 3})});
          s.error({sample_ints({2}, 0, 3)}, "must be a floating one");
        },
    .random_count = fill_blocks,
};

extern constinit const OpDef randn_like_op = {
    .schema =
        "randn_like(Tensor self, *, ScalarType? dtype=None, Device? device=None, MemoryFormat? "
        "memory_format=None) -> Tensor",
    .doc = "randn with the sizes and dtype of self.",
    .kind = OpKind::Random,
    .infer = infer_random_like,
    .cost = write_cost,
    .kernel = draw_normal,
    .vjp = no_gradient,
    .samples =
        [](Samples& s) {
          s.add_no_grad({sample_randn({2, 3})});
          s.error({sample_ints({2}, 0, 3)}, "must be a floating one");
        },
    .random_count = fill_blocks,
};

extern constinit const OpDef randint_op = {
    .schema =
        "randint(int high, int[] size, *, ScalarType? dtype=int64, Device? device=None) -> Tensor",
    .doc = "Uniform random integers in [0, high).",
    .kind = OpKind::Random,
    .infer =
        [](Call& c) {
          const DType dtype = c.dtype_if(2).value_or(kInt64);
          check_interval(c, 0, c.integer(0), dtype);
          c.make_output(c.ints(1), dtype);
        },
    .cost = write_cost,
    .kernel = [](Call& c) { draw_integers(c, 0, c.integer(0)); },
    .vjp = no_gradient,
    .samples =
        [](Samples& s) {
          s.add_no_grad({10, Value::ints({2, 3})});
          s.error({0, Value::ints({2})}, "low must be less than high");
          s.error({300, Value::ints({2})}, "uint8 holds the integers from 0 to 255",
                  {{"dtype", kUInt8}});
          s.large([] { return Values{1000, Value::ints({4096, 1024})}; });
        },
    .random_count = fill_blocks,
};

extern constinit const OpDef randint_low_op = {
    .schema =
        "randint.low(int low, int high, int[] size, *, ScalarType? dtype=int64, Device? "
        "device=None) -> Tensor",
    .doc = "Uniform random integers in [low, high).",
    .kind = OpKind::Random,
    .infer =
        [](Call& c) {
          const DType dtype = c.dtype_if(3).value_or(kInt64);
          check_interval(c, c.integer(0), c.integer(1), dtype);
          c.make_output(c.ints(2), dtype);
        },
    .cost = write_cost,
    .kernel = [](Call& c) { draw_integers(c, c.integer(0), c.integer(1)); },
    .vjp = no_gradient,
    .samples =
        [](Samples& s) {
          s.add_no_grad({-5, 5, Value::ints({2, 3})});
          s.add_no_grad({0, 2, Value::ints({4})}, {{"dtype", kBool}});
          s.error({5, 5, Value::ints({2})}, "low must be less than high");
        },
    .random_count = fill_blocks,
};

extern constinit const OpDef randint_like_op = {
    .schema =
        "randint_like(Tensor self, int high, *, ScalarType? dtype=None, Device? device=None, "
        "MemoryFormat? memory_format=None) -> Tensor",
    .doc = "randint with the sizes and dtype of self.",
    .kind = OpKind::Random,
    .infer =
        [](Call& c) {
          const DType dtype = c.dtype_if(1).value_or(c.in(0).dtype());
          check_interval(c, 0, c.integer(0), dtype);
          make_like(c, 1, dtype);
        },
    .cost = write_cost,
    .kernel = [](Call& c) { draw_integers(c, 0, c.integer(0)); },
    .vjp = no_gradient,
    .samples =
        [](Samples& s) {
          s.add_no_grad({sample_randn({2, 3}), 10});
          s.error({sample_randn({2, 3}), -1}, "low must be less than high");
        },
    .random_count = fill_blocks,
};

extern constinit const OpDef randint_like_low_op = {
    .schema =
        "randint_like.low_dtype(Tensor self, int low, int high, *, ScalarType? dtype=None, Device? "
        "device=None, "
        "MemoryFormat? memory_format=None) -> Tensor",
    .doc = "randint with a lower bound and the sizes and dtype of self.",
    .kind = OpKind::Random,
    .infer =
        [](Call& c) {
          const DType dtype = c.dtype_if(2).value_or(c.in(0).dtype());
          check_interval(c, c.integer(0), c.integer(1), dtype);
          make_like(c, 2, dtype);
        },
    .cost = write_cost,
    .kernel = [](Call& c) { draw_integers(c, c.integer(0), c.integer(1)); },
    .vjp = no_gradient,
    .samples =
        [](Samples& s) {
          s.add_no_grad({sample_randn({2, 3}), -3, 10});
        },
    .random_count = fill_blocks,
};

extern constinit const OpDef randperm_op = {
    .schema = "randperm(int n, *, ScalarType? dtype=int64, Device? device=None) -> Tensor",
    .doc = "A random permutation of 0 to n - 1.",
    .kind = OpKind::Random,
    .infer =
        [](Call& c) {
          const DType dtype = c.dtype_if(1).value_or(kInt64);
          PELLUCID_CHECK(c.integer(0) >= 0, ValueError,
                         "randperm: n must not be negative, found {}.", c.integer(0));
          PELLUCID_CHECK(c.integer(0) - 1 <= limits_of(dtype).second, ValueError,
                         "randperm: {} does not hold the integers below {}.", dtype, c.integer(0));
          c.make_output({c.integer(0)}, dtype);
        },
    .cost = write_cost,
    .kernel =
        [](Call& c) {
          const Tensor& out = c.out();
          if (out.dtype() == kInt64)
            return kernels::random_permutation(out.raw<int64_t>(), out.numel(), range_of(c));
          const Tensor wide = empty(out.sizes(), kInt64);
          kernels::random_permutation(wide.raw<int64_t>(), out.numel(), range_of(c));
          visit(out.dtype(), [&](auto v) {
            for (int64_t i = 0; i < out.numel(); ++i)
              out.raw<decltype(v)>()[i] = Scalar(wide.raw<int64_t>()[i]).to<decltype(v)>();
          });
        },
    .vjp = no_gradient,
    .samples =
        [](Samples& s) {
          s.add_no_grad({7});
          s.add_no_grad({0});
          s.add_no_grad({5}, {{"dtype", kFloat32}});
          s.error({-1}, "must not be negative");
        },
    .random_count = [](const Call& c) { return kernels::blocks_for(kInt64, c.out().numel()); },
};

}  // namespace pellucid
