// Custom functions: which arguments they are differentiated by, what backward may return, what
// forward may do with its inputs, and what hooks may put in the place of a gradient.
#include <doctest/doctest.h>

#include "pellucid/nn.h"
#include "pellucid/pellucid.h"

using namespace pellucid;
using autograd::AutogradContext;
using autograd::variable_list;

namespace {

/// The message of the E that f throws; empty if it throws none.
template <class E, class F> std::string message_of(const F& f) {
  try {
    f();
  } catch (const E& e) { return e.what(); }
  return "";
}
bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

/// 2x, whose backward returns what `given` makes of the gradient.
struct Returns : autograd::Function<Returns> {
  static inline std::function<variable_list(const Tensor&)> given;
  static Tensor forward(AutogradContext*, const Tensor& x) { return x * 2; }
  static variable_list backward(AutogradContext*, variable_list g) { return given(g[0]); }
};

Tensor gradient_of(const std::function<variable_list(const Tensor&)>& given) {
  Returns::given = given;
  const Tensor x = ones({5, 5}).requires_grad_();
  Returns::apply(x).sum().backward();
  return x.grad();
}

struct SumOfList : autograd::Function<SumOfList> {
  static Tensor forward(AutogradContext* ctx, const std::vector<Tensor>& list, double factor) {
    ctx->saved_data["factor"] = factor;
    ctx->saved_data["count"] = static_cast<int64_t>(list.size());
    Tensor sum = zeros_like(list[0]);
    for (const Tensor& t : list) sum = sum + t;
    return sum * factor;
  }
  static variable_list backward(AutogradContext* ctx, variable_list g) {
    const auto count = static_cast<size_t>(ctx->saved_data["count"].toInt());
    variable_list out;
    for (size_t i = 0; i < count; ++i)
      out.push_back(g[0] * (ctx->saved_data["factor"].toDouble() * static_cast<double>(i + 1)));
    out.emplace_back();  // of the factor
    return out;
  }
};

/// Of everything that may hold tensors; the gradient of argument i is i + 1.
struct Holders : autograd::Function<Holders> {
  static Tensor forward(AutogradContext*, TensorList list, const std::optional<Tensor>& maybe,
                        const std::array<Tensor, 2>& pair, int64_t number,
                        const std::tuple<Tensor, double>& mixed) {
    return list[0] + (maybe ? *maybe : zeros_like(list[0])) + pair[0] + pair[1] +
           std::get<0>(mixed) + number;
  }
  static variable_list backward(AutogradContext* ctx, variable_list g) {
    CHECK(ctx->needs_input_grad(0));
    variable_list out;
    for (const bool tensor : {true, has_optional, true, true, false, true, false})
      out.push_back(tensor ? g[0] * static_cast<double>(out.size() + 1) : Tensor());
    return out;
  }
  static inline bool has_optional = true;
};

/// Does to its input what `change` does, and returns what that returns.
struct Changes : autograd::Function<Changes> {
  static inline std::function<variable_list(AutogradContext*, Tensor)> change;
  static variable_list forward(AutogradContext* ctx, double, const Tensor& x) {
    return change(ctx, x);
  }
  static variable_list backward(AutogradContext*, variable_list g) { return {{}, g[0] * 3}; }
};

Tensor change(const Tensor& x, std::function<variable_list(AutogradContext*, Tensor)> f) {
  Changes::change = std::move(f);
  return Changes::apply(1.0, x)[0];
}

variable_list double_in_place(AutogradContext* ctx, const Tensor& x) {
  x.mul_(2);
  ctx->mark_dirty({x});
  return {x};
}

}  // namespace

TEST_CASE("a custom function's gradient has the sizes and the dtype of its input") {
  const std::string wrong = message_of<ShapeError>(
      [] { gradient_of([](const Tensor&) -> variable_list { return {ones({10})}; }); });
  CHECK(has(wrong, "ReturnsBackward"));
  CHECK(has(wrong, "[10]"));
  CHECK(has(wrong, "[5, 5]"));
  for (const Tensor& few : {ones({5}), ones({1, 1}), ones({})})
    CHECK_THROWS_AS(gradient_of([&](const Tensor&) -> variable_list { return {few}; }), ShapeError);
  CHECK(equal(gradient_of([](const Tensor&) -> variable_list {
                return {ones({3, 5, 5})};
              }),
              full({5, 5}, 3.0)));
  for (const DType type : {kFloat64, kInt64, kBool, kBFloat16}) {
    const Tensor g = gradient_of([&](const Tensor& g) -> variable_list { return {g.to(type)}; });
    CHECK((g.dtype() == kFloat32));
    CHECK(equal(g, ones({5, 5})));
  }
  CHECK(!gradient_of([](const Tensor&) -> variable_list { return {Tensor()}; }).defined());
}

TEST_CASE("a custom function returns as many gradients as it has arguments") {
  CHECK(equal(gradient_of([](const Tensor& g) -> variable_list {
                return {g, {}, {}};
              }),
              ones({5, 5})));
  for (const variable_list& wrong : {variable_list{}, variable_list{ones({5, 5}), ones({5, 5})}})
    CHECK(has(message_of<AutogradError>([&] { gradient_of([&](const Tensor&) { return wrong; }); }),
              "ReturnsBackward: backward returned an incorrect number of gradients (expected 1"));
  Holders::has_optional = true;  // a gradient where there is no tensor
  const Tensor x = ones({2}).requires_grad_();
  const Tensor y = Holders::apply(TensorList({x}), std::optional<Tensor>(),
                                  std::array<Tensor, 2>{x, x}, int64_t{3}, std::tuple(x, 1.0));
  CHECK(has(message_of<AutogradError>([&] { y.sum().backward(); }), "argument 1 of forward"));
}

TEST_CASE("a custom function is differentiated by the tensors of a list") {
  const Tensor a = ones({2}).requires_grad_(), b = ones({2}), c = ones({2}).requires_grad_();
  const Tensor y = SumOfList::apply(std::vector<Tensor>{a, b, c}, 2.0);
  CHECK(equal(y.detach(), full({2}, 6.0)));
  REQUIRE(y.requires_grad());
  CHECK(y.grad_fn()->next_edges().size() == 3);
  y.sum().backward();
  CHECK(equal(a.grad(), full({2}, 2.0)));
  CHECK(!b.grad().defined());
  CHECK(equal(c.grad(), full({2}, 6.0)));
  const std::vector<Tensor> constants{b, b};
  CHECK(!SumOfList::apply(constants, 2.0).requires_grad());
}

TEST_CASE("a custom function finds tensors in lists, optionals, arrays and tuples") {
  for (const bool given : {true, false}) {
    std::vector<Tensor> x;
    for (int i = 0; i < 5; ++i) x.push_back(ones({2}).requires_grad_());
    Holders::has_optional = given;
    const Tensor y =
        Holders::apply(TensorList({x[0]}), given ? std::optional(x[1]) : std::nullopt,
                       std::array<Tensor, 2>{x[2], x[3]}, int64_t{7}, std::tuple(x[4], 1.0));
    y.sum().backward();
    const double expected[] = {1, 2, 3, 4, 6};
    for (size_t i = 0; i < 5; ++i) {
      if (i == 1 && !given)
        CHECK(!x[i].grad().defined());
      else
        CHECK(equal(x[i].grad(), full({2}, expected[i])));
    }
  }
}

TEST_CASE("a custom function that changes its input: history, also through a view") {
  const Tensor x = ones({3}).requires_grad_();
  const Tensor y = x * 1;
  const Tensor changed = change(y, double_in_place);
  CHECK(changed.is_same(y));
  y.sum().backward();
  CHECK(equal(x.grad(), full({3}, 3.0)));
  x.mutable_grad().reset();
  const Tensor whole = x * 1;
  change(whole.slice(0, 0, 2), double_in_place);  // the view is the function's second argument
  whole.sum().backward();
  CHECK(equal(x.grad(), tensor({3.0, 3.0, 1.0}, kFloat32)));
}

TEST_CASE("a custom function that changes what it may not is refused") {
  const Tensor x = ones({3}).requires_grad_();
  CHECK_THROWS_AS(change(x, double_in_place), AutogradError);  // a leaf
  const Tensor y = x * 1;
  CHECK(has(message_of<AutogradError>([&] {
              change(y, [](AutogradContext* ctx, const Tensor& t) -> variable_list {
                ctx->mark_dirty({t});
                return {t * 2};
              });
            }),
            "does not return"));
  CHECK_THROWS_AS(change(y.slice(0, 0, 2),
                         [](AutogradContext* ctx, const Tensor& t) -> variable_list {
                           ctx->mark_dirty({t});
                           return {t, t * 2};
                         }),
                  AutogradError);
}

TEST_CASE("a custom function that returns its input or a view of it") {
  const Tensor x = ones({3}).requires_grad_();
  const auto as_it_is = [](AutogradContext*, const Tensor& t) -> variable_list { return {t}; };
  const auto part = [](AutogradContext*, const Tensor& t) -> variable_list {
    return {t.slice(0, 0, 2)};
  };
  const Tensor same = change(x, as_it_is);
  CHECK(!same.is_same(x));
  CHECK(x.is_leaf());
  same.sum().backward();
  CHECK(equal(x.grad(), full({3}, 3.0)));
  const Tensor y = x * 1;
  for (const auto& f : {std::function<variable_list(AutogradContext*, Tensor)>(as_it_is),
                        std::function<variable_list(AutogradContext*, Tensor)>(part)})
    CHECK_THROWS_AS(change(y, f).mul_(2), AutogradError);
  CHECK(equal(y.detach(), ones({3})));
  const NoGradGuard off;
  CHECK(!change(x, as_it_is).requires_grad());
}

TEST_CASE("a custom function: results without a gradient have no history") {
  const Tensor x = ones({3}).requires_grad_();
  const Tensor y = change(x, [](AutogradContext* ctx, const Tensor& t) -> variable_list {
    const AutoGradMode on(true);
    const Tensor r = t * 2;
    ctx->mark_non_differentiable({r});
    return {r};
  });
  CHECK(!y.requires_grad());
}

TEST_CASE("hooks replace a gradient by one of its sizes and dtype") {
  const Tensor x = ones({3}).requires_grad_();
  const auto with_hook = [&](bool leaf, const std::function<Tensor(Tensor)>& hook) {
    const Tensor y = x * 2;
    const Tensor& watched = leaf ? x : y;
    const unsigned id = watched.register_hook(hook);
    try {
      y.sum().backward();
    } catch (...) {
      watched.remove_hook(id);
      throw;
    }
    watched.remove_hook(id);
  };
  for (const bool leaf : {true, false}) {
    CHECK_THROWS_AS(with_hook(leaf, [](const Tensor&) { return ones({1}); }), ShapeError);
    CHECK_THROWS_AS(with_hook(leaf, [](const Tensor& g) { return g.to(kFloat64); }), TypeError);
  }
  CHECK(!x.grad().defined());
  const auto with_node_hook = [&](const std::function<void(autograd::Node&)>& add) {
    const Tensor y = x * 2;
    add(*y.grad_fn());
    y.sum().backward();
  };
  using Node = autograd::Node;
  CHECK_THROWS_AS(with_node_hook([](Node& n) {
                    n.add_pre_hook([](const auto&) { return variable_list{ones({1})}; });
                  }),
                  ShapeError);
  const std::string wrong = message_of<ShapeError>([&] {
    with_node_hook([](Node& n) {
      n.add_post_hook([](const auto&, const auto&) { return variable_list{ones({7}), {}}; });
    });
  });
  CHECK(has(wrong, "MulBackward0"));
  CHECK_THROWS_AS(
      with_node_hook([](Node& n) {
        n.add_post_hook([](const auto&, const auto&) { return variable_list{ones({3})}; });
      }),
      AutogradError);
  with_node_hook([](Node& n) {
    n.add_post_hook([](const auto& in, const auto&) {
      return variable_list{in[0].to(kFloat64) * 5, {}};
    });
  });
  CHECK(equal(x.grad(), full({3}, 10.0)));
}

TEST_CASE("a module's backward hook returns gradients of the inputs' sizes") {
  nn::Linear layer(2, 2);
  const auto handle = layer->register_full_backward_hook(
      [](nn::Module&, const Tensors&, const Tensors&) -> std::optional<Tensors> {
        return Tensors{ones({4, 1, 2})};
      });
  const Tensor x = ones({1, 2}).requires_grad_();
  CHECK_THROWS_AS(layer(x).sum().backward(), ShapeError);
}

TEST_CASE("saved-tensor hooks: what they may not do") {
  const Tensor x = ones({3}).requires_grad_();
  const auto square = [&](autograd::SavedTensorsHooks::Pack pack,
                          autograd::SavedTensorsHooks::Unpack unpack) {
    const autograd::SavedTensorsHooks hooks(std::move(pack), std::move(unpack));
    return x * x;
  };
  const auto keep = [](const Tensor& t) -> std::any { return t; };
  CHECK_THROWS_AS(square(keep, [](const std::any&) { return Tensor(); }).sum().backward(),
                  TypeError);
  CHECK_THROWS_AS(square(
                      [](const Tensor& t) -> std::any {
                        t.add_(1);
                        return t;
                      },
                      [](const std::any& a) { return std::any_cast<Tensor>(a); }),
                  AutogradError);
}

TEST_CASE("a .grad of other sizes or of another dtype is refused") {
  const Tensor x = ones({2, 3}).requires_grad_();
  CHECK_THROWS_AS(x.set_grad(ones({3})), ShapeError);
  CHECK_THROWS_AS(x.set_grad(ones({2, 3}, kFloat64)), TypeError);
  x.mutable_grad() = ones({4, 2, 3});
  CHECK_THROWS_AS((x * 2).sum().backward(), ShapeError);
  CHECK(equal(x.grad(), ones({4, 2, 3})));
}
