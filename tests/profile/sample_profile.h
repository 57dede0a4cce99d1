// Profiles made by hand for the tests of what reads them: a builder that keeps a clock and a stack
// for each thread, the training of a small network, and random trees.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "pellucid/profile.h"

namespace pellucid::test {

using namespace pellucid::profile;

/// Builds a Profile event by event. Times are nanoseconds.
class ProfileBuilder {
 public:
  Profile p;

  explicit ProfileBuilder(int threads = 1)
      : clock_(static_cast<size_t>(threads)), open_(clock_.size()) {
    for (int i = 0; i < threads; ++i)
      p.threads.push_back({.process = 7, .id = 70 + i, .name = i == 0 ? "main" : "loader"});
    p.run = {.program = "./two_layer --steps 4",
             .version = "0.1.0",
             .started = "2026-11-16T10:00:00Z",
             .event_cost = 40,
             .recorded_bytes = 40};
    p.machine.threads = 2;
    p.machine.flops_all = 100e9;  // 100 FLOPs a nanosecond
    p.machine.flops_one = 50e9;
    p.machine.levels = {
        {"L1", 32'768, {}, {.read = 200e9, .write = 100e9, .copy = 100e9}},
        {"memory", int64_t{1} << 30, {}, {.read = 10e9, .write = 5e9, .copy = 8e9}}};
  }

  int32_t signature(Signature s) {
    p.signatures.push_back(std::move(s));
    return static_cast<int32_t>(p.signatures.size()) - 1;
  }
  int32_t scope(EventKind kind, const std::string& name) {
    return signature({.kind = kind, .name = name, .has_cost = true});
  }
  int32_t site(const std::string& file, int line, const std::string& function = "main") {
    p.sites.push_back({.file = file, .line = line, .function = function, .object = "two_layer"});
    return static_cast<int32_t>(p.sites.size()) - 1;
  }

  int32_t open(int32_t signature, int32_t site = -1, int32_t module = -1, int thread = 0) {
    auto& stack = open_[static_cast<size_t>(thread)];
    Event e{.begin = clock_[static_cast<size_t>(thread)],
            .signature = signature,
            .thread = thread,
            .site = site,
            .module = module};
    if (!stack.empty()) {
      e.parent = stack.back();
      e.phase = p.events[static_cast<size_t>(e.parent)].phase;
    }
    const EventKind kind = p.signatures[static_cast<size_t>(signature)].kind;
    if (kind == EventKind::Engine) e.phase = Phase::Backward;
    if (kind == EventKind::Optimizer) e.phase = Phase::Optimizer;
    p.events.push_back(e);
    stack.push_back(static_cast<int32_t>(p.events.size()) - 1);
    return stack.back();
  }
  void spend(int64_t nanoseconds, int thread = 0) {
    clock_[static_cast<size_t>(thread)] += nanoseconds;
  }
  int32_t close(int thread = 0) {
    auto& stack = open_[static_cast<size_t>(thread)];
    const int32_t i = stack.back();
    stack.pop_back();
    Event& e = p.events[static_cast<size_t>(i)];
    e.end = clock_[static_cast<size_t>(thread)];
    e.self += e.end - e.begin;
    if (!stack.empty()) p.events[static_cast<size_t>(stack.back())].self -= e.end - e.begin;
    return i;
  }
  int32_t op(int32_t signature, int64_t nanoseconds, int32_t site = -1, int32_t module = -1,
             int thread = 0) {
    open(signature, site, module, thread);
    spend(nanoseconds, thread);
    return close(thread);
  }
  int32_t innermost(int thread = 0) const {
    return open_[static_cast<size_t>(thread)].empty() ? -1
                                                      : open_[static_cast<size_t>(thread)].back();
  }

  size_t allocate(int64_t bytes, MemoryCategory category, int thread = 0) {
    const int32_t event = innermost(thread);
    p.allocations.push_back({.begin = clock_[static_cast<size_t>(thread)],
                             .bytes = bytes,
                             .event = event,
                             .thread = thread,
                             .category = category});
    if (event >= 0) p.events[static_cast<size_t>(event)].allocated += bytes;
    return p.allocations.size() - 1;
  }
  void release(size_t allocation, int thread = 0) {
    Allocation& a = p.allocations[allocation];
    a.end = clock_[static_cast<size_t>(thread)];
    a.freed_by = innermost(thread);
    if (a.freed_by >= 0) p.events[static_cast<size_t>(a.freed_by)].freed += a.bytes;
  }
  /// Closes what is open, as the end of a recording does, and states the peak.
  Profile finish(int64_t memory_at_start = 0) {
    for (size_t t = 0; t < open_.size(); ++t)
      while (!open_[t].empty())
        p.events[static_cast<size_t>(close(static_cast<int>(t)))].open = true;
    for (const int64_t c : clock_) p.run.duration = std::max(p.run.duration, c);
    p.run.memory_at_start = memory_at_start;
    return p;
  }

 private:
  std::vector<int64_t> clock_;
  std::vector<std::vector<int32_t>> open_;
};

inline TensorInfo tensor_info(std::vector<int64_t> sizes) {
  return {.dtype = kFloat32, .sizes = std::move(sizes)};
}

/// Some steps of training the network 1000-100-10 with batch 64: modules, forward, backward linked
/// to it, an optimiser, a loader's thread that waits, activations that backward frees, and an event
/// that the end of the recording interrupts. 4,440 bytes were alive before.
inline Profile two_layer_profile(int steps = 4, int64_t slower = 0) {
  ProfileBuilder b(2);
  const int32_t linear = b.signature(
      {.kind = EventKind::Op,
       .name = "linear",
       .op_kind = "contraction",
       .inputs = {tensor_info({64, 1000}), tensor_info({100, 1000}), tensor_info({100})},
       .outputs = {tensor_info({64, 100})},
       .flops = 12'806'400,
       .contraction_flops = 12'800'000,
       .bytes = 682'000,
       .has_cost = true});
  const int32_t linear2 =
      b.signature({.kind = EventKind::Op,
                   .name = "linear",
                   .op_kind = "contraction",
                   .inputs = {tensor_info({64, 100}), tensor_info({10, 100}), tensor_info({10})},
                   .outputs = {tensor_info({64, 10})},
                   .flops = 128'640,
                   .contraction_flops = 128'000,
                   .bytes = 32'000,
                   .has_cost = true});
  const int32_t relu = b.signature({.kind = EventKind::Op,
                                    .name = "relu",
                                    .op_kind = "pointwise",
                                    .inputs = {tensor_info({64, 100})},
                                    .outputs = {tensor_info({64, 100})},
                                    .flops = 6'400,
                                    .bytes = 51'200,
                                    .has_cost = true});
  const int32_t view = b.signature({.kind = EventKind::Op,
                                    .name = "t",
                                    .op_kind = "view",
                                    .inputs = {tensor_info({100, 1000})},
                                    .outputs = {tensor_info({1000, 100})},
                                    .has_cost = true});
  const int32_t matmul = b.signature({.kind = EventKind::Op,
                                      .name = "matmul",
                                      .op_kind = "contraction",
                                      .inputs = {tensor_info({100, 64}), tensor_info({64, 1000})},
                                      .outputs = {tensor_info({100, 1000})},
                                      .flops = 12'800'000,
                                      .contraction_flops = 12'800'000,
                                      .bytes = 681'600,
                                      .has_cost = true});
  const int32_t update = b.signature({.kind = EventKind::Op,
                                      .name = "sgd_step",
                                      .op_kind = "pointwise",
                                      .inputs = {tensor_info({100, 1000})},
                                      .flops = 200'000,
                                      .bytes = 1'200'000,
                                      .has_cost = true});
  const int32_t net = b.scope(EventKind::Module, "TwoLayer"),
                layer = b.scope(EventKind::Module, "Linear"),
                rectify = b.scope(EventKind::Module, "ReLU"),
                engine = b.scope(EventKind::Engine, "backward"),
                node = b.scope(EventKind::Backward, "LinearBackward0"),
                optimizer = b.scope(EventKind::Optimizer, "SGD.step"),
                wait = b.scope(EventKind::Wait, "DataLoader.next"),
                work = b.scope(EventKind::User, "load a batch");
  const int32_t forward_line = b.site("/src/two_layer.cpp", 24),
                backward_line = b.site("/src/two_layer.cpp", 26),
                step_line = b.site("/src/two_layer.cpp", 27),
                data_line = b.site("/src/two_layer.cpp", 22);
  b.p.modules = {{.name = "TwoLayer", .type = "TwoLayer"},
                 {.parent = 0,
                  .name = "linear1",
                  .path = "linear1",
                  .type = "Linear",
                  .parameters = 100'100,
                  .parameter_bytes = 400'400},
                 {.parent = 0, .name = "relu", .path = "relu", .type = "ReLU"},
                 {.parent = 0,
                  .name = "linear2",
                  .path = "linear2",
                  .type = "Linear",
                  .parameters = 1'010,
                  .parameter_bytes = 4'040}};
  for (int s = 0; s < steps; ++s) {
    b.open(work, -1, -1, 1);
    b.spend(90'000, 1);
    b.close(1);
    b.op(wait, 5'000, data_line);
    b.spend(1'000);  // the program itself
    b.open(net, forward_line, 0);
    b.spend(200);
    b.open(layer, forward_line, 1);
    b.op(view, 100, forward_line, 1);
    b.open(linear, forward_line, 1);
    const size_t hidden = b.allocate(25'600, MemoryCategory::Activation);
    b.spend(160'000 + slower);
    const int32_t first = b.close();
    b.close();
    b.open(rectify, forward_line, 2);
    b.open(relu, forward_line, 2);
    const size_t active = b.allocate(25'600, MemoryCategory::Activation);
    b.spend(4'000 + 10 * s);
    b.close();
    b.close();
    b.open(layer, forward_line, 3);
    b.open(linear2, forward_line, 3);
    const size_t out = b.allocate(2'560, MemoryCategory::Activation);
    b.spend(6'000);
    b.close();
    b.close();
    b.close();
    b.open(engine, backward_line);
    b.spend(300);
    const int32_t n = b.open(node, forward_line, 1);
    b.p.events[static_cast<size_t>(n)].forward = first;
    b.open(matmul, forward_line, 1);
    const size_t gradient = b.allocate(400'000, MemoryCategory::Gradient);
    b.spend(170'000);
    b.close();
    b.release(hidden);
    b.release(active);
    b.close();
    b.release(out);
    b.close();
    b.open(optimizer, step_line);
    b.op(update, 30'000, step_line);
    b.release(gradient);
    b.close();
  }
  b.open(net, forward_line, 0);
  b.open(linear, forward_line, 1);
  b.spend(50'000);
  Profile p = b.finish(4'440);
  p.run.peak_memory = 4'440 + 25'600 + 25'600 + 2'560 + 400'000;
  p.counters = {{.name = "page-faults", .value = 1234},
                {.name = "cycles", .missing = "the kernel gives none"}};
  return p;
}

/// A tree of random calls, among them recursive ones, on several threads that take turns.
inline Profile random_profile(uint32_t seed, int events, int threads = 3) {
  std::mt19937 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
  ProfileBuilder b(threads);
  for (int i = 0; i < 7; ++i)
    b.signature({.kind = i < 4 ? EventKind::Op : EventKind::User,
                 .name = fmt::format("f{}", i % 5),
                 .op_kind = "pointwise",
                 .flops = 10.0 * i,
                 .bytes = 4.0 * i,
                 .has_cost = true});
  for (int i = 0; i < 4; ++i) b.site("a.cpp", 10 + i / 2);
  b.p.modules = {{.name = "M", .type = "M"},
                 {.parent = 0, .name = "a", .path = "a", .type = "A"},
                 {.parent = 1, .name = "b", .path = "a.b", .type = "B"}};
  std::vector<int> depth(static_cast<size_t>(threads));
  std::vector<size_t> live;
  for (int i = 0; i < events; ++i) {
    const int t = below(threads);
    int& d = depth[static_cast<size_t>(t)];
    for (; d > 0 && (below(3) == 0 || d > 30); --d) {
      b.spend(below(50), t);
      b.close(t);
    }
    b.open(below(7), below(5) - 1, below(4) - 1, t);
    ++d;
    b.spend(below(100), t);
    if (below(3) == 0)
      live.push_back(
          b.allocate(1 + below(1000), static_cast<MemoryCategory>(below(kMemoryCategoryCount)), t));
    if (!live.empty() && below(4) == 0) {
      b.release(live.back(), b.p.allocations[live.back()].thread);
      live.pop_back();
    }
  }
  return b.finish(below(1000));
}

}  // namespace pellucid::test
