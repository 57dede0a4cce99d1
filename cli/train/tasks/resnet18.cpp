// ResNet-18 on pictures of MNIST's format, enlarged to the sizes that it was made for: 28 x 28
// becomes 48 x 48 by linear interpolation, and grey three equal channels.
#include <fmt/format.h>

#include <algorithm>

#include "cli/data/line_stream.h"
#include "cli/data/mnist_files.h"
#include "cli/train/classification.h"
#include "cli/train/task.h"
#include "pellucid/models.h"

namespace pellucid::cli::train {
namespace {

using data::datasets::MNIST;

constexpr size_t kResnetTestBatch = 250;

/// [to, from]: each row interpolates between two neighbours; pixels are areas, as in PyTorch with
/// align_corners=False.
Tensor interpolation(int64_t from, int64_t to) {
  const Tensor weights = zeros({to, from});
  for (int64_t i = 0; i < to; ++i) {
    const double at = std::clamp(
        (static_cast<double>(i) + 0.5) * static_cast<double>(from) / static_cast<double>(to) - 0.5,
        0.0, static_cast<double>(from - 1));
    const auto low = std::min(static_cast<int64_t>(at), from - 2);
    const double part = at - static_cast<double>(low);
    weights.raw<float>()[i * from + low] = static_cast<float>(1 - part);
    weights.raw<float>()[i * from + low + 1] = static_cast<float>(part);
  }
  return weights;
}

/// The first `count` examples, or all where it is 0.
MNIST first(const MNIST& set, int64_t count, MNIST::Mode mode) {
  const int64_t n = set.bytes().size(0);
  const int64_t keep = count == 0 ? n : std::min(count, n);
  return MNIST(set.bytes().narrow(0, 0, keep).squeeze(1), set.targets().narrow(0, 0, keep), mode);
}

class ResNet18Task final : public Task {
 public:
  void add_options(CommandLine& line) override {
    line.add_option("--images", images_, "Train on the first N pictures only; 0 for all")
        ->type_name("N")
        ->check(at_least(0))
        ->capture_default_str();
    line.add_option("--size", size_, "Height and width that pictures are enlarged to")
        ->type_name("PIXELS")
        ->check(in_range(28, 512))
        ->capture_default_str();
  }
  NamedValues settings() const override { return {{"images", images_}, {"size", size_}}; }

  void prepare(const TrainOptions& o, const Say& say) override {
    LineStream said(say);
    const MnistFiles files = find_or_fetch_mnist(o.data, said);
    train_.emplace(first(open_mnist(files, MNIST::Mode::kTrain), images_, MNIST::Mode::kTrain));
    test_.emplace(first(open_mnist(files, MNIST::Mode::kTest), images_, MNIST::Mode::kTest));
    say(fmt::format("{} pictures of {} x {} from {}, enlarged to {} x {}", *train_->size(),
                    train_->bytes().size(2), train_->bytes().size(3),
                    files.drawn() ? "the drawn digits" : files.folder, size_, size_));
    mark_ = mark_of(files, *train_);
    rows_ = interpolation(train_->bytes().size(2), size_);
    columns_ = interpolation(train_->bytes().size(3), size_).t().contiguous();
    const int64_t classes = train_->targets().max().item<int64_t>() + 1;
    model_ = models::resnet18(std::max<int64_t>(classes, 10));
  }
  std::string data_mark() const override { return mark_; }
  nn::Module& model() override { return *model_; }
  std::unique_ptr<Batches> batches(const TrainOptions& o) override {
    return make_batches(normalized_mnist(*train_), o, /*drop_last=*/true);
  }
  Tensor loss(const data::Example<>& batch) override {
    return cross_entropy_loss(model_(enlarged(batch.data)), batch.target);
  }
  Evaluation evaluate() override {
    return test_classifier(normalized_mnist(*test_), kResnetTestBatch,
                           [&](const Tensor& x) { return model_(enlarged(x)); });
  }

 private:
  /// [B, 1, H, W] to [B, 3, size, size].
  Tensor enlarged(const Tensor& x) const {
    const Tensor large = matmul(matmul(rows_, x), columns_);
    return large.expand({x.size(0), 3, size_, size_});
  }

  int64_t images_ = 0, size_ = 48;
  std::optional<MNIST> train_, test_;
  std::string mark_;
  Tensor rows_, columns_;
  models::ResNet model_{nullptr};
};

}  // namespace

const TaskInfo kResNet18{
    .name = "resnet18",
    .summary = "ResNet-18 on digits enlarged to 48 x 48",
    .description =
        "Trains ResNet-18 (11.2 million parameters, batch norm) on MNIST, whose pictures are "
        "enlarged from 28 x 28 to 48 x 48 by linear interpolation and repeated for the three "
        "channels. --data names a folder with four IDX files, which may be Fashion-MNIST's "
        "(Debian: dataset-fashion-mnist); without it MNIST is fetched as by `pellucid data mnist`.",
    .examples =
        "pellucid train resnet18\n"
        "pellucid train resnet18 --images 6000 --epochs 2\n"
        "pellucid train resnet18 --data /usr/share/dataset/fashion-mnist",
    .defaults = {.batch_size = 64,
                 .lr = 0.05,
                 .optimizer = "sgd",
                 .momentum = 0.9,
                 .weight_decay = 5e-4,
                 .schedule = "cosine",
                 .warmup = 50,
                 .log_interval = 50,
                 .save_every = 300},
    .first_batch = 0,
    .make = make_task<ResNet18Task>};

}  // namespace pellucid::cli::train
