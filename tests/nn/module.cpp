// Module: names, modes, conversion, printing, state_dict, hooks, clones and the path of running
// modules.
#include <doctest/doctest.h>

#include <sstream>

#include "pellucid/torch.h"

using namespace pellucid;

namespace {

struct NetImpl : nn::Module {
  NetImpl() {
    fc1 = register_module("fc1", nn::Linear(4, 3));
    block = register_module("block", nn::Sequential(nn::Linear(3, 3), nn::ReLU()));
    norm = register_module("norm", nn::BatchNorm1d(3));
    scale = register_parameter("scale", ones({3}));
    steps = register_buffer("steps", zeros({}, kInt64));
  }
  Tensor forward(Tensor x) { return norm(block->forward(relu(fc1(x)))) * scale; }
  nn::Linear fc1{nullptr};
  nn::Sequential block{nullptr};
  nn::BatchNorm1d norm{nullptr};
  Tensor scale, steps;
};
TORCH_MODULE(Net);

template <class T> std::string text(const T& module) {
  std::ostringstream out;
  out << module;
  return out.str();
}

template <class F> std::string message_of(F f) {
  try {
    f();
  } catch (const Error& e) { return e.what(); }
  return "";
}

}  // namespace

TEST_CASE("module: parameters, buffers and modules by name, in order") {
  Net net;
  using Names = std::vector<std::string>;
  CHECK(net->named_parameters().keys() == Names{"scale", "fc1.weight", "fc1.bias", "block.0.weight",
                                                "block.0.bias", "norm.weight", "norm.bias"});
  CHECK(net->named_parameters(false).keys() == Names{"scale"});
  CHECK(net->named_buffers().keys() ==
        Names{"steps", "norm.running_mean", "norm.running_var", "norm.num_batches_tracked"});
  CHECK(net->named_modules().keys() == Names{"", "fc1", "block", "block.0", "block.1", "norm"});
  CHECK(net->named_children().keys() == Names{"fc1", "block", "norm"});
  CHECK(net->parameters().size() == 7);
  CHECK(net->parameters()[1].is_same(net->fc1->weight));
  CHECK(net->children().size() == 3);
  int count = 0;
  net->apply([&](nn::Module& m) { count += m.as<nn::Linear>() != nullptr; });
  CHECK(count == 2);
  CHECK(net->modules(false).size() == 5);
  // libtorch's other forms: with names, and with pointers that may be kept.
  Names names, kept;
  net->apply([&](const std::string& name, nn::Module&) { names.push_back(name); }, "net");
  CHECK(names.front() == "net");
  CHECK(names.back() == "net.norm");
  std::vector<std::shared_ptr<nn::Module>> pointers;
  net->apply([&](const std::shared_ptr<nn::Module>& m) { pointers.push_back(m); });
  CHECK(pointers.size() == 6);
  CHECK(pointers.front().get() == net.get());
  net->apply([&](const std::string& name, const std::shared_ptr<nn::Module>& m) {
    kept.push_back(name + ":" + m->name());
  });
  CHECK(kept[3] == "block.0:Linear");
  struct OnStack : nn::Module {
  } unowned;
  CHECK_THROWS_AS(unowned.apply([](const std::shared_ptr<nn::Module>&) {}), ValueError);
}

TEST_CASE("module: a tensor under two names is one parameter and two keys") {
  struct Tied : nn::Module {
    Tied() {
      auto a = register_module("a", nn::Linear(3, 3));
      register_parameter("w", a->weight);
    }
  } tied;
  CHECK(tied.parameters().size() == 2);
  CHECK(tied.state_dict().size() == 3);
  struct Shared : nn::Module {
    Shared() {
      auto layer = register_module("first", nn::Linear(2, 2));
      register_module("second", layer);
    }
  } shared;
  CHECK(shared.parameters().size() == 2);
  CHECK(shared.state_dict().size() == 4);
}

TEST_CASE("module: train, eval, to, zero_grad") {
  Net net;
  CHECK(net->is_training());
  net->eval();
  CHECK_FALSE(net->block->is_training());
  CHECK_FALSE(net->norm->is_training());
  net->train();
  net->forward(randn({5, 4})).sum().backward();
  CHECK(net->fc1->weight.grad().defined());
  net->zero_grad();
  CHECK_FALSE(net->fc1->weight.grad().defined());
  net->to(kFloat64);
  CHECK(net->fc1->weight.dtype() == kFloat64);
  CHECK(net->norm->running_mean.dtype() == kFloat64);
  CHECK(net->steps.dtype() == kInt64);  // integers stay
  CHECK(net->forward(randn({5, 4}, kFloat64)).dtype() == kFloat64);
  net->to(torch::kCPU);
  net->to(torch::Device("cpu"), kFloat32);
  CHECK(net->fc1->weight.dtype() == kFloat32);
  CHECK_THROWS_AS(net->to(kInt64), TypeError);
}

TEST_CASE("module: prints as Python does") {
  CHECK(text(Net()) == R"(Net(
  (fc1): Linear(in_features=4, out_features=3, bias=True)
  (block): Sequential(
    (0): Linear(in_features=3, out_features=3, bias=True)
    (1): ReLU()
  )
  (norm): BatchNorm1d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
))");
  CHECK(text(nn::Sequential()) == "Sequential()");
  nn::ModuleList list(nn::Linear(2, 2), nn::Linear(2, 2), nn::ReLU());
  CHECK(text(list) == R"(ModuleList(
  (0-1): 2 x Linear(in_features=2, out_features=2, bias=True)
  (2): ReLU()
))");
  nn::ModuleDict dict;
  dict->update({{"left", nn::Linear(2, 1).ptr()}, {"right", list.ptr()}});
  CHECK(text(dict) == R"(ModuleDict(
  (left): Linear(in_features=2, out_features=1, bias=True)
  (right): ModuleList(
    (0-1): 2 x Linear(in_features=2, out_features=2, bias=True)
    (2): ReLU()
  )
))");
}

TEST_CASE("module: state_dict goes out and in, completely or not at all") {
  Net a, b;
  a->norm->running_mean.fill_(3);
  const nn::StateDict state = a->state_dict();
  CHECK(state.keys().front() == "scale");
  CHECK(state.size() == 11);
  CHECK_FALSE(state["fc1.weight"].requires_grad());
  b->load_state_dict(state);
  CHECK(equal(a->fc1->weight, b->fc1->weight));
  CHECK(equal(b->norm->running_mean, full({3}, 3)));
  CHECK(b->fc1->weight.requires_grad());

  nn::StateDict wrong;
  for (const auto& item : state)
    if (item.key() != "fc1.bias") wrong.insert(item.key(), item.value() + 1);
  wrong.insert("extra", ones({1}));
  const Tensor kept = b->scale.detach().clone();
  const std::string said = message_of([&] { b->load_state_dict(wrong); });
  CHECK(said.find("missing keys (1):\n    fc1.bias") != std::string::npos);
  CHECK(said.find("unexpected keys (1):\n    extra") != std::string::npos);
  CHECK(equal(b->scale, kept));
  wrong.insert("steps.extra", ones({1}));
  const nn::IncompatibleKeys keys = b->load_state_dict(wrong, false);
  CHECK(keys.missing_keys == std::vector<std::string>{"fc1.bias"});
  CHECK(keys.unexpected_keys == std::vector<std::string>{"extra", "steps.extra"});
  CHECK(equal(b->scale, kept + 1));
  CHECK(b->load_state_dict(state).missing_keys.empty());
  wrong.insert("fc1.bias", Tensor());  // an undefined tensor is no value
  CHECK(b->load_state_dict(wrong, false).missing_keys == std::vector<std::string>{"fc1.bias"});
  CHECK(equal(b->fc1->bias, state["fc1.bias"]));
  wrong["scale"] = ones({4});
  const std::string shapes = message_of([&] { b->load_state_dict(wrong, false); });
  CHECK(shapes.find("scale: the module has [3], the state [4]") != std::string::npos);
  CHECK(equal(b->scale, kept + 1));
}

TEST_CASE("module: hooks see and change what goes in and out") {
  nn::Linear layer(2, 2);
  const Tensor x = ones({1, 2});
  const Tensor plain = layer(x).detach();
  auto before = layer->register_forward_pre_hook(
      [](nn::Module&, const Tensors& in) -> std::optional<Tensors> { return Tensors{in[0] * 2}; });
  CHECK(allclose(layer(x), linear(x * 2, layer->weight, layer->bias)));
  before.remove();
  int calls = 0;
  auto after =
      layer->register_forward_hook([&](nn::Module& m, const Tensors& in, const Tensors& out) {
        ++calls;
        CHECK(m.name() == "Linear");
        CHECK(equal(in[0], x));
        CHECK(equal(out[0], plain));
      });
  CHECK(equal(layer(x), plain));
  CHECK(calls == 1);
  layer->forward(x);  // forward itself runs no hook
  CHECK(calls == 1);
  after.remove();
  CHECK(equal(layer(x), plain));
  CHECK(calls == 1);
}

TEST_CASE("module: to remove a hook leaves those of other kinds") {
  nn::Linear layer(2, 3);
  int before = 0, after = 0, backward = 0;
  const auto pre = [&](nn::Module&, const Tensors&) { ++before; };
  const auto post = [&](nn::Module&, const Tensors&, const Tensors&) { ++after; };
  const auto back = [&](nn::Module&, const Tensors&, const Tensors&) -> std::optional<Tensors> {
    ++backward;
    return {};
  };
  auto kept_pre = layer->register_forward_pre_hook(pre);
  auto kept_post = layer->register_forward_hook(post);
  auto kept_back = layer->register_full_backward_hook(back);
  for (int i = 0; i < 10'000; ++i) {  // whatever numbers other tests have used up
    layer->register_forward_pre_hook(pre).remove();
    layer->register_forward_hook(post).remove();
    layer->register_full_backward_hook(back).remove();
  }
  layer(ones({1, 2}).requires_grad_()).sum().backward();
  CHECK(before == 1);
  CHECK(after == 1);
  CHECK(backward == 1);
}

TEST_CASE("module: without its last hook a module is called as one that never had any") {
  nn::Linear layer(2, 3);
  CHECK_FALSE(layer->has_hooks());
  int calls = 0;
  auto first = layer->register_forward_pre_hook([&](nn::Module&, const Tensors&) { ++calls; });
  auto second =
      layer->register_forward_hook([&](nn::Module&, const Tensors&, const Tensors&) { ++calls; });
  layer(ones({1, 2}));
  CHECK(calls == 2);
  first.remove();
  CHECK(layer->has_hooks());
  second.remove();
  CHECK_FALSE(layer->has_hooks());
  second.remove();  // again: nothing
  auto third = layer->register_forward_pre_hook([&](nn::Module&, const Tensors&) { ++calls; });
  layer(ones({1, 2}));
  CHECK(calls == 3);
  nn::HookHandle* self = nullptr;  // a hook that takes itself away while it runs
  auto fourth = layer->register_forward_pre_hook([&](nn::Module&, const Tensors&) {
    third.remove();
    self->remove();
  });
  self = &fourth;
  layer(ones({1, 2}));
  layer(ones({1, 2}));
  CHECK(calls == 4);
}

TEST_CASE("module: full backward hooks see both gradients and may replace the input's") {
  nn::Linear layer(2, 3);
  const Tensor x = ones({1, 2}).requires_grad_();
  Tensors seen;
  auto handle = layer->register_full_backward_hook(
      [&](nn::Module&, const Tensors& in, const Tensors& out) -> std::optional<Tensors> {
        seen = {in[0].clone(), out[0].clone()};
        return Tensors{in[0] * 10};
      });
  layer(x).backward(full({1, 3}, 2.0));
  CHECK(equal(seen[1], full({1, 3}, 2.0)));
  CHECK(allclose(seen[0], matmul(full({1, 3}, 2.0), layer->weight)));
  CHECK(allclose(x.grad(), seen[0] * 10));
  CHECK(allclose(layer->bias.grad(), full({3}, 2.0)));
  handle.remove();
  // Without a gradient of the input the hook still sees the output's.
  size_t inputs = 9;
  layer->register_full_backward_hook(
      [&](nn::Module&, const Tensors& in, const Tensors&) { inputs = in.size(); });
  layer(ones({1, 2})).sum().backward();
  CHECK(inputs == 0);
}

TEST_CASE("module: clones are deep, for built-in and own modules") {
  nn::Sequential net(nn::Linear(2, 3), nn::BatchNorm1d(3));
  auto copy = std::dynamic_pointer_cast<nn::SequentialImpl>(net->clone());
  CHECK(equal(copy->parameters()[0], net->parameters()[0]));
  {
    const NoGradGuard off;
    net->parameters()[0].add_(1);
  }
  CHECK_FALSE(equal(copy->parameters()[0], net->parameters()[0]));
  CHECK(copy->buffers().size() == 3);
  struct Own : nn::Cloneable<Own> {
    Own() { reset(); }
    void reset() override {
      layer = register_module("layer", nn::Linear(2, 2));
      w = register_parameter("w", randn({2}));
    }
    nn::Linear layer{nullptr};
    Tensor w;
  };
  auto own = std::make_shared<Own>();
  auto other = std::dynamic_pointer_cast<Own>(own->clone());
  CHECK(equal(own->w, other->w));
  CHECK(equal(own->layer->weight, other->layer->weight));
  CHECK_FALSE(own->layer->weight.is_alias_of(other->layer->weight));
  CHECK_FALSE(own->w.is_alias_of(other->w));
  CHECK_THROWS_AS(Net()->clone(), NotImplementedError);
}

TEST_CASE("module: the path of what runs") {
  CHECK(nn::current_module_path().empty());
  CHECK(nn::current_module() == nullptr);
  std::vector<std::string> paths;
  struct Probe : nn::Module {
    explicit Probe(std::vector<std::string>& p) : paths(p) {}
    Tensor forward(Tensor x) {
      paths.push_back(nn::current_module_path());
      return x;
    }
    std::vector<std::string>& paths;
  };
  auto probe = std::make_shared<Probe>(paths);
  nn::Sequential inner(nn::Linear(2, 2), probe);
  nn::Sequential outer({{"first", nn::Linear(2, 2)}, {"inner", inner}});
  outer(ones({1, 2}));
  outer->forward(ones({1, 2}));
  CHECK(paths == std::vector<std::string>{"inner.1", "inner.1"});
  CHECK(nn::current_module() == nullptr);
}

TEST_CASE("module: wrong registrations are refused") {
  struct Open : nn::Module {
  } m;
  m.register_parameter("w", ones({2}));
  CHECK_THROWS_AS(m.register_parameter("w", ones({2})), IndexError);
  CHECK_THROWS_AS(m.register_buffer("w", ones({2})), ValueError);
  CHECK_THROWS_AS(m.register_parameter("", ones({2})), ValueError);
  CHECK_THROWS_AS(m.register_module("a.b", nn::ReLU()), ValueError);
  CHECK_THROWS_AS(m.register_parameter("y", ones({2}).requires_grad_() * 2), AutogradError);
  nn::Linear empty_handle{nullptr};
  CHECK_THROWS_AS(empty_handle.ptr(), ValueError);
}
