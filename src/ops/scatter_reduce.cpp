// scatter with a reduction: what is written to a place is added to it or multiplied with it.
#include "ops/common.h"
#include "pellucid/ops.h"

namespace pellucid {
namespace {

// self, index, src; the attributes are dim and, at `reduce_at`, the reduction.
Tensor reduced(const Call& c, const Tensor& src, size_t reduce_at) {
  const std::string_view reduce = c.text(reduce_at);
  PELLUCID_CHECK(reduce == "add" || reduce == "multiply", ValueError,
                 "scatter: reduce must be 'add' or 'multiply', found '{}'.", reduce);
  return reduce == "add" ? c.in(0).scatter_add(c.integer(0), c.in(1), src)
                         : _scatter_multiply(c.in(0), c.integer(0), c.in(1), src);
}

}  // namespace

extern constinit const OpDef scatter_reduce_op = {
    .schema =
        "scatter[_].reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> "
        "Tensor",
    .doc = "scatter that adds src to what is there ('add') or multiplies it ('multiply').",
    .kind = OpKind::Index,
    .compose = [](const Call& c) -> Tensors {
      check_defined(c, 0, "self");
      check_defined(c, 2, "src");
      return {reduced(c, c.in(2), 1)};
    },
    .samples =
        [](Samples& s) {
          for (const char* reduce : {"add", "multiply"})
            s.add({sample_randn({4, 2}, 0.1), 0, sample_ints({3, 2}, 0, 4),
                   sample_randn({3, 2}, 0.1)},
                  {{"reduce", reduce}});
          s.error({sample_randn({3}), 0, sample_ints({2}, 0, 3), sample_randn({2})},
                  "must be 'add' or 'multiply', found 'mean'", {{"reduce", "mean"}});
        },
};

extern constinit const OpDef scatter_value_reduce_op = {
    .schema =
        "scatter[_].value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) "
        "-> Tensor",
    .doc = "scatter that adds one value to what is there ('add') or multiplies it ('multiply').",
    .kind = OpKind::Index,
    .compose = [](const Call& c) -> Tensors {
      check_defined(c, 0, "self");
      check_defined(c, 1, "index");
      return {reduced(c, full(c.in(1).sizes(), c.scalar(1), c.in(0).dtype()), 2)};
    },
    .samples =
        [](Samples& s) {
          for (const char* reduce : {"add", "multiply"})
            s.add({sample_randn({4, 2}, 0.1), 0, sample_ints({3, 2}, 0, 4), 1.5},
                  {{"reduce", reduce}});
          s.error({sample_randn({3}), 0, sample_ints({2}, 0, 3), 2},
                  "must be 'add' or 'multiply', found 'mean'", {{"reduce", "mean"}});
        },
};

}  // namespace pellucid
