// The two-layer net 1000-100-10 with ReLU: 500 steps of gradient descent on random data.
#include <pellucid/torch.h>

#include <cstdio>

int main() {
  torch::manual_seed(0);
  const torch::Tensor x = torch::randn({64, 1000}), y = torch::randn({64, 10});
  torch::nn::Sequential model(torch::nn::Linear(1000, 100), torch::nn::ReLU(),
                              torch::nn::Linear(100, 10));
  int64_t parameters = 0;
  for (const torch::Tensor& p : model->parameters()) parameters += p.numel();
  std::printf("parameters: %ld\n", static_cast<long>(parameters));
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(1e-4));
  for (int step = 0; step < 500; ++step) {
    const torch::Tensor loss = torch::nn::functional::mse_loss(
        model->forward(x), y, torch::nn::functional::MSELossFuncOptions(torch::kSum));
    if (step % 100 == 99) std::printf("step %d, loss %.4f\n", step + 1, loss.item<double>());
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  }
}
