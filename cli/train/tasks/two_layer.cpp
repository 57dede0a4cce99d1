// The two-layer net 1000-100-10 with ReLU on random data: one batch, learned by heart.
#include <fmt/format.h>

#include "cli/train/task.h"
#include "pellucid/models.h"
#include "pellucid/ops.h"

namespace pellucid::cli::train {
namespace {

/// The same batch `steps` times.
class OneBatch final : public Batches {
 public:
  OneBatch(data::Example<> batch, int64_t steps) : batch_(std::move(batch)), steps_(steps) {}
  void begin() override {
    if (done_ == steps_) done_ = 0;
  }
  const data::Example<>* next() override { return done_ == steps_ ? nullptr : (++done_, &batch_); }
  int64_t examples() const override { return steps_ * batch_.data.size(0); }
  int64_t count() const override { return steps_; }
  NamedValues state_dict() const override { return {{"batches", done_}}; }
  void load_state_dict(const NamedValues& values) override {
    const int64_t done = integer_of(values, "batches", "two-layer");
    PELLUCID_CHECK(done >= 0 && done <= steps_, ValueError,
                   "two-layer: an epoch has {} steps, but the checkpoint has done {}.", steps_,
                   done);
    done_ = done;
  }

 private:
  data::Example<> batch_;
  int64_t steps_, done_ = 0;
};

class TwoLayerTask final : public Task {
 public:
  void add_options(CommandLine& line) override {
    line.add_option("--steps", steps_, "Steps per epoch")
        ->type_name("N")
        ->check(at_least(1))
        ->capture_default_str();
  }
  NamedValues settings() const override { return {{"steps", steps_}}; }

  void prepare(const TrainOptions& o, const Say&) override {
    batch_ = {randn({o.batch_size, 1000}), randn({o.batch_size, 10})};
    model_ = models::mlp({1000, 100, 10});
  }
  nn::Module& model() override { return *model_; }
  std::unique_ptr<Batches> batches(const TrainOptions&) override {
    return std::make_unique<OneBatch>(batch_, steps_);
  }
  Tensor loss(const data::Example<>& batch) override {
    return nn::functional::mse_loss(model_->forward(batch.data), batch.target,
                                    nn::functional::MSELossFuncOptions(kSum));
  }

  std::string epoch_title(int64_t, int64_t) const override { return ""; }
  std::string progress_line(const StepReport& r) const override {
    return fmt::format("step {}, loss {:.4f}", r.step, r.loss);
  }

 private:
  int64_t steps_ = 500;
  data::Example<> batch_;
  nn::Sequential model_{nullptr};
};

}  // namespace

const TaskInfo kTwoLayer{
    .name = "two-layer",
    .summary = "The net 1000-100-10 on random data",
    .description =
        "Trains linear layers 1000-100-10 with ReLU between them (101,110 parameters) to map 64 "
        "random inputs to 64 random outputs, by the summed squared error. One epoch is 500 steps "
        "over the same batch.",
    .examples =
        "pellucid train two-layer\n"
        "pellucid train two-layer --steps 2000 --lr 5e-5 --log-interval 500",
    .defaults = {.batch_size = 64, .lr = 1e-4, .optimizer = "sgd", .seed = 0, .log_interval = 100},
    .make = make_task<TwoLayerTask>};

}  // namespace pellucid::cli::train
