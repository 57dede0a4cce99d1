// The training loop: steps, lines, saves, signals and the end of epochs.
#include "cli/train/engine.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <csignal>
#include <filesystem>

#include "cli/text.h"
#include "cli/train/nonfinite.h"
#include "cli/train/progress.h"
#include "cli/train/run_log.h"
#include "cli/train/signals.h"
#include "pellucid/autograd.h"
#include "pellucid/compile.h"
#include "pellucid/creation.h"
#include "pellucid/io/safetensors.h"
#include "pellucid/nn/utils.h"
#include "pellucid/recorder.h"

namespace pellucid::cli::train {
namespace {

using Clock = Progress::Clock;

constexpr double kFlushSeconds = 1;  // how long metrics may wait in memory

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

/// How far a run has come; part of its checkpoint.
struct Position {
  int64_t epoch = 0, batch = 0, step = 0;  ///< batch: those done in this epoch
  double loss_sum = 0;                     ///< over the batches of this epoch
};

class Run {
 public:
  Run(const Args& args, Request request)
      : request_(std::move(request)),
        options_(request_.options),
        task_(*request_.task),
        progress_(args, request_.info->name, request_.json) {}

  int go() {
    set_up();
    const SignalWatch watch;
    try {
      while (at_.epoch < options_.epochs) run_epoch();
    } catch (const Stopped&) { return stop(); }
    finish();
    return 0;
  }

 private:
  void set_up();
  void load(const io::Checkpoint& c);
  void run_epoch();
  void take_step(const data::Example<>& batch);
  void report(double loss, int64_t samples);
  void end_epoch();
  void save();
  int stop();
  void finish();
  [[noreturn]] void refuse(const std::string& what, int64_t step, const std::string& why) const;

  double learning_rate() const { return optimizer_->param_groups()[0].options().get_lr(); }
  double rate() const { return seconds_ > 0 ? static_cast<double>(samples_) / seconds_ : 0; }

  Request request_;
  const TrainOptions& options_;
  Task& task_;
  Progress progress_;
  std::unique_ptr<Batches> batches_;
  std::vector<Tensor> parameters_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<optim::LRScheduler> schedule_;
  std::unique_ptr<RunLog> log_;
  pellucid::detail::CompileTrials trials_{CompileOptions{}};
  Position at_;
  std::optional<int64_t> saved_step_;  ///< of the checkpoint on disk
  Clock::time_point last_, flushed_;
  double seconds_ = 0;   ///< spent on steps by this process
  int64_t samples_ = 0;  ///< trained on by this process
};

void Run::set_up() {
  manual_seed(options_.seed);
  task_.prepare(options_, [this](const std::string& m) { progress_.say(m); });
  nn::Module& model = task_.model();
  parameters_ = model.parameters();
  batches_ = task_.batches(options_);
  optimizer_ = task_.optimizer(options_);
  schedule_ = task_.schedule(options_, *optimizer_, options_.epochs * batches_->count());
  int64_t count = 0;
  for (const Tensor& p : parameters_) count += p.numel();
  progress_.say(fmt::format("{}: {} parameters, {} steps of {} examples per epoch, {}, lr {:g}",
                            request_.info->name, group_digits(count),
                            group_digits(batches_->count()), options_.batch_size,
                            options_.optimizer, options_.lr));
  if (request_.checkpoint)
    load(*request_.checkpoint);
  else
    log_ = std::make_unique<RunLog>(options_.out);
  request_.checkpoint.reset();
  profile::state_fact("run_folder", std::filesystem::absolute(options_.out).string());
}

void Run::load(const io::Checkpoint& c) {
  const Value* mark = find_value(c.progress, "data");  // checkpoints of older versions have none
  PELLUCID_CHECK(!mark || mark->toStringRef() == task_.data_mark(), ValueError,
                 "the run in {} started with other data ({}; now {}): give its --data (drawn for "
                 "drawn digits), or start another run with another --out.",
                 options_.out, mark->toStringRef(), task_.data_mark());
  task_.model().load_state_dict(io::dict_of<nn::StateDict>(c.model));
  optimizer_->load_state_dict(c.optimizer);
  if (schedule_) schedule_->load_state_dict(c.scheduler);
  batches_->load_state_dict(c.loader);
  const auto integer = [&](const char* name) { return integer_of(c.progress, name, "train"); };
  at_ = {integer("epoch"), integer("batch"), integer("step"),
         number_of(c.progress, "loss_sum", "train")};
  PELLUCID_CHECK(at_.epoch >= 0 && at_.step >= 0 && at_.batch >= 0 &&
                     at_.batch <= batches_->count() && std::isfinite(at_.loss_sum),
                 IoError,
                 "train: the checkpoint of {} does not belong to a run of this task: epoch {}, "
                 "batch {} of {}, "
                 "step {}.",
                 options_.out, at_.epoch, at_.batch, batches_->count(), at_.step);
  const NamedValues log = part_of(c.progress, "log");
  PELLUCID_CHECK(!log.empty(), IoError,
                 "train: the checkpoint of {} does not say how long its "
                 "metrics are.",
                 options_.out);
  log_ = std::make_unique<RunLog>(options_.out, log);
  io::set_random_state(c.random);
  saved_step_ = at_.step;
  if (const std::string warning = c.warning(); !warning.empty())
    progress_.say(fmt::format("note: {}; --isa {} continues as before, if the machine supports it",
                              warning, c.isa));
  progress_.say(fmt::format("continuing after step {} (epoch {}, {} of {} batches)", at_.step,
                            at_.epoch + 1, at_.batch, batches_->count()));
}

void Run::run_epoch() {
  if (at_.batch == 0) {
    progress_.print(task_.epoch_title(at_.epoch, options_.epochs));
    batches_->begin();
  }
  task_.model().train();
  last_ = flushed_ = Clock::now();
  while (const data::Example<>* batch = batches_->next()) {
    take_step(*batch);
    if (options_.save_every > 0 && at_.step % options_.save_every == 0) save();
    stop_if_asked();
  }
  profile::end_step();
  end_epoch();
}

void Run::take_step(const data::Example<>& batch) {
  profile::begin_step();
  const io::RandomState random = io::random_state();
  std::optional<pellucid::detail::CompiledCall> compiled;
  if (options_.compile) compiled.emplace(trials_, batch.data.numel());
  const Tensor loss = task_.loss(batch);
  const double value = loss.item<double>();
  if (!std::isfinite(value))
    refuse(fmt::format("the loss is {}", number_text(value)), at_.step + 1,
           blame(task_, batch, random));
  loss.backward();
  if (options_.clip_norm > 0) {
    const double norm = nn::utils::clip_grad_norm_(parameters_, options_.clip_norm);
    if (!std::isfinite(norm))
      refuse(fmt::format("the norm of the gradients is {}", number_text(norm)), at_.step + 1,
             blame_gradient(task_, batch, random));
  }
  const double lr = learning_rate();
  optimizer_->step();
  optimizer_->zero_grad();  // last: while the next step runs forward, no gradients take memory
  if (schedule_) schedule_->step();
  if (compiled) compiled->finish();
  compiled.reset();
  ++at_.step;
  at_.loss_sum += value;
  log_->step(at_.step, at_.epoch, value, lr);
  report(value, batch.data.size(0));
  ++at_.batch;
}

void Run::report(double loss, int64_t samples) {
  const Clock::time_point now = Clock::now();
  seconds_ += seconds_between(last_, now);
  last_ = now;
  samples_ += samples;
  const StepReport r{.epoch = at_.epoch,
                     .epochs = options_.epochs,
                     .batch = at_.batch,
                     .batches = batches_->count(),
                     .examples = batches_->examples(),
                     .batch_size = options_.batch_size,
                     .step = at_.step,
                     .loss = loss};
  const int64_t to_do = (r.epochs - r.epoch) * r.batches - r.batch - 1;
  progress_.bar(r, now, rate(),
                static_cast<double>(to_do * options_.batch_size) / std::max(rate(), 1e-9));
  if ((r.batch + request_.info->first_batch) % options_.log_interval == 0) {
    progress_.print(task_.progress_line(r));
    progress_.print_json({{"event", "step"},
                          {"epoch", r.epoch},
                          {"step", r.step},
                          {"loss", loss},
                          {"samples_per_second", rate()}});
    log_->speed(r.step, rate());
  }
  if (seconds_between(flushed_, now) < kFlushSeconds) return;
  log_->flush();
  flushed_ = now;
}

void Run::end_epoch() {
  const double average = at_.loss_sum / static_cast<double>(std::max<int64_t>(at_.batch, 1));
  const NoGradGuard off;
  task_.model().eval();
  progress_.print(task_.epoch_summary(average));
  const io::RandomState random = io::random_state();
  const auto restore = [&] { io::set_random_state(random); };  // a test changes nothing
  Evaluation found;
  try {
    found = task_.evaluate();
  } catch (const Stopped&) {
    restore();
    throw;
  }
  restore();
  progress_.print(found.text);
  NamedValues event{
      {"event", "epoch"}, {"epoch", at_.epoch}, {"step", at_.step}, {"train_loss", average}};
  event.insert(event.end(), found.metrics.begin(), found.metrics.end());
  progress_.print_json(event);
  log_->epoch(at_.step, at_.epoch, average, found.metrics);
  at_ = {.epoch = at_.epoch + 1, .batch = 0, .step = at_.step, .loss_sum = 0};
  save();
  stop_if_asked();
}

void Run::save() {
  if (const std::string name = first_not_finite(task_.model()); !name.empty())
    refuse(fmt::format("{} is not finite", name), at_.step, "The step itself overflowed.");
  NamedValues progress{{"epoch", at_.epoch},
                       {"batch", at_.batch},
                       {"step", at_.step},
                       {"loss_sum", at_.loss_sum},
                       {"data", task_.data_mark()}};
  add_part(progress, "options", request_.given);
  add_part(progress, "settings", settings_of(request_));
  add_part(progress, "log", log_->synced_state());
  io::save_checkpoint(checkpoint_path(options_.out),
                      {.model = io::named_tensors(task_.model().state_dict()),
                       .optimizer = optimizer_->state_dict(),
                       .scheduler = schedule_ ? schedule_->state_dict() : NamedValues(),
                       .loader = batches_->state_dict(),
                       .progress = std::move(progress),
                       .random = io::random_state()});
  saved_step_ = at_.step;
  log_->settled();
}

void Run::refuse(const std::string& what, int64_t step, const std::string& why) const {
  pellucid::detail::raise<ValueError>(
      "{} at step {} (epoch {}, {} batches per epoch, learning rate {:g}). {} Try a smaller "
      "--lr{}; "
      "{}.",
      what, step, at_.epoch + 1, batches_->count(), learning_rate(), why,
      options_.clip_norm > 0 ? "" : " or --clip-norm 1",
      saved_step_ ? fmt::format("the checkpoint of step {} is untouched", *saved_step_)
                  : "nothing was saved");
}

int Run::stop() {
  const int number = asked_to_stop();
  if (saved_step_ != at_.step || at_.batch != 0) save();
  progress_.say(fmt::format(
      "stopped by {} after step {}; continue with: pellucid train {} --resume --out {}",
      number == SIGINT ? "SIGINT" : "SIGTERM", at_.step, request_.info->name, options_.out));
  return 128 + number;
}

void Run::finish() {
  const NoGradGuard off;
  if (!saved_step_) save();  // no epoch was asked for
  task_.model().eval();
  io::save_safetensors(options_.out + "/model.safetensors",
                       io::named_tensors(task_.model().state_dict()));
  progress_.print(task_.finish(options_));
  log_->draw(fmt::format("{}: loss of the training batches", request_.info->name));
  progress_.print_json({{"event", "done"},
                        {"steps", at_.step},
                        {"seconds", seconds_},
                        {"samples_per_second", rate()},
                        {"out", options_.out}});
  if (samples_ > 0)
    progress_.say(fmt::format("trained on {} samples in {:.1f} s: {} samples/s",
                              group_digits(samples_), seconds_,
                              group_digits(static_cast<int64_t>(rate()))));
  if (options_.compile && samples_ > 0) {
    std::string found = trials_.report().text();
    found.pop_back();
    progress_.say("compiled steps: " + found);
  }
  progress_.say(
      fmt::format("wrote {}: model.safetensors, checkpoint.pellucid, metrics.jsonl, "
                  "loss.svg, loss.png and TensorBoard's events",
                  options_.out));
}

}  // namespace

NamedValues settings_of(const Request& request) {
  const TrainOptions& o = request.options;
  NamedValues values{{"task", request.info->name},
                     {"batch-size", o.batch_size},
                     {"lr", o.lr},
                     {"optimizer", o.optimizer},
                     {"momentum", o.momentum},
                     {"weight-decay", o.weight_decay},
                     {"clip-norm", o.clip_norm},
                     {"schedule", o.schedule},
                     {"warmup", o.warmup},
                     {"seed", std::bit_cast<int64_t>(o.seed)}};
  for (NamedValue& v : request.task->settings()) values.push_back(std::move(v));
  return values;
}

int run_training(const Args& args, Request request) { return Run(args, std::move(request)).go(); }

}  // namespace pellucid::cli::train
