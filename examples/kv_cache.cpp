// What a cache of keys and values saves: one more token of attention with it and without, at
// several lengths. Times are this machine's.
#include <pellucid/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

template <class F> double best_milliseconds(const F& work) {
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto begun = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double, std::milli> taken =
        std::chrono::steady_clock::now() - begun;
    best = std::min(best, taken.count());
  }
  return best;
}

int main() {
  torch::manual_seed(0);
  const torch::NoGradGuard off;
  torch::nn::CachedAttention attention(512, 8);
  const torch::Tensor x = torch::randn({1, 256, 512});
  double largest = 0;
  attention->clear_cache();
  for (int64_t t = 0; t < 256; ++t) {  // token by token, against all at once
    const torch::Tensor one = attention(x.narrow(1, t, 1), /*use_cache=*/true);
    if (t % 32 != 31) continue;
    const torch::Tensor all = attention(x.narrow(1, 0, t + 1));
    largest = std::max(largest, (one - all.narrow(1, t, 1)).abs().max().item<double>());
  }
  std::printf("outputs with and without the cache differ by less than 1e-5: %s\n",
              largest < 1e-5 ? "yes" : "no");
  std::printf("tokens  cached ms  recomputed ms  ratio\n");
  for (const int64_t length : {32, 64, 128, 256}) {
    attention->clear_cache();
    attention(x.narrow(1, 0, length - 5), true);
    int64_t at = length - 5;  // the last five tokens, one at a time
    const double cached = best_milliseconds([&] { attention(x.narrow(1, at++, 1), true); });
    const double again = best_milliseconds([&] { attention(x.narrow(1, 0, length)); });
    std::printf("%6ld %10.3f %14.3f %6.1f\n", static_cast<long>(length), cached, again,
                again / cached);
  }
}
