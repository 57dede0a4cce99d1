// Sorting and selection along a dim: sort, topk, kthvalue, median. NaN counts as the largest value,
// as in PyTorch.
#include <cmath>

#include "kernels/sort.h"
#include "ops/common.h"
#include "ops/reduce.h"
#include "pellucid/autograd.h"
#include "pellucid/ops.h"

namespace pellucid {

namespace {

int64_t dim_size(const Tensor& t, int64_t dim) { return t.dim() == 0 ? 1 : t.size(dim); }

/// The arguments of a sorting kernel; owns the dims they refer to.
struct SortCall {
  Dims sizes, in_strides, out_strides;
  kernels::SortArgs args;

  // The outputs lack the dim, or have it with another size; their strides are read with it in
  // place.
  SortCall(const Call& c, int64_t dim, bool dim_dropped) {
    const Tensor &self = c.in(0), &out = c.out();
    sizes = self.dim() == 0 ? Dims{1} : Dims(self.sizes());
    in_strides = self.dim() == 0 ? Dims{1} : Dims(self.raw_strides());
    out_strides = self.dim() == 0 ? Dims{1} : Dims(out.raw_strides());
    if (dim_dropped && self.dim() > 0) out_strides.insert(static_cast<size_t>(dim), 0);
    args = {self.dtype(), self.raw_data(), out.raw_data(), c.out(1).raw<int64_t>(),
            sizes,        in_strides,      out_strides,    dim};
  }
};

Cost sort_cost(const Call& c) {
  const auto n = static_cast<double>(c.in(0).numel());
  return {n * std::log2(n + 2), moved_bytes(c)};
}

// Scatters the gradient of the chosen values to where they came from.
Tensors chosen_vjp(const Vjp& v, int64_t dim, bool dim_dropped) {
  if (!v.grads[0].defined()) return {Tensor()};
  Tensor grad = v.grads[0], indices = v.out(1);
  if (dim_dropped && !v.in_sizes(0).empty()) {
    grad = grad.unsqueeze(dim);
    indices = indices.unsqueeze(dim);
  }
  return {zeros(v.in_sizes(0), grad.dtype()).scatter_(dim, indices, grad)};
}

void infer_sort(Call& c, int64_t dim) {
  check_defined(c, 0, "self");
  wrap_dim("sort", dim, c.in(0).dim());
  c.make_output(c.in(0).sizes(), c.in(0).dtype());
  c.make_output(c.in(0).sizes(), kInt64);
}

void run_sort(Call& c, int64_t dim, bool descending) {
  if (c.out().numel() == 0) return;
  const int64_t d = wrap_dim("sort", dim, c.in(0).dim());
  kernels::sort(SortCall(c, d, false).args, descending);
}

void infer_topk(Call& c) {
  check_defined(c, 0, "self");
  const Tensor& self = c.in(0);
  const int64_t k = c.integer(0), d = wrap_dim("topk", c.integer(1), self.dim());
  PELLUCID_CHECK(k >= 0 && k <= dim_size(self, d), ValueError,
                 "topk: k must be between 0 and the {} entries of dim {}, found {} (self {}).",
                 dim_size(self, d), d, k, self.sizes());
  Dims sizes(self.sizes());
  if (!sizes.empty()) sizes[static_cast<size_t>(d)] = k;
  c.make_output(sizes, self.dtype());
  c.make_output(sizes, kInt64);
}

void run_topk(Call& c) {
  if (c.out().numel() == 0) return;
  const int64_t d = wrap_dim("topk", c.integer(1), c.in(0).dim());
  kernels::topk(SortCall(c, d, false).args, c.in(0).dim() == 0 ? 1 : c.integer(0), c.flag(2));
}

// Outputs of one value for each line of `dim`.
void make_line_outputs(Call& c, int64_t dim, bool keepdim) {
  const Tensor& self = c.in(0);
  const Dims sizes = self.dim() == 0 ? Dims() : reduced_sizes(self.sizes(), {dim}, keepdim);
  c.make_output(sizes, self.dtype());
  c.make_output(sizes, kInt64);
}

void infer_kthvalue(Call& c) {
  check_defined(c, 0, "self");
  const Tensor& self = c.in(0);
  const int64_t k = c.integer(0), d = wrap_dim("kthvalue", c.integer(1), self.dim());
  PELLUCID_CHECK(k >= 1 && k <= dim_size(self, d), ValueError,
                 "kthvalue: k must be between 1 and the {} entries of dim {}, found {} (self {}).",
                 dim_size(self, d), d, k, self.sizes());
  make_line_outputs(c, d, c.flag(2));
}

void run_kthvalue(Call& c) {
  if (c.out().numel() == 0) return;
  const int64_t d = wrap_dim("kthvalue", c.integer(1), c.in(0).dim());
  kernels::kthvalue(SortCall(c, d, !c.flag(2)).args, c.integer(0) - 1, false);
}

void infer_median(Call& c) {
  check_defined(c, 0, "self");
  const Tensor& self = c.in(0);
  const int64_t d = wrap_dim("median", c.integer(0), self.dim());
  PELLUCID_CHECK(dim_size(self, d) > 0, ValueError,
                 "median: dim {} has no entries, so it has no median (self {}).", d, self.sizes());
  make_line_outputs(c, d, c.flag(1));
}

void run_median(Call& c) {
  if (c.out().numel() == 0) return;
  const int64_t d = wrap_dim("median", c.integer(0), c.in(0).dim());
  kernels::kthvalue(SortCall(c, d, !c.flag(1)).args, (dim_size(c.in(0), d) - 1) / 2, true);
}

void run_median_of_all(Call& c) {
  const NoGradGuard off;
  if (c.in(0).numel() == 0) {
    c.out().fill_(std::nan(""));
    return;
  }
  const Tensor line = c.in(0).detach().reshape({-1});
  const Dims sizes(line.sizes()), strides(line.raw_strides()), out_strides{0};
  int64_t index = 0;
  kernels::kthvalue(
      {line.dtype(), line.raw_data(), c.out().raw_data(), &index, sizes, strides, out_strides, 0},
      (line.numel() - 1) / 2, true);
}

}  // namespace

extern constinit const OpDef sort_op = {
    .schema =
        "sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)",
    .doc = "The values of each line of a dim in order, and where they were; ties keep their order.",
    .infer = [](Call& c) { infer_sort(c, c.integer(0)); },
    .cost = sort_cost,
    .kernel = [](Call& c) { run_sort(c, c.integer(0), c.flag(1)); },
    .saved = Saved::output(1),
    .vjp = [](const Vjp& v) -> Tensors { return chosen_vjp(v, v.integer(0), false); },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3, 4})});
          s.add({sample_randn({3, 4}), 0, true});
          s.add({sample_randn({4, 3}).transpose(0, 1), 1});
          s.add({sample_randn({})});
          s.add({sample_randn({0, 3})});
          s.add_no_grad({sample_ints({9}, 0, 4)});
          s.error({sample_randn({3}), 1}, "dim 1 is out of range");
          s.large([] { return Values{randn({1024, 1024})}; });
        },
};

extern constinit const OpDef sort_stable_op = {
    .schema =
        "sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor "
        "values, Tensor indices)",
    .doc = "sort; it is stable in any case.",
    .compose = [](const Call& c) -> Tensors {
      auto [values, indices] = c.in(0).sort(c.integer(1), c.flag(2));
      return {values, indices};
    },
    .samples =
        [](Samples& s) {
          s.add_no_grad({sample_ints({3, 4}, 0, 3)}, {{"stable", true}, {"dim", 0}});
        },
};

extern constinit const OpDef argsort_op = {
    .schema = "argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor",
    .doc = "The indices that sort each line of a dim.",
    .compose = [](const Call& c) -> Tensors {
      return {std::get<1>(c.in(0).detach().sort(c.integer(0), c.flag(1)))};
    },
    .samples =
        [](Samples& s) {
          s.add_no_grad({sample_randn({3, 4})});
          s.add_no_grad({sample_randn({3, 4}), 0, true});
        },
};

extern constinit const OpDef argsort_stable_op = {
    .schema =
        "argsort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> Tensor",
    .doc = "argsort; it is stable in any case.",
    .compose = [](const Call& c) -> Tensors { return {c.in(0).argsort(c.integer(1), c.flag(2))}; },
    .samples =
        [](Samples& s) {
          s.add_no_grad({sample_ints({9}, 0, 3)}, {{"stable", true}});
        },
};

extern constinit const OpDef msort_op = {
    .schema = "msort(Tensor self) -> Tensor",
    .doc = "The values sorted along dim 0.",
    .compose = [](const Call& c) -> Tensors { return {std::get<0>(c.in(0).sort(0))}; },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3, 2})});
        },
};

extern constinit const OpDef topk_op = {
    .schema =
        "topk(Tensor self, int k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor "
        "values, Tensor indices)",
    .doc = "The k largest or smallest values of each line of a dim, in order, and where they were.",
    .infer = infer_topk,
    .cost =
        [](const Call& c) {
          return Cost{static_cast<double>(c.in(0).numel()), moved_bytes(c)};
        },
    .kernel = run_topk,
    .saved = Saved::output(1),
    .vjp = [](const Vjp& v) -> Tensors { return chosen_vjp(v, v.integer(1), false); },
    .onnx = {"TopK", 11},
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3, 5}), 2});
          s.add({sample_randn({5, 3}), 3, 0, false});
          s.add({sample_randn({5, 3}).transpose(0, 1), 4});
          s.add({sample_randn({}), 1});
          s.add({sample_randn({3}), 0});
          s.error({sample_randn({3}), 4}, "between 0 and the 3 entries of dim 0, found 4");
          s.large([] { return Values{randn({4096, 1024}), 10}; });
        },
};

extern constinit const OpDef kthvalue_op = {
    .schema =
        "kthvalue(Tensor self, int k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor "
        "indices)",
    .doc = "The k-th smallest value of each line of a dim, k from 1, and where it was.",
    .infer = infer_kthvalue,
    .cost =
        [](const Call& c) {
          return Cost{static_cast<double>(c.in(0).numel()), moved_bytes(c)};
        },
    .kernel = run_kthvalue,
    .saved = Saved::output(1),
    .vjp = [](const Vjp& v) -> Tensors { return chosen_vjp(v, v.integer(1), !v.flag(2)); },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3, 5}), 2});
          s.add({sample_randn({5, 3}), 5, 0, true});
          s.add({sample_randn({}), 1});
          s.error({sample_randn({3}), 0}, "between 1 and the 3 entries");
          s.large([] { return Values{randn({1024, 1024}), 100}; });
        },
};

extern constinit const OpDef median_dim_op = {
    .schema =
        "median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
    .doc = "The lower median of each line of a dim, and where it was; NaN if the line has one.",
    .infer = infer_median,
    .cost =
        [](const Call& c) {
          return Cost{static_cast<double>(c.in(0).numel()), moved_bytes(c)};
        },
    .kernel = run_median,
    .saved = Saved::output(1),
    .vjp = [](const Vjp& v) -> Tensors { return chosen_vjp(v, v.integer(0), !v.flag(1)); },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3, 5}), 1});
          s.add({sample_randn({4, 3}), 0, true});
          s.error({sample_randn({0, 3}), 0}, "has no entries");
          s.large([] { return Values{randn({1024, 1024}), 1}; });
        },
};

extern constinit const OpDef median_op = {
    .schema = "median(Tensor self) -> Tensor",
    .doc = "The lower median of all elements; NaN if there is one among them or there are none.",
    .infer =
        [](Call& c) {
          check_defined(c, 0, "self");
          PELLUCID_CHECK(c.in(0).numel() > 0 || is_floating(c.in(0).dtype()), ValueError,
                         "median: a {} tensor without elements has no median (sizes {}).",
                         c.in(0).dtype(), c.in(0).sizes());
          c.make_output({}, c.in(0).dtype());
        },
    .cost =
        [](const Call& c) {
          return Cost{static_cast<double>(c.in(0).numel()), moved_bytes(c)};
        },
    .kernel = run_median_of_all,
    .saved = Saved::InputsAndOutputs,
    .vjp = shared_among_equals_vjp,
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3, 5})});
          s.add({sample_randn({4})});
          s.add({sample_randn({})});
          s.add({sample_randn({3, 4}).transpose(0, 1)});
          s.error({sample_ints({0}, 0, 5)}, "has no median");
        },
};

}  // namespace pellucid
