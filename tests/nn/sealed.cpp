// Sealed functions around modules: what the program changes in a module between two calls is seen.
#include <doctest/doctest.h>

#include <cstring>
#include <functional>

#include "pellucid/nn.h"
#include "pellucid/pellucid.h"

namespace pellucid {
namespace {

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

// A module of the program's own: it asks for its mode, and nobody but its user knows of its parts.
struct Own : nn::Module {
  Tensor forward(const Tensor& x) { return part->forward(is_training() ? x : x * 2); }
  nn::Sequential part{nn::ReLU()};
};

struct Changed {
  const char* name;
  std::function<Tensor(const Tensor&)> forward;
  std::function<void()> change;
};

template <class Layer> Changed eval_of(const char* name, Layer layer) {
  nn::Sequential net(layer);
  return {name, [net](const Tensor& x) mutable { return net->forward(x); },
          [net]() mutable { net->eval(); }};
}

// `change` gets the net.
template <class Layer, class F> Changed changed(const char* name, Layer layer, const F& change) {
  auto net = std::make_shared<nn::Sequential>(layer);
  return {name, [net](const Tensor& x) { return (*net)->forward(x); },
          [net, change] { change(*net); }};
}

std::vector<Changed> all_changes() {
  using Hooked = std::optional<Tensors>;
  const auto gru = std::make_shared<nn::GRU>(nn::GRUOptions(8, 8).num_layers(2).dropout(0.5));
  const auto own = std::make_shared<Own>(), parts = std::make_shared<Own>();
  nn::ReLU evaluated;
  evaluated->eval();
  return {
      eval_of("dropout", nn::Dropout(0.5)),
      eval_of("dropout of channels", nn::Dropout1d(0.5)),
      eval_of("alpha dropout", nn::AlphaDropout(0.5)),
      eval_of("batch norm", nn::BatchNorm1d(6)),
      eval_of("rrelu", nn::RReLU()),
      {"a recurrent layer", [gru](const Tensor& x) { return std::get<0>((*gru)->forward(x)); },
       [gru] { (*gru)->eval(); }},
      {"a module of one's own", [own](const Tensor& x) { return own->forward(x); },
       [own] { own->eval(); }},
      {"parts of a module of one's own", [parts](const Tensor& x) { return parts->forward(x); },
       [parts] { parts->part = nn::Sequential(nn::Sigmoid()); }},
      changed("a hook before", nn::Linear(8, 8),
              [](nn::Sequential& net) {
                net->children()[0]->register_forward_pre_hook(
                    [](nn::Module&, const Tensors& in) -> Hooked { return Tensors{in[0] * 2}; });
              }),
      changed("a hook behind", nn::ReLU(),
              [](nn::Sequential& net) {
                net->children()[0]->register_forward_hook(
                    [](nn::Module&, const Tensors&, const Tensors& out) -> Hooked {
                      return Tensors{out[0] + 1};
                    });
              }),
      changed("a part more", nn::ReLU(),
              [](nn::Sequential& net) { net->push_back(nn::Sigmoid()); }),
      changed("another part", nn::Linear(8, 8),
              [](nn::Sequential& net) { net = nn::Sequential(nn::Linear(8, 8)); }),
      changed("another part without parameters", nn::ReLU(),
              [](nn::Sequential& net) { net = nn::Sequential(nn::Sigmoid()); }),
      changed("another part in the place of one in evaluation mode", evaluated,
              [](nn::Sequential& net) { net = nn::Sequential(nn::Sigmoid()); }),
  };
}

TEST_CASE("seal: what changes in a module between two calls is seen") {
  const Tensor x = randn({4, 6, 8});
  for (const Changed& c : all_changes()) {
    INFO(c.name);
    auto sealed = compile(c.forward).seal();
    const auto check = [&] {
      for (int i = 0; i < 3; ++i) {
        manual_seed(i);
        const Tensor got = sealed(x);
        manual_seed(i);
        const Tensor expected = c.forward(x).detach();
        CHECK(same_bits(got, expected));
      }
      return c.forward(x).detach();
    };
    manual_seed(7);
    const Tensor before = check();
    c.change();
    manual_seed(7);
    CHECK_FALSE(same_bits(check(), before));
  }
}

TEST_CASE("seal: a hook in the place of another one is seen") {
  nn::Linear layer(8, 8);
  const auto times = [&](double k) {
    return layer->register_forward_hook(
        [k](nn::Module&, const Tensors&, const Tensors& out) -> std::optional<Tensors> {
          return Tensors{out[0] * k};
        });
  };
  auto handle = times(2);
  auto sealed = compile([&](const Tensor& x) { return layer(x); }).seal();
  const Tensor x = randn({3, 8});
  for (int i = 0; i < 3; ++i) CHECK(same_bits(sealed(x), layer(x).detach()));
  handle.remove();
  handle = times(3);
  for (int i = 0; i < 3; ++i) CHECK(same_bits(sealed(x), layer(x).detach()));
  handle.remove();
  for (int i = 0; i < 3; ++i) CHECK(same_bits(sealed(x), layer(x).detach()));
}

}  // namespace
}  // namespace pellucid
