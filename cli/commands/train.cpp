// pellucid train: reads what is asked for, finds the run's folder and its checkpoint, and starts
// the engine (cli/train).
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/cpu.h"
#include "cli/commands/commands.h"
#include "cli/output.h"
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
  std::string task, out, data, isa;
  int threads = 0;
  bool resume = false, force = false, json = false;
};

std::string task_list() {
  std::string out;
  for (const TaskInfo* t : all_tasks())
    out += fmt::format("{}{}", out.empty() ? "" : ", ", t->name);
  return out;
}

void add_what_decides(CommandLine& line, TrainOptions& o) {
  line.add_option("--batch-size", o.batch_size, "Examples per step")
      ->type_name("N")
      ->check(at_least(1))
      ->capture_default_str();
  line.add_option("--lr", o.lr, "Learning rate")
      ->type_name("RATE")
      ->check(at_least(0, true))
      ->capture_default_str();
  line.add_option("--optimizer", o.optimizer, fmt::format("{}", fmt::join(optimizer_names(), ", ")))
      ->type_name("NAME")
      ->check(one_of(optimizer_names()))
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
  line.add_option("--schedule", o.schedule,
                  "Learning-rate schedule: " + fmt::format("{}", fmt::join(schedule_names(), ", ")))
      ->type_name("NAME")
      ->capture_default_str();
  line.add_option("--warmup", o.warmup, "Steps in which the learning rate rises")
      ->type_name("N")
      ->check(at_least(0))
      ->capture_default_str();
  line.add_option("--seed", o.seed, "Seed of the random numbers")
      ->type_name("N")
      ->capture_default_str();
}

void add_the_rest(CommandLine& line, TrainOptions& o, TrainFlags& options) {
  line.add_option("--epochs", o.epochs, "Passes over the data")
      ->type_name("N")
      ->check(at_least(0))
      ->capture_default_str();
  line.add_flag("--compile", o.compile,
                "Capture and fuse whole steps where that is faster; the results are the same");
  line.add_option("--workers", o.workers, "Threads that prepare batches in advance")
      ->type_name("N")
      ->check(at_least(0))
      ->capture_default_str();
  line.add_option("--threads", options.threads, "Threads per op (default: all CPUs)")
      ->type_name("N")
      ->check(at_least(1));
  line.add_option("--data", options.data, "The folder with the data")->type_name("FOLDER");
  line.add_option("--out", options.out, "The run's folder (default: runs/TASK)")
      ->type_name("FOLDER");
  line.add_flag("--resume", options.resume,
                "Continue from the folder's checkpoint, if there is one");
  line.add_flag("--force", options.force, "Start again, even if the folder holds files of a run");
  line.add_option("--isa", options.isa, "The ISA level (default: the machine's best)")
      ->type_name("LEVEL");
  line.add_option("--save-every", o.save_every, "Steps between checkpoints; 0: only after epochs")
      ->type_name("N")
      ->check(at_least(0))
      ->capture_default_str();
  line.add_option("--log-interval", o.log_interval, "Batches between log lines")
      ->type_name("N")
      ->check(at_least(1))
      ->capture_default_str();
  line.add_json(options.json);
}

std::vector<std::string> isa_names() {
  std::vector<std::string> names;
  for (const Isa level : available_isas()) names.emplace_back(isa_name(level));
  return names;
}

void check_name(const char* option, const std::string& name,
                const std::vector<std::string>& known) {
  for (const std::string& k : known)
    if (k == name) return;
  std::string hint = did_you_mean(name, known);
  if (hint.empty()) hint = fmt::format("; there are {}", fmt::join(known, ", "));
  throw UsageError(fmt::format("{}: unknown '{}'{}", option, name, hint));
}

// Options that belong to a call and not to the run.
bool is_of_call(const CLI::Option& option) {
  for (const char* name : {"--out", "--resume", "--force", "--json", "--isa", "--help", "--color"})
    if (option.check_name(name)) return true;
  return option.get_positional();
}

// Takes the options of the run's beginning from its checkpoint, as what holds unless this call says
// otherwise. Each is a value of one option that belongs to the run: it cannot name another folder
// to write to, and a path must lead to something that is there.
void take_saved(CommandLine& line, const NamedValues& saved, const std::string& out) {
  for (const NamedValue& v : saved) {
    CLI::Option* option = line.get_option_no_throw("--" + v.name);
    PELLUCID_CHECK(option && !is_of_call(*option) && v.value.as<std::string>(), IoError,
                   "train: the checkpoint of {} has an option '{}' that no run has.", out, v.name);
    const std::string& text = v.value.toStringRef();
    const std::string type = option->get_type_name();
    PELLUCID_CHECK((type != "FILE" || fs::is_regular_file(text)) &&
                       (type != "FOLDER" || text == "drawn" || fs::is_directory(text)),
                   IoError, "train: the run in {} had --{} {}, which is not there: give --{}.", out,
                   v.name, text, v.name);
    try {
      option->default_val(text);
    } catch (const CLI::Error& e) {
      pellucid::detail::raise<IoError>("train: the checkpoint of {} has --{} {}: {}.", out, v.name,
                                       text, e.what());
    }
  }
}

// The options that were given, by name: those of this call, and of the others the saved ones.
NamedValues given_options(const CommandLine& line, const NamedValues& saved) {
  NamedValues given = saved;
  for (const CLI::Option* o : line.get_options()) {
    if (is_of_call(*o) || o->count() == 0) continue;
    const std::string name = o->get_lnames().front();
    std::erase_if(given, [&](const NamedValue& v) { return v.name == name; });
    given.push_back({name, o->results().back()});
  }
  return given;
}

// Reads the call into a request; where an option comes twice, the last one counts. `saved` are the
// options of the run that it goes on with, from the folder `out`.
Request read_request(const Args& args, const TaskInfo* info, const NamedValues& saved,
                     const std::string& out, TrainFlags& flags) {
  Command command = *args.command;
  if (info) {
    command.description = info->description;
    command.examples = info->examples;
  }
  Args own = args;
  own.command = &command;
  Request request;
  request.info = info;
  if (info) {
    request.task = info->make();
    request.options = info->defaults;
  }
  CommandLine line(own);
  line.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  line.add_option("TASK", flags.task, "What to train: " + task_list())->required();
  if (request.task) request.task->add_options(line);
  add_what_decides(line, request.options);
  add_the_rest(line, request.options, flags);
  take_saved(line, saved, out);
  line.read();
  check_name("--optimizer", request.options.optimizer, optimizer_names());
  check_name("--schedule", request.options.schedule, schedule_names());
  if (!flags.isa.empty()) check_name("--isa", flags.isa, isa_names());
  if (line.count("--momentum") > 0 && !takes_momentum(request.options.optimizer))
    throw UsageError(fmt::format("--momentum: {} has none; it is for sgd and rmsprop",
                                 request.options.optimizer));
  if (!flags.data.empty()) request.options.data = flags.data;
  request.options.data_from_checkpoint = !flags.data.empty() && line.count("--data") == 0;
  request.options.out = out;
  request.given = given_options(line, saved);
  request.json = flags.json;
  return request;
}

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
          "--{0}: the run in {1} started with {2}, and cannot continue with {3}; leave --{0} out",
          now.name, request.options.out, was, is));
  }
}

// What a run writes into its folder, TensorBoard's events aside, whose name is always new.
std::vector<std::string> files_of(const Task& task) {
  std::vector<std::string> names = {"checkpoint.pellucid", "model.safetensors", "metrics.jsonl",
                                    "loss.svg", "loss.png"};
  for (std::string& name : task.files()) names.push_back(std::move(name));
  return names;
}

// A run that begins writes over no file that is not its own.
void make_room(const RunFolder& folder, const Request& request, const TrainFlags& flags) {
  const std::string& out = request.options.out;
  if (fs::exists(checkpoint_path(out)) && !flags.force)
    throw UsageError(fmt::format(
        "{} already holds a run; continue it with --resume, or name another folder with --out",
        out));
  if (!RunMark(out).exists() && !flags.force)
    if (const std::string name = folder.first_existing(files_of(*request.task)); !name.empty())
      throw UsageError(
          fmt::format("{} holds a file {}, which the run would overwrite; name another folder with "
                      "--out, or give --force",
                      out, name));
}

// The request that goes on from the folder's checkpoint: its options, and over them those of this
// call.
Request resumed(const Args& args, const TaskInfo& info, TrainFlags& flags, const std::string& out) {
  io::Checkpoint checkpoint = io::load_checkpoint(checkpoint_path(out));
  const NamedValues settings = part_of(checkpoint.progress, "settings");
  check_task(settings, info, out);
  Request request = read_request(args, &info, part_of(checkpoint.progress, "options"), out, flags);
  check_settings(settings, request);
  request.checkpoint = std::move(checkpoint);
  return request;
}

int run_train(const Args& args) {
  // A task has options of its own, so it comes first.
  const bool named = !args.words.empty() && !args.words[0].starts_with("-");
  const TaskInfo* info = named ? &find_task(args.words[0]) : nullptr;
  TrainFlags flags;
  Request request = read_request(args, info, {}, "", flags);
  if (!info) {
    find_task(flags.task);
    throw UsageError(fmt::format("put the task first: pellucid train {} …", flags.task));
  }
  if (flags.resume && flags.force)
    throw UsageError("--resume continues a run and --force starts another: choose one");
  const std::string out =
      flags.out.empty() ? RunFolder::default_path(info->name, flags.resume) : flags.out;
  const RunFolder folder(out);
  folder.check_files(files_of(*request.task));
  if (flags.resume && fs::exists(checkpoint_path(out))) {
    request = resumed(args, *info, flags, out);
  } else {
    request.options.out = out;
    make_room(folder, request, flags);
    if (flags.resume)
      fmt::print(args.err, "{} has no checkpoint yet: starting from the beginning\n", out);
  }
  for (const std::string& name : files_of(*request.task))
    check_output("--out", out + "/" + name, request.task->inputs());
  std::optional<IsaGuard> level;
  if (!flags.isa.empty()) level.emplace(isa_from_name(flags.isa));
  if (flags.threads > 0) set_num_threads(flags.threads);
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
        "and a checkpoint, from which --resume continues, bit for bit as if the run had never "
        "stopped. Ctrl-C finishes the step, saves and exits; a second Ctrl-C exits at once.",
    .examples =
        "pellucid train mnist\n"
        "pellucid train two-layer --optimizer adam --lr 1e-3\n"
        "pellucid train mnist --epochs 3 --out runs/digits --save-every 200\n"
        "pellucid train mnist --resume --out runs/digits",
    .run = run_train};

}  // namespace pellucid::cli
