// Table lookup: embedding and its backward.
#include "core/vjp_tools.h"
#include "kernels/index.h"
#include "ops/index.h"
#include "pellucid/autograd.h"
#include "pellucid/operators.h"
#include "pellucid/ops.h"

namespace pellucid {

namespace {

void infer_embedding(Call& c) {
  check_defined(c, 0, "weight");
  check_defined(c, 1, "indices");
  check_dim(c, c.in(0), 2, "weight");
  check_index_dtype(c, c.in(1));
  Dims sizes(c.in(1).sizes());
  sizes.push_back(c.in(0).size(1));
  c.make_output(sizes, c.in(0).dtype());
}

// Input 1 as int64, all of it rows of a table of that many.
Tensor checked_rows(const Call& c, int64_t rows) {
  Tensor indices = contiguous_values(c.in(1).to(kInt64));
  const int64_t bad =
      kernels::first_bad_index(indices.raw<int64_t>(), {indices.numel()}, {1}, rows, false);
  PELLUCID_CHECK(bad < 0, IndexError, "{}: index {} is out of range for a table of {} rows.",
                 c.name(), indices.raw<int64_t>()[bad], rows);
  return indices;
}

void run_embedding(Call& c) {
  const Tensor weight = contiguous_values(c.in(0)), indices = checked_rows(c, weight.size(0));
  kernels::index_select(weight.element_size(), weight.raw_data(), 1, weight.size(0), weight.size(1),
                        indices.raw<int64_t>(), indices.numel(), c.out().raw_data());
}

// How often each of `rows` rows is looked up, at least once, as a column of that dtype.
Tensor frequencies(const Tensor& indices, int64_t rows, DType dtype) {
  const Tensor counts = bincount(indices.flatten().to(kInt64), {}, rows);
  return counts.clamp_min(1).to(dtype).unsqueeze(1);
}

Tensors embedding_vjp(const Vjp& v) {
  // A table that already has a gradient (the output layer's, where the weights are tied) gets the
  // rows added: a table of zeros and its sum would move it all several times.
  // Unpacked before the sum is touched: unpacking may run a checkpoint, and the sum's leaf is
  // locked.
  const Tensor indices = v.in(1).flatten(), rows = v.grad.reshape({-1, v.in_sizes(0)[1]});
  const auto add_rows = [&](const Tensor& sum) { sum.index_add_(0, indices, rows); };
  if (v.integer(0) < 0 && !v.flag(1) && v.grad.numel() > 0 && tape::add_to_gradient(0, add_rows))
    return {Tensor(), Tensor()};
  return {embedding_dense_backward(v.grad, v.in(1), v.in_sizes(0)[0], v.integer(0), v.flag(1)),
          Tensor()};
}

void infer_embedding_backward(Call& c) {
  check_floating(c, c.in(0), "grad_output");
  check_index_dtype(c, c.in(1));
  const Tensor &grad = c.in(0), &indices = c.in(1);
  PELLUCID_CHECK(grad.dim() == indices.dim() + 1 &&
                     grad.sizes().slice(0, indices.sizes().size()) == indices.sizes(),
                 ShapeError,
                 "embedding_dense_backward: grad_output must have the sizes of indices and one dim "
                 "more, found {} and {}.",
                 grad.sizes(), indices.sizes());
  c.make_output({c.integer(0), grad.sizes().back()}, grad.dtype());
}

void run_embedding_backward(Call& c) {
  const Tensor grad = contiguous_values(c.in(0)), indices = checked_rows(c, c.integer(0));
  kernels::embedding_backward(grad.dtype(), grad.raw_data(), indices.raw<int64_t>(),
                              indices.numel(), c.integer(0), c.out().size(1), c.integer(1),
                              c.out().raw_data());
  if (!c.flag(2) || indices.numel() == 0) return;
  const NoGradGuard off;
  c.out().div_(frequencies(indices, c.integer(0), grad.dtype()));
}

}  // namespace

extern constinit const OpDef embedding_op = {
    .schema =
        "embedding(Tensor weight, Tensor indices, int padding_idx=-1, bool "
        "scale_grad_by_freq=False, bool sparse=False) -> Tensor",
    .doc =
        "The rows of weight that the indices name; the row padding_idx gets no gradient. With "
        "scale_grad_by_freq a row's gradient is divided by how often it was named. The gradient is "
        "dense, whatever sparse says.",
    .kind = OpKind::Index,
    .infer = infer_embedding,
    .cost =
        [](const Call& c) {
          return Cost{0, static_cast<double>(2 * c.out().nbytes() + c.in(1).nbytes())};
        },
    .kernel = run_embedding,
    .check = [](const Call& c) { checked_rows(c, c.in(0).size(0)); },
    .saved = Saved::input(1),
    .vjp = embedding_vjp,
    .onnx = {"Gather", 13},
    .samples =
        [](Samples& s) {
          s.add({sample_randn({5, 3}), sample_ints({2, 4}, 0, 5)});
          s.add_no_grad({sample_randn({5, 2}), sample_ints({6}, 0, 5),
                         2});  // the padding row's gradient is 0 by definition
          s.add({sample_randn({3, 2}), sample_ints({}, 0, 3)});
          s.add_no_grad({sample_randn({5, 2}), sample_ints({6}, 0, 5), -1, true});
          s.error({sample_randn({5, 3}), sample_ints({2}, 5, 6)},
                  "index 5 is out of range for a table of 5 rows");
          s.error({sample_randn({5}), sample_ints({2}, 0, 5)}, "'weight' must have 2 dimensions");
          s.error({sample_randn({5, 3}), sample_randn({2})}, "index must be int64 or int32");
          s.large([] { return Values{randn({50257, 768}), randint(50257, {4, 1024})}; });
        },
};

extern constinit const OpDef embedding_dense_backward_op = {
    .schema =
        "embedding_dense_backward(Tensor grad_output, Tensor indices, int num_weights, int "
        "padding_idx, bool scale_grad_by_freq) -> Tensor",
    .doc = "Sums the gradient of each looked-up row into its row of the table.",
    .kind = OpKind::Index,
    .infer = infer_embedding_backward,
    .cost =
        [](const Call& c) {
          return Cost{static_cast<double>(c.in(0).numel()), moved_bytes(c)};
        },
    .kernel = run_embedding_backward,
    .check = [](const Call& c) { checked_rows(c, c.integer(0)); },
    .saved = Saved::input(1),
    .vjp = [](const Vjp& v) -> Tensors {
      const Tensor scaled = v.flag(2) && v.in(1).numel() > 0
                                ? v.grad / frequencies(v.in(1), v.integer(0), v.grad.dtype())
                                : v.grad;
      Tensor g = embedding(scaled, v.in(1), v.integer(1));
      if (v.integer(1) >= 0) g = g.masked_fill(v.in(1).eq(v.integer(1)).unsqueeze(-1), 0);
      return {g, Tensor()};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3, 2}), sample_ints({2, 3}, 0, 4), 4, -1, false});
          s.add({sample_randn({5, 2}), sample_ints({5}, 0, 3), 3, 1, false});
          s.add({sample_randn({5, 2}), sample_ints({5}, 0, 3), 3, -1, true});
          s.error({sample_randn({5, 2}), sample_ints({4}, 0, 3), 3, -1, false},
                  "the sizes of indices and one dim more");
          s.large([] {
            return Values{randn({4, 1024, 768}), randint(50257, {4, 1024}), 50257, -1, false};
          });
        },
};

}  // namespace pellucid
