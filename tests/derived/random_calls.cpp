// Random calls of ops: whatever the shapes, dtypes, strides and attributes, a call returns or
// throws a pellucid::Error; it never crashes, and the library works afterwards. The length follows
// PELLUCID_TEST_LONG.
#include <doctest/doctest.h>

#include <cstdlib>
#include <iostream>
#include <random>

#include "derived/support.h"
#include "pellucid/memory.h"

using namespace pellucid;
using namespace pellucid::test;

namespace {

class Caller {
 public:
  explicit Caller(uint64_t seed) : random_(seed) {}

  int64_t pick(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  bool chance(double p) { return std::uniform_real_distribution<>(0, 1)(random_) < p; }

  Tensor tensor() {
    if (chance(0.02)) return {};
    Dims sizes;
    for (int64_t n = chance(0.1) ? pick(0, 7) : pick(0, 4); n > 0; --n)
      sizes.push_back(chance(0.1) ? 0 : pick(1, 4));
    static constexpr DType types[] = {kFloat32,  kFloat64, kInt64, kBool, kFloat16,
                                      kBFloat16, kInt32,   kInt16, kInt8, kUInt8};
    const DType type = types[chance(0.7) ? pick(0, 1) : pick(0, 9)];
    Tensor t = sample_randn(sizes).mul(3.0).to(type);
    if (chance(0.05) && t.numel() > 0 && is_floating(type)) t = t.mul(chance(0.5) ? INFINITY : NAN);
    if (chance(0.2) && t.dim() > 1) t = t.transpose(0, -1);
    if (chance(0.1) && t.dim() > 0) t = t.slice(-1, 0, std::nullopt, 2);
    if (chance(0.1) && t.dim() > 0 && t.size(0) == 1) {
      Dims wide(t.sizes());
      wide[0] = 3;
      t = t.expand(wide);
    }
    if (chance(0.3) && t.is_floating_point()) t = t.detach().requires_grad_();
    return t;
  }

  Value number() {
    switch (pick(0, 5)) {
      case 0:
        return pick(-3, 3);
      case 1:
        return std::uniform_real_distribution<>(-2, 2)(random_);
      case 2:
        return chance(0.5);
      case 3:
        return 0;
      case 4:
        return chance(0.1) ? INT64_MIN : chance(0.1) ? INT64_MAX : pick(0, 6);
      default:
        return chance(0.1) ? double(NAN) : 0.5;
    }
  }

  Value argument(const Arg& a, const Value* like) {
    if (chance(0.03)) return Value();
    if (like && chance(0.6)) return mutate(*like);
    switch (a.type) {
      case ArgType::Tensor:
        return a.scalar_too && chance(0.3) ? number() : Value(tensor());
      case ArgType::TensorList: {
        Values list;
        for (int64_t n = pick(0, 4); n > 0; --n) list.push_back(tensor());
        return list;
      }
      case ArgType::Bool:
        return chance(0.5);
      case ArgType::Int:
        return chance(0.05) ? pick(INT64_MIN, INT64_MAX) : pick(-4, 5);
      case ArgType::Float:
        return chance(0.05) ? Value(double(INFINITY))
                            : Value(std::uniform_real_distribution<>(-1, 2)(random_));
      case ArgType::Scalar:
        return number();
      case ArgType::Ints: {
        Values list;
        for (int64_t n = pick(0, 4); n > 0; --n)
          list.push_back(chance(0.03)   ? pick(INT64_MIN, INT64_MAX)
                         : chance(0.05) ? pick(1000, 100000)
                                        : pick(-2, 4));
        return list;
      }
      case ArgType::Text:
        return chance(0.5) ? Value("mean") : Value("floor");
      case ArgType::DType:
        return static_cast<DType>(pick(0, 9));
      case ArgType::Format:
        return static_cast<MemoryFormat>(pick(0, 2));
      case ArgType::Device:
        return Value();
    }
    return Value();
  }

  // A value near one that is known to work.
  Value mutate(const Value& v) {
    if (const Tensor* t = v.as<Tensor>()) {
      if (!t->defined() || chance(0.5)) return v;
      switch (pick(0, 4)) {
        case 0:
          return t->to(static_cast<DType>(pick(0, 9)));
        case 1:
          return t->dim() > 0 ? Value(t->slice(pick(0, t->dim() - 1), pick(0, 1))) : v;
        case 2:
          return t->unsqueeze(0);
        case 3:
          return t->dim() > 1 ? Value(t->transpose(0, -1)) : v;
        default:
          return t->is_floating_point() ? Value(t->detach().requires_grad_()) : v;
      }
    }
    if (const int64_t* i = v.as<int64_t>()) return chance(0.5) ? v : Value(*i + pick(-1, 1));
    if (const Values* list = v.as<Values>()) {
      Values out = *list;
      if (!out.empty() && chance(0.3))
        out[static_cast<size_t>(pick(0, static_cast<int64_t>(out.size()) - 1))] = mutate(out[0]);
      if (chance(0.1)) out.push_back(out.empty() ? Value(1) : out[0]);
      return out;
    }
    return v;
  }

  std::mt19937_64 random_;
};

}  // namespace

TEST_CASE("random calls of ops return or throw a typed error") {
  const bool full = std::getenv("PELLUCID_TEST_LONG") != nullptr;
  const int count = full ? 300000 : 20000;
  set_memory_limit(int64_t{2} << 30);
  const std::vector<const OpDef*> ops = library_ops();
  std::vector<std::vector<Sample>> known;
  known.reserve(ops.size());
  for (const OpDef* op : ops) known.push_back(samples_of(*op).valid);
  Caller caller(12345);
  int returned = 0, refused = 0;
  for (int i = 0; i < count; ++i) {
    const auto which = static_cast<size_t>(caller.pick(0, static_cast<int64_t>(ops.size()) - 1));
    const OpDef& op = *ops[which];
    Sample s;
    s.op = &op;
    const Sample& like =
        known[which]
             [static_cast<size_t>(caller.pick(0, static_cast<int64_t>(known[which].size()) - 1))];
    const std::vector<Arg>& args = op.info->args;
    for (size_t k = 0; k < args.size(); ++k) {
      if (args[k].has_default && caller.chance(0.3)) continue;
      const Value* near = k < like.args.size() ? &like.args[k] : nullptr;
      for (const NamedValue& v : like.kwargs)
        if (v.name == args[k].name) near = &v.value;
      s.kwargs.push_back({args[k].name, caller.argument(args[k], near)});
    }
    INFO("call " << i << ": " << text(s));
    try {
      const bool in_place = op.info->has_in_place && caller.chance(0.3);
      if (in_place && op.info->is_view && !s.kwargs.empty())  // the sample keeps its own sizes
        if (const Tensor* self = s.kwargs[0].value.as<Tensor>(); self && self->defined())
          s.kwargs[0].value = self->alias();
      for (const Tensor& t : run(s, in_place))
        if (t.defined() && t.requires_grad() && t.numel() > 0 && t.numel() < 10000)
          t.sum().backward();
      ++returned;
    } catch (const Error&) { ++refused; }
  }
  set_memory_limit(0);
  MESSAGE(count << " random calls: " << returned << " returned, " << refused << " were refused");
  CHECK(returned > count / 10);
  CHECK(refused > count / 100);
  CHECK(tensors_of({.op = ops[0], .args = {ones({2, 2})}})[0].sum().item<double>() == 4);
}
