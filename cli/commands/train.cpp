// pellucid train: reads what is asked for, finds the run's folder and its checkpoint, and starts
// the engine (cli/train).
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/commands/commands.h"
#include "cli/text.h"
#include "cli/train/engine.h"
#include "cli/train/optimizers.h"
#include "pellucid/io/checkpoint.h"
#include "pellucid/parallel.h"

namespace pellucid::cli {
namespace {

using namespace train;
namespace fs = std::filesystem;

struct TrainFlags {
  std::string task, out, data;
  int threads = 0;
  bool resume = false, json = false;
};

std::string task_list() {
  std::string out;
  for (const TaskInfo* t : all_tasks())
    out += fmt::format("{}{}", out.empty() ? "" : ", ", t->name);
  return out;
}

void add_what_decides(CommandLine& line, TrainOptions& o) {
  line.add_option("--batch-size", o.batch_size, "Examples of a step")
      ->type_name("N")
      ->check(at_least(1))
      ->capture_default_str();
  line.add_option("--lr", o.lr, "Learning rate")
      ->type_name("RATE")
      ->check(at_least(0, true))
      ->capture_default_str();
  line.add_option("--optimizer", o.optimizer, fmt::format("{}", fmt::join(optimizer_names(), ", ")))
      ->type_name("NAME")
      ->capture_default_str();
  line.add_option("--momentum", o.momentum, "Momentum of sgd and rmsprop")
      ->type_name("SHARE")
      ->check(at_least(0))
      ->capture_default_str();
  line.add_option("--weight-decay", o.weight_decay, "Weight decay")
      ->type_name("RATE")
      ->check(at_least(0))
      ->capture_default_str();
  line.add_option("--clip-norm", o.clip_norm, "Clip gradients to this norm; 0 for never")
      ->type_name("NORM")
      ->check(at_least(0))
      ->capture_default_str();
  line.add_option(
          "--schedule", o.schedule,
          "How the learning rate falls: " + fmt::format("{}", fmt::join(schedule_names(), ", ")))
      ->type_name("NAME")
      ->capture_default_str();
  line.add_option("--warmup", o.warmup, "Steps in which the learning rate rises")
      ->type_name("N")
      ->check(at_least(0))
      ->capture_default_str();
  line.add_option("--seed", o.seed, "Where random numbers start")
      ->type_name("N")
      ->capture_default_str();
}

void add_the_rest(CommandLine& line, TrainOptions& o, TrainFlags& options) {
  line.add_option("--epochs", o.epochs, "Passes over the data")
      ->type_name("N")
      ->check(at_least(0))
      ->capture_default_str();
  line.add_option("--workers", o.workers, "Threads that make batches ahead")
      ->type_name("N")
      ->check(at_least(0))
      ->capture_default_str();
  line.add_option("--threads", options.threads, "Threads of an op; all CPUs when not given")
      ->type_name("N")
      ->check(at_least(1));
  line.add_option("--data", options.data, "Where the data are")->type_name("FOLDER");
  line.add_option("--out", options.out, "The run's folder; runs/TASK when not given")
      ->type_name("FOLDER");
  line.add_flag("--resume", options.resume, "Go on from the folder's checkpoint, if it has one");
  line.add_option("--save-every", o.save_every,
                  "Steps from one checkpoint to the next; 0: only after epochs")
      ->type_name("N")
      ->check(at_least(0))
      ->capture_default_str();
  line.add_option("--log-interval", o.log_interval, "Batches from one line to the next")
      ->type_name("N")
      ->check(at_least(1))
      ->capture_default_str();
  line.add_json(options.json);
}

void check_name(const char* option, const std::string& name,
                const std::vector<std::string>& known) {
  for (const std::string& k : known)
    if (k == name) return;
  std::string hint = did_you_mean(name, known);
  if (hint.empty()) hint = fmt::format("; there are {}", fmt::join(known, ", "));
  throw UsageError(fmt::format("{}: unknown '{}'{}", option, name, hint));
}

// Reads words into a request; where an option comes twice, the last one counts.
Request read_request(const Args& args, const TaskInfo* info, const std::vector<std::string>& words,
                     TrainFlags& options) {
  Command command = *args.command;
  if (info) {
    command.description = info->description;
    command.examples = info->examples;
  }
  Args own = args;
  own.command = &command;
  own.words = words;
  Request request;
  request.info = info;
  if (info) {
    request.task = info->make();
    request.options = info->defaults;
  }
  CommandLine line(own);
  line.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  line.add_option("TASK", options.task, "What to train: " + task_list())->required();
  if (request.task) request.task->add_options(line);
  add_what_decides(line, request.options);
  add_the_rest(line, request.options, options);
  line.read();
  check_name("--optimizer", request.options.optimizer, optimizer_names());
  check_name("--schedule", request.options.schedule, schedule_names());
  if (line.count("--momentum") > 0 && !takes_momentum(request.options.optimizer))
    throw UsageError(fmt::format("--momentum: {} has none; it is for sgd and rmsprop",
                                 request.options.optimizer));
  if (!options.data.empty()) request.options.data = options.data;
  request.json = options.json;
  return request;
}

// runs/TASK, runs/TASK-2, …: the first that is free, or to go on with, the last that is not.
std::string default_folder(std::string_view task, bool resume) {
  std::string last = fmt::format("runs/{}", task), next = last;
  for (int i = 2; fs::exists(next); ++i) {
    last = next;
    next = fmt::format("runs/{}-{}", task, i);
  }
  return resume ? last : next;
}

// The run's folder. A run that fails before its first file takes it away again, so that the next
// one gets the same name.
class RunFolder {
 public:
  explicit RunFolder(std::string path) : path_(std::move(path)) {
    std::error_code error;
    made_ = fs::create_directories(path_, error);
    PELLUCID_CHECK(!error, IoError, "cannot make the folder {}: {} (errno {}).", path_,
                   error.message(), error.value());
  }
  RunFolder(const RunFolder&) = delete;
  ~RunFolder() {
    std::error_code not_empty;
    if (made_) fs::remove(path_, not_empty);
  }

 private:
  std::string path_;
  bool made_ = false;
};

// Throws unless the checkpoint is one of this task; before anything else of it is used.
void check_task(const NamedValues& settings, const TaskInfo& info, const std::string& folder) {
  const std::string task = text_of(settings, "task", "train");
  PELLUCID_CHECK(task == info.name, ValueError,
                 "{} holds a run of {}, not of {}: give another --out.", folder, task, info.name);
}

// The settings that decide the result must be those with which the run began.
void check_settings(const NamedValues& saved, const Request& request) {
  for (const NamedValue& now : settings_of(request)) {
    const Value* before = find_value(saved, now.name);
    const std::string was = before ? before->repr() : "unknown", is = now.value.repr();
    if (was != is)
      throw UsageError(fmt::format(
          "--{0}: the run in {1} began with {2}, and cannot go on with {3}; leave --{0} out",
          now.name, request.options.out, was, is));
  }
}

// The options of a call, without those that belong to this call alone.
std::vector<std::string> words_to_keep(const std::vector<std::string>& words) {
  std::vector<std::string> kept;
  for (size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "--resume" || words[i] == "--json" || words[i].starts_with("--out=")) continue;
    if (words[i] == "--out")
      ++i;
    else
      kept.push_back(words[i]);
  }
  return kept;
}

int run_train(const Args& args) {
  // A task has options of its own, so it comes first.
  const bool named = !args.words.empty() && !args.words[0].starts_with("-");
  const TaskInfo* info = named ? &find_task(args.words[0]) : nullptr;
  TrainFlags options;
  Request request = read_request(args, info, args.words, options);
  if (!info) {
    find_task(options.task);
    throw UsageError(fmt::format("put the task first: pellucid train {} …", options.task));
  }
  if (options.out.empty()) options.out = default_folder(info->name, options.resume);
  const std::string out = options.out, path = checkpoint_path(out);
  request.words = words_to_keep(args.words);
  if (fs::exists(path)) {
    if (!options.resume)
      throw UsageError(fmt::format(
          "{} holds a run already; go on with --resume, or name another folder by --out", out));
    io::Checkpoint checkpoint = io::load_checkpoint(path);
    const NamedValues settings = part_of(checkpoint.progress, "settings");
    check_task(settings, *info, out);
    // The options of the run's beginning first, then those of this call unless they are the same.
    std::vector<std::string> kept;
    for (const Value& w : value_of(checkpoint.progress, "words", "train").toListRef())
      kept.push_back(w.toStringRef());
    const std::vector<std::string>& now = request.words;
    if (now.size() > kept.size() || !std::equal(now.rbegin(), now.rend(), kept.rbegin()))
      kept.insert(kept.end(), now.begin(), now.end());
    std::vector<std::string> words{std::string(info->name)};
    words.insert(words.end(), kept.begin(), kept.end());
    const bool json = options.json;
    request = read_request(args, info, words, options);
    request.words = std::move(kept);
    request.json = json;
    request.options.out = out;
    check_settings(settings, request);
    request.checkpoint = std::move(checkpoint);
  } else if (options.resume) {
    fmt::print(args.err, "{} has no checkpoint yet: beginning anew\n", out);
  }
  request.options.out = out;
  if (options.threads > 0) set_num_threads(options.threads);
  const RunFolder folder(out);
  return run_training(args, std::move(request));
}

}  // namespace

const Command kTrain{
    .name = "train",
    .summary = "Train a network, with checkpoints, metrics and a loss curve",
    .description =
        "Trains one of the built-in networks; 'pellucid train TASK --help' explains a task and its "
        "own options. The folder of the run receives the weights (model.safetensors), the "
        "metrics (metrics.jsonl and TensorBoard's events), the loss curve (loss.svg, loss.png) "
        "and a checkpoint, from which --resume goes on bit for bit as if the run had never "
        "ended. Ctrl-C finishes the step, saves and leaves; a second one leaves at once.",
    .examples =
        "pellucid train mnist\n"
        "pellucid train two-layer --optimizer adam --lr 1e-3\n"
        "pellucid train mnist --epochs 3 --out runs/digits --save-every 200\n"
        "pellucid train mnist --resume --out runs/digits",
    .run = run_train};

}  // namespace pellucid::cli
