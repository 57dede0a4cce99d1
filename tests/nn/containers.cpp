// OrderedDict, Sequential with any types, ModuleList, ModuleDict, parameter containers, AnyModule
// and Functional.
#include <doctest/doctest.h>

#include <sstream>

#include "pellucid/torch.h"

using namespace pellucid;

namespace {
struct SplitImpl : nn::Module {
  std::tuple<Tensor, int64_t> forward(Tensor x) { return {x * 2, 3}; }
};
TORCH_MODULE(Split);
struct JoinImpl : nn::Module {
  Tensor forward(std::tuple<Tensor, int64_t> both) { return std::get<0>(both) + std::get<1>(both); }
};
TORCH_MODULE(Join);
struct AddImpl : nn::Module {
  Tensor forward(const Tensor& a, const Tensor& b, double scale = 1.0) { return a + b * scale; }

 protected:
  FORWARD_HAS_DEFAULT_ARGS({2, nn::AnyValue(1.0)})
};
TORCH_MODULE(Add);
}  // namespace

TEST_CASE("ordered dict: order, lookup, removal and errors") {
  OrderedDict<std::string, int> d("Number");
  d.insert("b", 1);
  d.insert("a", 2);
  CHECK(d.keys() == std::vector<std::string>{"b", "a"});
  CHECK(d["a"] == 2);
  CHECK(d[0].key() == "b");
  d.erase("b");
  CHECK(d.values() == std::vector<int>{2});
  CHECK(d.find("b") == nullptr);
  CHECK_THROWS_WITH_AS(d["c"], "Number 'c' is not defined.", IndexError);
  CHECK_THROWS_AS(d.insert("a", 1), IndexError);
  for (auto& item : d) item.value() = 7;
  CHECK(d["a"] == 7);
}

TEST_CASE("sequential: values of any type pass between modules") {
  const Tensor x = ones({2});
  nn::Sequential s{nn::Identity(), Split(), Join()};
  CHECK(equal(s->forward(x), full({2}, 5)));
  CHECK(equal(s(x), full({2}, 5)));
  nn::Sequential both{Add()};
  CHECK(equal(both->forward(x, x), full({2}, 2)));
  CHECK(equal(both->forward(x, x, 3.0), full({2}, 4)));
  const auto [t, n] = nn::Sequential(Split())->forward<std::tuple<Tensor, int64_t>>(x);
  CHECK(n == 3);
  CHECK_THROWS_AS(nn::Sequential(Split())->forward(x), TypeError);
  CHECK_THROWS_AS(both->forward(x), TypeError);
  CHECK_THROWS_AS(both->forward(1.5, x), TypeError);
  CHECK_THROWS_AS(nn::Sequential()->forward(x), ValueError);
}

TEST_CASE("sequential: names, access and growth") {
  nn::Sequential s({{"fc", nn::Linear(3, 4)}, {"act", nn::ReLU()}});
  CHECK(s->named_children().keys() == std::vector<std::string>{"fc", "act"});
  s->push_back(nn::Linear(4, 2));
  s->push_back("last", nn::Functional(softmax, 1, nullopt));
  CHECK(s->size() == 4);
  CHECK(s->named_children().keys().back() == "last");
  CHECK(s->forward(randn({5, 3})).sizes() == IntArrayRef({5, 2}));
  CHECK(s->at<nn::LinearImpl>(0).options.out_features() == 4);
  CHECK(s[1]->name() == "ReLU");
  CHECK_THROWS_AS(s->at<nn::ReLUImpl>(0), TypeError);
  CHECK_THROWS_AS(s->ptr(9), IndexError);
  int n = 0;
  for (auto& m : *s) n += !m.is_empty();
  CHECK(n == 4);
  nn::Sequential wrapped(nn::Functional(relu), s);  // a Sequential in a Sequential
  CHECK(wrapped(randn({5, 3})).sizes() == IntArrayRef({5, 2}));
}

TEST_CASE("any module: holds, gives back and calls") {
  nn::AnyModule any(nn::Linear(3, 4));
  CHECK(any.forward(ones({2, 3})).sizes() == IntArrayRef({2, 4}));
  CHECK(any.get<nn::LinearImpl>().options.in_features() == 3);
  CHECK(any.get<nn::Linear>()->options.in_features() == 3);
  CHECK_THROWS_AS(any.get<nn::ReLUImpl>(), TypeError);
  CHECK(nn::AnyModule().is_empty());
  CHECK_THROWS_AS(nn::AnyModule().forward(ones({1})), ValueError);
  nn::AnyModule transposed(nn::ConvTranspose2d(2, 3, 2));
  CHECK(transposed.forward(ones({1, 2, 3, 3})).sizes() == IntArrayRef({1, 3, 4, 4}));
  const nn::AnyModule copy = any.clone();
  CHECK_FALSE(copy.get<nn::LinearImpl>().weight.is_alias_of(any.get<nn::LinearImpl>().weight));
}

TEST_CASE("module list and dict") {
  nn::ModuleList list;
  list->push_back(nn::Linear(2, 2));
  list->push_back(nn::ReLU());
  list->insert(1, std::make_shared<nn::TanhImpl>());
  CHECK(list->size() == 3);
  CHECK(list[1]->name() == "Tanh");
  CHECK(list->at<nn::LinearImpl>(0).options.in_features() == 2);
  CHECK(list->named_parameters().keys() == std::vector<std::string>{"0.weight", "0.bias"});
  CHECK_THROWS_AS(list->ptr(5), IndexError);
  CHECK_THROWS_AS(list->at<nn::TanhImpl>(0), TypeError);

  nn::ModuleDict dict(OrderedDict<std::string, std::shared_ptr<nn::Module>>(
      {{"a", nn::Linear(2, 2).ptr()}, {"b", nn::ReLU().ptr()}}));
  CHECK(dict->keys() == std::vector<std::string>{"a", "b"});
  CHECK(dict->contains("a"));
  CHECK(dict["b"]->name() == "ReLU");
  CHECK(dict->pop("a")->name() == "Linear");
  CHECK(dict->size() == 1);
  CHECK(dict->parameters().empty());
}

TEST_CASE("parameter list and dict") {
  nn::ParameterList list;
  list->append(randn({2}).requires_grad_());
  list->append(randn({3}));
  CHECK(list->parameters().size() == 2);
  CHECK(list[0].requires_grad());
  CHECK_FALSE(list[1].requires_grad());
  nn::ParameterDict dict;
  dict->insert("w", randn({2}).requires_grad_());
  CHECK(dict->named_parameters().keys() == std::vector<std::string>{"w"});
  std::ostringstream out;
  out << list;
  CHECK(out.str().find("(0): Parameter containing: [") != std::string::npos);
}
