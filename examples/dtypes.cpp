// What a data type costs: memory of a 1000 x 1000 tensor and the time of a matrix product, with the
// cast of integers inside. Times are this machine's.
#include <pellucid/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

int main() {
  std::printf("dtype      MiB  matmul ms\n");
  for (const torch::DType type : {torch::kFloat32, torch::kFloat64, torch::kFloat16, torch::kInt32,
                                  torch::kInt64, torch::kBool}) {
    const torch::Tensor x = torch::ones({1000, 1000}, type);
    double best = 1e9;
    for (int run = 0; run < 3; ++run) {
      const auto begun = std::chrono::steady_clock::now();
      const torch::Tensor wide = x.is_floating_point() ? x : x.to(torch::kFloat32);
      const torch::Tensor y = torch::matmul(wide, wide);
      const std::chrono::duration<double, std::milli> taken =
          std::chrono::steady_clock::now() - begun;
      best = std::min(best, taken.count());
    }
    std::printf("%-8s %5.2f %10.2f\n", std::string(torch::name_of(type)).c_str(),
                static_cast<double>(x.nbytes()) / (1 << 20), best);
  }
}
