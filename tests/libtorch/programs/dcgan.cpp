// A deep convolutional GAN on 28 x 28 images: noise to images, images to "real" or "made up", two
// optimisers, checkpoints of all four, and samples saved as tensors.
#include <cmath>
#include <cstdio>
#include <string>

#include "../libtorch.h"
#include "programs.h"

namespace nn = torch::nn;

namespace programs::dcgan_program {

const int64_t kNoiseSize = 20;
const int64_t kBatchSize = 16;
const double kLearningRate = 2e-4;
const double kBeta1 = 0.5;
const double kBeta2 = 0.999;

struct DCGANGeneratorImpl : nn::Module {
  DCGANGeneratorImpl(int kernel_size)
      : conv1(nn::ConvTranspose2dOptions(kernel_size, 32, 4).bias(false)),
        batch_norm1(32),
        conv2(nn::ConvTranspose2dOptions(32, 16, 3).stride(2).padding(1).bias(false)),
        batch_norm2(16),
        conv3(nn::ConvTranspose2dOptions(16, 8, 4).stride(2).padding(1).bias(false)),
        batch_norm3(8),
        conv4(nn::ConvTranspose2dOptions(8, 1, 4).stride(2).padding(1).bias(false)) {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
    register_module("conv3", conv3);
    register_module("conv4", conv4);
    register_module("batch_norm1", batch_norm1);
    register_module("batch_norm2", batch_norm2);
    register_module("batch_norm3", batch_norm3);
  }

  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(batch_norm1(conv1(x)));
    x = torch::relu(batch_norm2(conv2(x)));
    x = torch::relu(batch_norm3(conv3(x)));
    x = torch::tanh(conv4(x));
    return x;
  }

  nn::ConvTranspose2d conv1;
  nn::BatchNorm2d batch_norm1;
  nn::ConvTranspose2d conv2;
  nn::BatchNorm2d batch_norm2;
  nn::ConvTranspose2d conv3;
  nn::BatchNorm2d batch_norm3;
  nn::ConvTranspose2d conv4;
};
TORCH_MODULE(DCGANGenerator);

nn::Sequential make_discriminator() {
  return nn::Sequential(
      nn::Conv2d(nn::Conv2dOptions(1, 8, 4).stride(2).padding(1).bias(false)),
      nn::LeakyReLU(nn::LeakyReLUOptions().negative_slope(0.2)),
      nn::Conv2d(nn::Conv2dOptions(8, 16, 4).stride(2).padding(1).bias(false)), nn::BatchNorm2d(16),
      nn::LeakyReLU(nn::LeakyReLUOptions().negative_slope(0.2)),
      nn::Conv2d(nn::Conv2dOptions(16, 32, 4).stride(2).padding(1).bias(false)),
      nn::BatchNorm2d(32), nn::Functional(torch::leaky_relu, 0.2),
      nn::Conv2d(nn::Conv2dOptions(32, 1, 3).stride(1).padding(0).bias(false)), nn::Sigmoid());
}

}  // namespace programs::dcgan_program

programs::Run programs::dcgan(const std::string& data_root, const std::string& out,
                              int64_t batches) {
  using namespace dcgan_program;
  torch::manual_seed(1);
  torch::Device device(torch::kCPU);
  if (torch::cuda::is_available()) device = torch::Device(torch::kCUDA);

  DCGANGenerator generator(kNoiseSize);
  generator->to(device);
  nn::Sequential discriminator = make_discriminator();
  discriminator->to(device);

  auto dataset = torch::data::datasets::MNIST(data_root)
                     .map(torch::data::transforms::Normalize<>(0.5, 0.5))
                     .map(torch::data::transforms::Stack<>());
  const int64_t batches_per_epoch =
      std::ceil(dataset.size().value() / static_cast<double>(kBatchSize));
  auto data_loader = torch::data::make_data_loader(
      std::move(dataset), torch::data::DataLoaderOptions().batch_size(kBatchSize).workers(2));

  torch::optim::Adam generator_optimizer(
      generator->parameters(),
      torch::optim::AdamOptions(kLearningRate).betas(std::make_tuple(kBeta1, kBeta2)));
  torch::optim::Adam discriminator_optimizer(
      discriminator->parameters(),
      torch::optim::AdamOptions(kLearningRate).betas(std::make_tuple(kBeta1, kBeta2)));

  Run run;
  int64_t batch_index = 0;
  for (torch::data::Example<>& batch : *data_loader) {
    // Real images, with labels softened.
    discriminator->zero_grad();
    torch::Tensor real_images = batch.data.to(device);
    torch::Tensor real_labels = torch::empty(batch.data.size(0), device).uniform_(0.8, 1.0);
    torch::Tensor real_output = discriminator->forward(real_images).reshape(real_labels.sizes());
    torch::Tensor d_loss_real = torch::binary_cross_entropy(real_output, real_labels);
    d_loss_real.backward();

    // Made-up images, without a gradient to the generator.
    torch::Tensor noise = torch::randn({batch.data.size(0), kNoiseSize, 1, 1}, device);
    torch::Tensor fake_images = generator->forward(noise);
    torch::Tensor fake_labels = torch::zeros(batch.data.size(0), device);
    torch::Tensor fake_output =
        discriminator->forward(fake_images.detach()).reshape(fake_labels.sizes());
    torch::Tensor d_loss_fake = torch::binary_cross_entropy(fake_output, fake_labels);
    d_loss_fake.backward();
    torch::Tensor d_loss = d_loss_real + d_loss_fake;
    discriminator_optimizer.step();

    // The generator is to be taken for real.
    generator->zero_grad();
    fake_labels.fill_(1);
    fake_output = discriminator->forward(fake_images).reshape(fake_labels.sizes());
    torch::Tensor g_loss = torch::binary_cross_entropy(fake_output, fake_labels);
    g_loss.backward();
    generator_optimizer.step();

    if (batch_index == 0)
      std::printf("[%ld batches an epoch] D_loss: %.4f | G_loss: %.4f\n",
                  static_cast<long>(batches_per_epoch), d_loss.item<float>(), g_loss.item<float>());
    run.losses.push_back(d_loss.item<double>());
    if (++batch_index == batches) break;
  }

  torch::save(generator, torch::str(out, "/generator-checkpoint.pt"));
  torch::save(generator_optimizer, torch::str(out, "/generator-optimizer-checkpoint.pt"));
  torch::save(discriminator, torch::str(out, "/discriminator-checkpoint.pt"));
  torch::save(discriminator_optimizer, torch::str(out, "/discriminator-optimizer-checkpoint.pt"));
  generator->eval();
  torch::Tensor noise = torch::randn({4, kNoiseSize, 1, 1}, device);
  torch::Tensor samples = generator->forward(noise);
  torch::save((samples + 1.0) / 2.0, torch::str(out, "/dcgan-sample-", 1, ".pt"));

  DCGANGenerator again(kNoiseSize);
  torch::load(again, out + "/generator-checkpoint.pt");
  again->eval();
  torch::optim::Adam optimizer_again(again->parameters(), torch::optim::AdamOptions(1));
  torch::load(optimizer_again, out + "/generator-optimizer-checkpoint.pt");
  const auto& options =
      static_cast<torch::optim::AdamOptions&>(optimizer_again.param_groups()[0].options());
  TORCH_CHECK(options.lr() == kLearningRate && std::get<0>(options.betas()) == kBeta1,
              "the optimiser's options were not loaded");
  nn::Sequential discriminator_again = make_discriminator();
  torch::load(discriminator_again, out + "/discriminator-checkpoint.pt", device);
  torch::Tensor loaded;
  torch::load(loaded, out + "/dcgan-sample-1.pt");
  const torch::Tensor made_again = (again->forward(noise) + 1.0) / 2.0;
  TORCH_CHECK(made_again.equal(loaded), "a loaded generator makes another sample");
  run.result = (loaded * 2 - 1).abs().mean().item<double>();
  return run;
}
