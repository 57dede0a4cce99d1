// Gradient checkpointing: activations are dropped and computed again in backward. The gradients are
// the same bit for bit, and the peak of memory is lower.
#include <pellucid/torch.h>

#include <cstdio>

int main() {
  torch::manual_seed(0);
  torch::nn::Sequential layers;
  for (int i = 0; i < 8; ++i) {
    layers->push_back(torch::nn::Linear(256, 256));
    layers->push_back(torch::nn::GELU());
    layers->push_back(torch::nn::Dropout(0.1));
  }
  const torch::Tensor input = torch::randn({2048, 256}).requires_grad_();
  const auto run = [&](const torch::Tensor& x) { return layers->forward(x); };
  torch::Tensor gradients[2];
  double peaks[2];
  for (const int checkpointed : {0, 1}) {
    torch::manual_seed(1);  // the same dropout in both
    input.mutable_grad().reset();
    torch::reset_peak_memory_stats();
    const torch::Tensor y =
        checkpointed ? torch::autograd::checkpoint(run, input) : layers->forward(input);
    peaks[checkpointed] = static_cast<double>(torch::memory_stats().allocated);
    y.square().mean().backward();
    gradients[checkpointed] = input.grad().clone();
  }
  std::printf("equal bit for bit: %s\n", torch::equal(gradients[0], gradients[1]) ? "yes" : "no");
  std::printf("kept for backward: %.1f times less\n", peaks[0] / peaks[1]);
}
