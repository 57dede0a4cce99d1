// What a capture must not be cut by: every op, forward and backward, on pending inputs, forces
// nothing, but for a list with reasons. And which attributes of a call are parameters of a program.
#include <doctest/doctest.h>

#include <memory>
#include <optional>

#include "base/random.h"
#include "core/capture.h"
#include "core/observe.h"
#include "kernels/tiles.h"
#include "pellucid/lazy.h"
#include "support.h"

namespace pellucid::test {
namespace {

// Why the call of an op, or its gradient, reads values while it is captured.
std::string reason_to_read(const std::string& name) {
  static const std::vector<std::pair<std::string, std::string>> groups = {
      {"a factorisation or a solve: only its kernel can tell whether the matrix will do",
       "cholesky cholesky_inverse cholesky_solve det inverse linalg_cholesky "
       "linalg_cond linalg_cond.p_str linalg_det linalg_eigh linalg_eigvalsh "
       "linalg_inv linalg_lstsq linalg_matrix_norm linalg_matrix_norm.str_ord "
       "linalg_matrix_rank.atol_rtol_float linalg_norm linalg_pinv.atol_rtol_float "
       "linalg_qr linalg_slogdet linalg_solve linalg_solve_triangular linalg_svd "
       "linalg_svdvals logdet matrix_exp pinverse qr slogdet svd"},
      {"the sizes of its result, or of its gradient's terms, depend on values",
       "bincount histc histogram.bin_ct histogram.bins_tensor index.Tensor index_put "
       "masked_scatter masked_select nanmedian nonzero nonzero_numpy "
       "repeat_interleave.self_Tensor unique"},
      {"it refuses some values of its floating inputs",
       "bce_loss bernoulli bernoulli.Tensor binary_cross_entropy cov "
       "gaussian_nll_loss index_fill multinomial nanquantile normal.Tensor_Tensor "
       "normal.float_Tensor poisson quantile"},
      {"it looks at indices that it computes from its inputs",
       "adaptive_max_pool3d max_pool3d_with_indices combinations ctc_loss embedding_bag isin mode "
       "multilabel_margin_loss "
       "nanmedian.dim pdist scatter_reduce.two take_along_dim unravel_index"},
      {"its gradient has a short formula where no factor is 0", "cumprod prod"},
  };
  for (const auto& [reason, names] : groups)
    if ((" " + names + " ").find(" " + name + " ") != std::string::npos) return reason;
  return {};
}

// How often something was forced by the call and its gradient. Floating inputs are pending, as in
// the middle of a step; indices, masks and targets are data.
int64_t forced_by(const Sample& s) {
  const Sample own = map_tensors(
      s, [](const Tensor& t) { return t.impl().wrapped_number ? t : t.detach().clone(); });
  eval();  // in a program that is lazy as a whole
  const LazyGuard lazy;
  default_generator().manual_seed(1);
  const Differentiable d = differentiable(map_tensors(own, [](const Tensor& t) {
    return t.is_floating_point() && !t.impl().wrapped_number ? t.detach().clone() : t;
  }));
  const int64_t before = detail::forced_runs.load();
  try {
    Tensors results;
    for (const Tensor& t : d.f(d.inputs))
      if (t.requires_grad() && t.numel() > 0) results.push_back(t.sin().sum());
    if (!results.empty()) autograd::backward(results);
  } catch (const AutogradError&) {
    // There is no derivative, or an argument that the op changes is a leaf.
  }
  return detail::forced_runs.load() - before;
}

TEST_CASE("every op: a captured call and its gradient read no values") {
  int ops = 0, readers = 0;
  for (const OpDef* op : library_ops()) {
    if (!has_defined_values(*op) || op->info->name.starts_with("user_")) continue;
    const std::string name =
        op->info->overload.empty() ? op->info->name : op->info->name + "." + op->info->overload;
    int64_t forced = 0;
    for (const Sample& s : samples_of(*op).valid) forced += forced_by(s);
    const std::string reason = reason_to_read(name);
    ++ops;
    readers += !reason.empty();
    if (reason.empty())
      CHECK_MESSAGE(forced == 0, name << " forces pending tensors");
    else
      CHECK_MESSAGE(forced > 0, name << " forces nothing, but is listed: " << reason);
  }
  MESSAGE(ops << " ops, " << readers << " of them read values");
}

// A call as a kernel sees it, kept.
struct Seen {
  explicit Seen(const Call& c) : op(c.op()) {
    attrs.assign(c.attrs());
    for (size_t i = 0; i < c.input_count(); ++i) inputs.push_back(c.in(i));
  }
  const OpDef& op;
  OwnedAttrs attrs;
  Tensors inputs;
};

// The call of a sample that reaches the op's own kernel.
std::unique_ptr<Seen> seen(const Sample& s) {
  std::unique_ptr<Seen> found;
  const OpObserver observer([&](const Call& c) {
    if (&c.op() == s.op && !c.in_place() && !found) found = std::make_unique<Seen>(c);
  });
  const NoGradGuard off;
  const LazyGuard eager(false);
  run(map_tensors(
      s, [](const Tensor& t) { return t.impl().wrapped_number ? t : t.detach().clone(); }));
  return found;
}

/// What a program keeps of a call: sizes, strides and dtypes of the results, and the loop.
struct Kept {
  std::vector<std::string> results;
  kernels::InnerLoop loop = nullptr;
  kernels::RowLoop rows = nullptr;
  bool operator==(const Kept&) const = default;
};

std::optional<Kept> kept(const Seen& call, Attrs attrs, const Tensors& inputs) {
  std::vector<const Tensor*> pointers;
  for (const Tensor& t : inputs) pointers.push_back(&t);
  Kept out;
  const OpObserver observer([&](const Call& c) {
    if (&c.op() != &call.op || !out.results.empty()) return;
    detail::CapturedCall described(c.op());
    described.attrs.assign(c.attrs());
    described.output_count = static_cast<uint8_t>(c.output_count());
    for (size_t k = 0; k < c.output_count(); ++k) {
      described.outputs[k] = c.out(k);
      out.results.push_back(c.out(k).defined()
                                ? fmt::format("{} {}", describe(c.out(k)), c.out(k).raw_strides())
                                : "none");
    }
    for (size_t i = 0; i < c.input_count(); ++i) described.inputs.emplace_back(c.in(i));
    if (!c.op().describes) return;
    kernels::TileStep step;
    detail::describe_captured(described, step);
    out.loop = step.loop;
    out.rows = step.rows;
  });
  const NoGradGuard off;
  const LazyGuard eager(false);
  try {
    pellucid::call(call.op, pointers, attrs);
  } catch (const Error&) {
    return std::nullopt;  // the op refuses the number
  }
  return out;
}

std::optional<Attr> changed(const Attr& a) {
  switch (a.kind()) {
    case Attr::Kind::Int:
      return Attr(a.integer() + 1);
    case Attr::Kind::Float:
      return Attr(a.number() * 0.5 + 0.25);
    case Attr::Kind::Scalar:
      if (a.scalar().isBoolean()) return std::nullopt;
      return a.scalar().isFloatingPoint() ? Attr(Scalar(a.number() * 0.5 + 0.25))
                                          : Attr(Scalar(a.scalar().toLong() + 1));
    default:
      return std::nullopt;
  }
}

TEST_CASE("every op: attributes that are no part of a program's key choose no sizes and no loop") {
  const LazyGuard outermost(false);  // what the observer sees is the call alone
  int compared = 0, integers = 0;
  for (const OpDef* op : library_ops()) {
    if (!op->kernel || !has_defined_values(*op)) continue;
    for (const Sample& s : samples_of(*op).valid) {
      const std::unique_ptr<Seen> call = seen(s);
      if (!call) continue;
      const Attrs attrs = call->attrs.view();
      const std::optional<Kept> before = kept(*call, attrs, call->inputs);
      if (!before) continue;
      for (size_t i = 0; i < attrs.size(); ++i) {
        if (attr_is_structural(*op, i)) continue;
        const std::optional<Attr> other = changed(attrs[i]);
        if (!other) continue;
        std::vector<Attr> list(attrs.begin(), attrs.end());
        list[i] = *other;
        const std::optional<Kept> after = kept(*call, list, call->inputs);
        if (!after) continue;
        ++compared;
        integers += attrs[i].kind() == Attr::Kind::Int;
        CHECK_MESSAGE(*after == *before, text(s) << ": attribute " << i);
      }
      for (size_t i = 0; i < call->inputs.size(); ++i) {
        const Tensor& number = call->inputs[i];
        if (!number.defined() || !number.impl().wrapped_number || number_is_structural(*op, i) ||
            number.dtype() != kFloat64)
          continue;
        Tensors inputs = call->inputs;
        inputs[i] = number.clone().mul_(0.5).add_(0.25);
        inputs[i].impl().wrapped_number = true;
        const std::optional<Kept> after = kept(*call, attrs, inputs);
        if (!after) continue;
        ++compared;
        CHECK_MESSAGE(*after == *before, text(s) << ": number " << i);
      }
    }
  }
  MESSAGE(compared << " numbers were changed");
  CHECK(compared > 100);
  CHECK(integers > 0);
}

TEST_CASE("seeds, offsets and positions are no part of a program's key") {
  const auto structural = [](std::string_view name, std::string_view argument) {
    const OpDef& op = *find_ops(name).at(0);
    size_t i = 0;
    for (const Arg& a : op.info->args) {
      if (a.type == ArgType::Tensor || a.type == ArgType::TensorList) continue;
      if (a.name == argument) return attr_is_structural(op, i);
      ++i;
    }
    FAIL("there is no such argument");
    return false;
  };
  for (const char* name : {"dropout_train_backward", "flash_attention_backward"})
    for (const char* argument : {"seed", "offset"}) CHECK_FALSE(structural(name, argument));
  CHECK_FALSE(structural("_transformer_decode_layer", "position"));
  CHECK_FALSE(structural("dropout_train", "p"));
  CHECK_FALSE(structural("leaky_relu", "negative_slope"));
  CHECK(structural("flash_attention", "is_causal"));
  CHECK(structural("arange", "end"));
  CHECK(structural("cumsum", "dim"));
  CHECK(number_is_structural(*find_ops("pow").at(0), 1));
  CHECK_FALSE(number_is_structural(*find_ops("add").at(0), 1));
}

}  // namespace
}  // namespace pellucid::test
