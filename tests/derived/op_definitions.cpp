// Tests derived from the op definitions: whatever holds for every op is stated once, here.
#include <doctest/doctest.h>

#include "base/cpu.h"
#include "base/random.h"
#include "derived/support.h"
#include "pellucid/memory.h"
#include "pellucid/parallel.h"

using namespace pellucid;
using namespace pellucid::test;

TEST_SUITE_BEGIN("derived");

TEST_CASE("every op is whole: samples, cost, a vjp or the statement that there is none") {
  for (const OpDef* op : library_ops()) {
    INFO(op->schema);
    CHECK(!op->doc.empty());
    CHECK(static_cast<bool>(op->samples));
    CHECK(!samples_of(*op).valid.empty());
    if (op->compose) continue;
    CHECK(static_cast<bool>(op->cost));
    CHECK(static_cast<bool>(op->vjp));
    CHECK(static_cast<bool>(op->infer));
  }
}

TEST_CASE("every op: valid samples run, and give the same bits twice") {
  for (const OpDef* op : library_ops())
    for (const Sample& s : samples_of(*op).valid) {
      INFO(text(s));
      Tensors first, second;
      default_generator().manual_seed(1);
      REQUIRE_NOTHROW(first = run(s));
      default_generator().manual_seed(1);
      REQUIRE_NOTHROW(second = run(s));
      REQUIRE(first.size() == second.size());
      if (!has_defined_values(*op)) continue;
      for (size_t i = 0; i < first.size(); ++i) CHECK(same_bits(first[i], second[i]));
    }
}

TEST_CASE("every op: vjp matches finite differences") {
  for (const OpDef* op : library_ops()) {
    if (op->vjp == no_gradient) continue;
    for (const Sample& s : samples_of(*op).valid) {
      if (!s.gradients) continue;
      const Differentiable d = differentiable(s);
      if (d.inputs.empty()) continue;
      INFO(text(s));
      // Random ops: the same numbers in every evaluation.
      const auto f = [&](const autograd::variable_list& in) {
        default_generator().manual_seed(7);
        return d.f(in);
      };
      bool any = false;
      for (const Tensor& t : f(d.inputs)) any |= t.requires_grad();
      if (!any) continue;
      CHECK_NOTHROW(autograd::gradcheck(f, d.inputs));
    }
  }
}

TEST_CASE("every op: the gradient's gradient matches finite differences") {
  for (const OpDef* op : library_ops()) {
    if (op->vjp == no_gradient) continue;
    for (const Sample& s : samples_of(*op).valid) {
      if (!s.gradients) continue;
      const Differentiable d = differentiable(s);
      if (d.inputs.empty()) continue;
      INFO(text(s));
      const auto f = [&](const autograd::variable_list& in) {
        default_generator().manual_seed(7);
        return d.f(in);
      };
      bool any = false;
      for (const Tensor& t : f(d.inputs)) any |= t.requires_grad();
      if (!any) continue;
      CHECK_NOTHROW(autograd::gradgradcheck(f, d.inputs, 1e-6, 1e-4, 1e-3));
    }
  }
}

TEST_CASE("every op: failing samples throw what they say and change nothing") {
  for (const OpDef* op : library_ops())
    for (const Sample& s : samples_of(*op).failing) {
      INFO(text(s));
      Tensors before;
      for (const Tensor& t : tensors_of(s)) before.push_back(t.clone());
      std::string message;
      try {
        run(s);
      } catch (const Error& e) { message = e.what(); }
      INFO("message: " << message);
      CHECK(!message.empty());
      CHECK(message.find(s.error) != std::string::npos);
      const Tensors after = tensors_of(s);
      for (size_t i = 0; i < before.size(); ++i) CHECK(same_bits(before[i], after[i]));
    }
}

TEST_CASE("every op: inputs with gaps and in another order give the same result") {
  const auto with_gaps = [](const Tensor& t) {
    if (t.dim() == 0 || t.impl().wrapped_number) return t;
    Dims sizes(t.sizes());
    sizes.back() = sizes.back() * 2 + 1;
    const Tensor wide = zeros(sizes, t.dtype());
    Tensor view = wide.slice(-1, 1, std::nullopt, 2);
    view.copy_(t);
    return view;
  };
  const auto turned = [](const Tensor& t) {
    if (t.dim() < 2 || t.impl().wrapped_number) return t;
    return t.transpose(0, -1).contiguous().transpose(0, -1);
  };
  for (const OpDef* op : library_ops()) {
    // What is about strides themselves answers differently by design.
    if (op->info->name.starts_with("as_strided") || op->info->name == "view" ||
        !has_defined_values(*op))
      continue;
    for (const Sample& s : samples_of(*op).valid) {
      INFO(text(s));
      default_generator().manual_seed(1);
      const Tensors plain = run(s);
      for (const Map& f : {Map(with_gaps), Map(turned)}) {
        default_generator().manual_seed(1);
        Tensors other;
        REQUIRE_NOTHROW(other = run(map_tensors(s, f)));
        REQUIRE(other.size() == plain.size());
        for (size_t i = 0; i < plain.size(); ++i) CHECK(close(other[i], plain[i], 1e-9, 1e-11));
      }
    }
  }
}

TEST_CASE(
    "every op: float32 and 16-bit floats agree with float64, or are refused with a TypeError") {
  for (const OpDef* op : library_ops()) {
    if (op->kind == OpKind::Random || op->random_count || !has_defined_values(*op)) continue;
    if (op->info->name == "nan_to_num")
      continue;  // puts the dtype's own largest value for infinity
    for (const Sample& s : samples_of(*op).valid)
      for (DType type : {kFloat32, kBFloat16, kFloat16}) {
        INFO(text(s) << " in " << name_of(type));
        const auto narrow = [type](const Tensor& t) {
          return t.dtype() == kFloat64 && !t.impl().wrapped_number ? t.to(type) : t;
        };
        const auto widen = [type](const Tensor& t) {
          return t.dtype() == kFloat64 && !t.impl().wrapped_number ? t.to(type).to(kFloat64) : t;
        };
        Tensors exact, got;
        try {
          default_generator().manual_seed(1);
          exact = run(map_tensors(s, widen));  // the same rounded inputs, in float64
          default_generator().manual_seed(1);
          got = run(map_tensors(s, narrow));
        } catch (const TypeError&) { continue; }
        REQUIRE(got.size() == exact.size());
        const double rtol = type == kFloat32 ? 2e-4 : type == kFloat16 ? 2e-2 : 5e-2;
        for (size_t i = 0; i < got.size(); ++i)
          CHECK(close(got[i], exact[i], rtol, type == kFloat32 ? 2e-5 : rtol));
      }
  }
}

TEST_CASE("every op: the in-place form gives what the plain form gives") {
  for (const OpDef* op : library_ops()) {
    if (!op->info->has_in_place) continue;
    for (const Sample& s : samples_of(*op).valid) {
      INFO(text(s) << " in place");
      default_generator().manual_seed(1);
      const Tensors plain = run(s);
      const Sample own =
          map_tensors(s, [](const Tensor& t) { return t.impl().wrapped_number ? t : t.clone(); });
      const Tensor* self = own.args.empty() ? nullptr : own.args[0].as<Tensor>();
      if (op->info->is_view) {
        const void* data = self->const_data_ptr();
        run(own, true);
        CHECK(self->const_data_ptr() == data);
        CHECK(self->sizes() == plain[0].sizes());
        CHECK(close(*self, plain[0], 0, 0));
        continue;
      }
      if (!self || plain[0].sizes() != self->sizes() ||
          !can_cast(plain[0].dtype(), self->dtype())) {
        CHECK_THROWS_AS(run(own, true), Error);
        continue;
      }
      const uint32_t version = self->_version();
      default_generator().manual_seed(1);
      Tensors changed;
      REQUIRE_NOTHROW(changed = run(own, true));
      CHECK(changed[0].is_same(*self));
      CHECK(self->_version() > version);
      CHECK(close(*self, plain[0].to(self->dtype()), 0, 0));
    }
  }
}

TEST_CASE("every op: 1, 2 and 4 threads give the same bits") {
  const int before = get_num_threads();
  for (const OpDef* op : library_ops()) {
    if (!has_defined_values(*op)) continue;
    for (const Sample& s : samples_of(*op).valid) {
      INFO(text(s));
      Tensors one;
      for (int threads : {1, 2, 4}) {
        set_num_threads(threads);
        default_generator().manual_seed(1);
        const Tensors got = run(s);
        if (threads == 1) one = got;
        for (size_t i = 0; i < got.size(); ++i) CHECK(same_bits(got[i], one[i]));
      }
    }
  }
  set_num_threads(before);
}

TEST_CASE("every op: each ISA level agrees with the baseline") {
  for (const OpDef* op : library_ops()) {
    if (!has_defined_values(*op)) continue;
    for (const Sample& s : samples_of(*op).valid) {
      INFO(text(s));
      Tensors baseline;
      for (Isa level : available_isas()) {
        const IsaGuard guard(level);
        default_generator().manual_seed(1);
        const Tensors got = run(s);
        if (baseline.empty()) baseline = got;
        for (size_t i = 0; i < got.size(); ++i) {
          const double tolerance = got[i].dtype() == kFloat32 ? 1e-5 : 1e-11;
          CHECK(close(got[i], baseline[i], tolerance, tolerance));
        }
      }
    }
  }
}

TEST_CASE("every op: nothing is left allocated, with and without gradients") {
  for (const OpDef* op : library_ops()) {
    const auto twice = [&] {
      for (const Sample& s : samples_of(*op).valid) {
        const Sample leaves = map_tensors(s, [](const Tensor& t) {
          return t.is_floating_point() && !t.impl().wrapped_number ? t.detach().requires_grad_()
                                                                   : t;
        });
        try {
          for (const Tensor& t : run(leaves))
            if (t.requires_grad() && t.numel() > 0) t.sum().backward();
        } catch (const AutogradError&) {
          continue;  // an argument that the op changes may not be a leaf; or there is no derivative
        }
      }
    };
    INFO(op->schema);
    twice();  // caches fill
    const int64_t before = memory_stats().allocated;
    twice();
    CHECK(memory_stats().allocated == before);
  }
}

TEST_SUITE_END();
