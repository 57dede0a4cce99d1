// Ops that memory bounds, at 4096x1024 float32, and what bounds them: a plain loop that moves the
// same bytes, and, for transcendental ops, the rate of the same op in cache on one thread.
#include <omp.h>

#include "cases.h"

namespace pellucid::bench {
namespace {

constexpr int64_t kRows = 4096, kColumns = 1024, kCount = kRows * kColumns;
constexpr int64_t kInCache = 16384;

// The loops are compiled for newer CPUs too: what a program built for this machine would do.
#define CLONES                                                \
  __attribute__((target_clones("avx512f", "avx2", "default"), \
                 optimize("no-tree-loop-distribute-patterns")))

CLONES void copy_loop(const float* a, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = a[i];
}
CLONES void add_loop(const float* a, const float* b, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = a[i] + b[i];
}
CLONES float sum_loop(const float* a, int64_t n) {
  constexpr int kLanes = 128;  // enough independent sums to hide the addition's latency
  float lanes[kLanes] = {};
  for (int64_t i = 0; i + kLanes <= n; i += kLanes)
    for (int k = 0; k < kLanes; ++k) lanes[k] += a[i + k];
  float total = 0;
  for (float v : lanes) total += v;
  return total;
}

// Calls f(begin, count) once a thread.
template <class F> void each_thread(F f) {
#pragma omp parallel
  {
    const int64_t threads = omp_get_num_threads(), me = omp_get_thread_num();
    const int64_t begin = kCount / 64 * me / threads * 64,
                  end = kCount / 64 * (me + 1) / threads * 64;
    f(begin, end - begin);
  }
}

Tensor image() { return randn({kRows, kColumns}); }

// 512 MiB, more than caches hold: what decoding does with a model's weights.
Work large_read() {
  constexpr int64_t kImages = 32;
  const Tensor a = zeros({kImages, kRows, kColumns});
  auto sink = std::make_shared<float>();
  return {.once = [=] {
    for (int64_t image = 0; image < kImages; ++image)
      each_thread([&](int64_t i, int64_t n) {
        const float total = sum_loop(a.raw<float>() + image * kCount + i, n);
#pragma omp atomic
        *sink += total;
      });
  }};
}

void add_loops(Cases& cases) {
  cases.push_back({"plain/read_512MiB", large_read});
  cases.push_back({"plain/copy", [] {
                     const Tensor a = image(), out = empty_like(a);
                     return Work{.once = [=] {
                       each_thread([&](int64_t i, int64_t n) {
                         copy_loop(a.raw<float>() + i, out.raw<float>() + i, n);
                       });
                     }};
                   }});
  cases.push_back({"plain/add", [] {
                     const Tensor a = image(), b = image(), out = empty_like(a);
                     return Work{.once = [=] {
                       each_thread([&](int64_t i, int64_t n) {
                         add_loop(a.raw<float>() + i, b.raw<float>() + i, out.raw<float>() + i, n);
                       });
                     }};
                   }});
  cases.push_back({"plain/read", [] {
                     const Tensor a = image();
                     auto sink = std::make_shared<float>();
                     return Work{.once = [=] {
                       each_thread([&](int64_t i, int64_t n) {
                         const float total = sum_loop(a.raw<float>() + i, n);
#pragma omp atomic
                         *sink += total;
                       });
                     }};
                   }});
}

// An op by name with one floating input.
std::function<Tensor(const Tensor&)> unary(const std::string& name) {
  return [name](const Tensor& x) {
    const Value arg(x);
    return invoke(name, {&arg, 1})[0].tensor();
  };
}

// The op on values that stay in cache, on one thread: its rate without memory.
Work in_cache(const Tensor& x, const std::function<Tensor(const Tensor&)>& f) {
  auto kept = std::make_shared<Tensor>();
  return {.once =
              [=] {
                const int before = get_num_threads();
                set_num_threads(1);
                for (int i = 0; i < 100; ++i) {
                  kept->reset();
                  *kept = f(x);
                }
                set_num_threads(before);
              },
          .inputs = {x},
          .results = [kept] { return std::vector<Tensor>{*kept}; },
          .steps = 100};
}

}  // namespace

void add_memory_cases(Cases& cases) {
  add_loops(cases);
  cases.push_back({"image/copy", [] {
                     const Tensor a = image(), out = empty_like(a);
                     return Work{.once = [=] { out.copy_(a); },
                                 .inputs = {a},
                                 .results = [out] { return std::vector<Tensor>{out}; }};
                   }});
  cases.push_back({"image/add", [] {
                     const Tensor a = image(), b = image();
                     return reusing({a, b}, [=] { return add(a, b); });
                   }});
  cases.push_back({"image/mul", [] {
                     const Tensor a = image(), b = image();
                     return reusing({a, b}, [=] { return mul(a, b); });
                   }});
  cases.push_back({"image/relu", [] {
                     const Tensor a = image();
                     return reusing({a}, [=] { return relu(a); });
                   }});
  cases.push_back({"image/sum", [] {
                     const Tensor a = image();
                     return reusing({a}, [=] { return a.sum(); });
                   }});
  cases.push_back({"image/mean", [] {
                     const Tensor a = image();
                     return reusing({a}, [=] { return a.mean(); });
                   }});
  cases.push_back({"image/amax", [] {
                     const Tensor a = image();
                     return reusing({a}, [=] { return a.amax(); });
                   }});
  cases.push_back({"image/sum_rows", [] {
                     const Tensor a = image();
                     return reusing({a}, [=] { return a.sum({1}); });
                   }});
  cases.push_back({"image/sum_columns", [] {
                     const Tensor a = image();
                     return reusing({a}, [=] { return a.sum({0}); });
                   }});
  cases.push_back({"image/softmax", [] {
                     const Tensor a = image();
                     return reusing({a}, [=] { return softmax(a, -1); });
                   }});
  cases.push_back({"image/layer_norm", [] {
                     const Tensor a = image(), w = randn({kColumns}), b = randn({kColumns});
                     return reusing({a, w, b}, [=] { return layer_norm(a, {kColumns}, w, b); });
                   }});
  for (const char* name : {"exp", "log", "tanh", "sigmoid", "gelu", "silu", "erf", "sin", "cos",
                           "log1p", "expm1", "mish", "softplus"}) {
    const auto f = unary(name);
    const bool positive = std::string(name).starts_with("log");
    const auto input = [positive](IntArrayRef sizes) {
      return positive ? rand(sizes) + 0.01 : randn(sizes);
    };
    cases.push_back({std::string("image/") + name, [=] {
                       const Tensor a = input({kRows, kColumns});
                       return reusing({a}, [=] { return f(a); });
                     }});
    cases.push_back(
        {std::string("in_cache/") + name, [=] { return in_cache(input({kInCache}), f); }});
  }
}

}  // namespace pellucid::bench
