// Calls that run side by side: the bits of eager calls on 1, 2 and 4 threads, random numbers,
// memory, exceptions, and several threads with one program.
#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "base/allocator.h"
#include "core/program.h"
#include "pellucid/autograd.h"
#include "pellucid/compile.h"
#include "pellucid/creation.h"
#include "pellucid/memory.h"
#include "pellucid/nn.h"
#include "pellucid/operators.h"
#include "pellucid/ops.h"
#include "pellucid/parallel.h"

namespace pellucid {
namespace {

// Whatever can run side by side does, on so many threads.
struct Forced {
  explicit Forced(int threads) : before(get_num_threads()) {
    detail::beside_rule = detail::BesideRule::Always;
    detail::ProgramCache::get().clear();
    set_num_threads(threads);
  }
  ~Forced() {
    detail::beside_rule = detail::BesideRule::Pays;
    detail::ProgramCache::get().clear();
    set_num_threads(before);
  }
  const int before;
};

Tensor two_products(const Tensor& x, const Tensor& y, const Tensor& z) {
  return (matmul(x, y) + 100) + (matmul(x, z) + 1000);
}

TEST_CASE("beside: two products, with the bits of eager calls on 1, 2 and 4 threads") {
  const NoGradGuard off;
  const Tensor x = rand({64, 64}), y = rand({64, 64}), z = rand({64, 64});
  const Tensor expected = two_products(x, y, z);
  for (const int threads : {1, 2, 4}) {
    const Forced forced(threads);
    auto f = compile(two_products, CompileMode::Always);
    for (int i = 0; i < 6; ++i) CHECK(f(x, y, z).equal(expected));
    auto sealed = compile(two_products).seal();
    for (int i = 0; i < 6; ++i) CHECK(sealed(x, y, z).equal(expected));
    const Explanation e = f.explain(x, y, z);
    REQUIRE(e.beside.size() == (threads > 1 ? 1 : 0));
    if (threads == 1) continue;
    CHECK(e.beside[0].threads == 2);
    CHECK(e.beside[0].refused.empty());
    CHECK(e.beside[0].beside_seconds < e.beside[0].serial_seconds);
    CHECK(e.text().find("side by side on 2 threads: mm, add, mm, add, add; foreseen") !=
          std::string::npos);
  }
}

// Heads of several kinds over one input: products, rows, random numbers, views.
Tensors heads(const Tensor& x, const Tensors& w) {
  Tensors out;
  for (size_t i = 0; i < w.size(); ++i) {
    Tensor h = matmul(x, w[i]);
    if (i % 3 == 0) h = softmax(h * 0.5, -1);
    if (i % 3 == 1) h = dropout(gelu(h), 0.4, true);
    if (i % 3 == 2) h = matmul(h.t(), h).tanh() + static_cast<double>(i);
    out.push_back(h);
  }
  out.push_back(out[0].sum() + out[1].mean());
  return out;
}

TEST_CASE("beside: random numbers, views and rows are those of eager calls") {
  const NoGradGuard off;
  const Tensor x = rand({40, 33});
  Tensors w;
  for (int i = 0; i < 9; ++i) w.push_back(rand({33, 40}));
  for (const int threads : {1, 2, 4}) {
    const Forced forced(threads);
    auto f = compile(heads, CompileMode::Always);
    auto sealed = compile(heads).seal();
    for (int i = 0; i < 8; ++i) {
      manual_seed(i);
      const Tensors expected = heads(x, w);
      manual_seed(i);
      const Tensors captured = f(x, w);
      manual_seed(i);
      const Tensors replayed = sealed(x, w);
      for (size_t k = 0; k < expected.size(); ++k) {
        CAPTURE(k);
        CHECK(captured[k].equal(expected[k]));
        CHECK(replayed[k].equal(expected[k]));
      }
    }
  }
}

TEST_CASE("beside: gradients of small layers, weights beside data") {
  const auto run = [](bool compiled) {
    manual_seed(5);
    nn::Sequential net(nn::Linear(32, 48), nn::GELU(), nn::Linear(48, 48), nn::Tanh(),
                       nn::Linear(48, 8));
    const auto step = [&](const Tensor& x) {
      net->forward(x).square().mean().backward();
      Tensors out;
      for (const Tensor& p : net->parameters()) out.push_back(p.grad());
      net->zero_grad();
      return out;
    };
    auto f = compile(step, CompileMode::Always);
    Tensors seen;
    for (int i = 0; i < 5; ++i) {
      const Tensor x = randn({24, 32});
      for (const Tensor& g : compiled ? f(x) : step(x)) seen.push_back(g.clone());
    }
    return seen;
  };
  const Tensors expected = run(false);
  for (const int threads : {2, 4}) {
    const Forced forced(threads);
    const Tensors seen = run(true);
    for (size_t i = 0; i < expected.size(); ++i) CHECK(seen[i].equal(expected[i]));
  }
}

TEST_CASE("beside: the plan counts the memory of all threads") {
  const NoGradGuard off;
  const Forced forced(2);
  const Tensor x = rand({64, 64});
  Tensors w;
  for (int i = 0; i < 6; ++i) w.push_back(rand({64, 64}));
  auto f = compile(
      [](const Tensor& in, const Tensors& weights) {
        Tensor sum;
        for (const Tensor& v : weights) {
          const Tensor h = matmul(matmul(matmul(in, v).tanh(), v).tanh(), v);
          sum = sum.defined() ? sum + h : h;
        }
        return sum;
      },
      CompileMode::Always);
  for (int i = 0; i < 4; ++i) f(x, w);
  const int64_t planned = f.explain(x, w).peak_bytes;
  reset_peak_memory_stats();
  const int64_t before = memory_stats().allocated;
  const Tensor y = f(x, w);
  const int64_t used = memory_stats().peak - before;
  CHECK(used <= planned);
  CHECK(used >= planned / 2);
}

TEST_CASE(
    "beside: an exception in a branch is the one that eager calls throw, and nothing is lost") {
  const NoGradGuard off;
  const Tensor table = rand({50, 64}), w = rand({64, 64}), x = rand({64, 64});
  const auto f = [&](const Tensor& i) {
    const Tensor a = matmul(embedding(table, i), w).tanh();
    const Tensor b = matmul(x, w).tanh();
    return std::make_pair(a + 1, b * 2);
  };
  const Forced forced(2);
  auto sealed = compile(f).seal();
  for (int k = 0; k < 6; ++k) {
    const Tensor good = full({64}, k, kInt64);
    const auto expected = f(good);
    const auto found = sealed(good);
    CHECK(found.first.equal(expected.first));
    CHECK(found.second.equal(expected.second));
    CHECK_THROWS_AS(sealed(full({64}, 50 + k, kInt64)), IndexError);
  }
}

TEST_CASE("beside: several threads run one program, and each other's sections") {
  const NoGradGuard off;
  const Tensor x = rand({48, 48}), y = rand({48, 48}), z = rand({48, 48});
  const Tensor expected = two_products(x, y, z);
  const Forced forced(2);
  auto f = compile(two_products, CompileMode::Always);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      const NoGradGuard none;
      for (int i = 0; i < 30; ++i) wrong += !f(x, y, z).equal(expected);
    });
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace pellucid
