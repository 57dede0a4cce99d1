// The CNN of PyTorch's MNIST example: digits of 28 x 28, ten classes.
#include <fmt/format.h>

#include "cli/data/line_stream.h"
#include "cli/data/mnist_files.h"
#include "cli/train/classification.h"
#include "cli/train/task.h"
#include "pellucid/models.h"
#include "pellucid/ops.h"

namespace pellucid::cli::train {
namespace {

using data::datasets::MNIST;

constexpr size_t kMnistTestBatch = 500;

class MnistTask final : public Task {
 public:
  void prepare(const TrainOptions& o, const Say& say) override {
    LineStream said(say);
    const MnistFiles files = find_or_fetch_mnist(o.data, said);
    say(fmt::format("reading {}", files.drawn() ? "the drawn digits" : files.folder));
    train_.emplace(open_mnist(files, MNIST::Mode::kTrain));
    test_.emplace(open_mnist(files, MNIST::Mode::kTest));
    mark_ = mark_of(files, *train_);
    model_ = models::MnistCnn();
  }
  std::string data_mark() const override { return mark_; }
  nn::Module& model() override { return *model_; }
  std::unique_ptr<Batches> batches(const TrainOptions& o) override {
    return make_batches(normalized_mnist(*train_), o);
  }
  Tensor loss(const data::Example<>& batch) override {
    return nll_loss(model_(batch.data), batch.target);
  }

  Evaluation evaluate() override {
    return test_classifier(normalized_mnist(*test_), kMnistTestBatch,
                           [&](const Tensor& x) { return model_(x); });
  }

 private:
  std::optional<MNIST> train_, test_;
  std::string mark_;
  models::MnistCnn model_{nullptr};
};

}  // namespace

const TaskInfo kMnist{
    .name = "mnist",
    .summary = "The CNN of PyTorch's MNIST example",
    .description =
        "Trains two convolutions and two linear layers (1,199,882 parameters, dropout) on the "
        "60,000 digits of MNIST and tests on 10,000 others after every epoch. The files are "
        "fetched once, as by `pellucid data mnist`; --data names a folder that has them (four IDX "
        "files, plain or gzipped), or is `drawn` for digits that this program draws itself.",
    .examples =
        "pellucid train mnist\n"
        "pellucid train mnist --epochs 3 --out runs/digits\n"
        "pellucid train mnist --resume --out runs/digits --epochs 5\n"
        "pellucid train mnist --optimizer sgd --lr 0.01 --momentum 0.9 --warmup 0",
    .defaults = {.batch_size = 64,
                 .lr = 3e-3,
                 .optimizer = "adam",
                 .schedule = "cosine",
                 .warmup = 100,
                 .log_interval = 100},
    .first_batch = 0,
    .make = make_task<MnistTask>};

}  // namespace pellucid::cli::train
