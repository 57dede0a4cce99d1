// Metrics and the loss curve.
#include "cli/train/run_log.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/atomic_file.h"
#include "base/files.h"
#include "cli/plot.h"
#include "pellucid/error.h"

namespace pellucid::cli::train {
namespace {

constexpr const char* kLines = "/metrics.jsonl";

/// The saved length of a file; 0 for a run that begins, so that what lies there is cut off.
uint64_t saved_length(const NamedValues& state, const char* name) {
  const int64_t bytes = state.empty() ? 0 : integer_of(state, name, "train");
  PELLUCID_CHECK(bytes >= 0, IoError, "train: the checkpoint's {} is {}.", name, bytes);
  return static_cast<uint64_t>(bytes);
}

std::unique_ptr<io::SummaryWriter> open_events(const std::string& folder, const NamedValues& state,
                                               const RunMark& mark) {
  if (!state.empty()) {
    const std::string name = text_of(state, "events", "train");
    check_events_name(name, checkpoint_path(folder));
    return std::make_unique<io::SummaryWriter>(folder + "/" + name,
                                               saved_length(state, "event_bytes"));
  }
  const std::string before = mark.events();
  mark.write("");  // before the first file, so that all of them are known to be this run's
  // Else a run that is ended before its first save would go on from the one before it (--force).
  std::filesystem::remove(checkpoint_path(folder));
  if (!before.empty() && io::is_regular(folder + "/" + before))
    std::filesystem::remove(folder + "/" + before);
  auto writer = std::make_unique<io::SummaryWriter>(folder);
  mark.write(writer->path().substr(writer->path().rfind('/') + 1));
  return writer;
}

/// The loss of every step.
std::vector<std::pair<double, double>> read_losses(const std::string& path) {
  std::vector<std::pair<double, double>> points;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    const auto number = [&](const char* key) {
      return json.is_object() && json.contains(key) && json[key].is_number();
    };
    if (number("loss") && number("step"))
      points.emplace_back(json["step"].get<double>(), json["loss"].get<double>());
  }
  return points;
}

/// The average of the steps around each, which forgets with the factor `keep` a step in both
/// directions: an average of the past alone would lie above a loss that falls.
std::vector<std::pair<double, double>> smoothed(const std::vector<std::pair<double, double>>& raw,
                                                double keep) {
  std::vector<std::pair<double, double>> out(raw.size());
  std::vector<double> weights(raw.size());
  const auto add = [&](size_t i, double& sum, double& weight, double own) {
    out[i] = {raw[i].first, out[i].second + keep * sum + own * raw[i].second};
    weights[i] += keep * weight + own;
    sum = keep * sum + raw[i].second;
    weight = keep * weight + 1;
  };
  double sum = 0, weight = 0;
  for (size_t i = 0; i < raw.size(); ++i) add(i, sum, weight, 1);
  sum = weight = 0;
  for (size_t i = raw.size(); i-- > 0;) add(i, sum, weight, 0);  // itself is counted already
  for (size_t i = 0; i < raw.size(); ++i) out[i].second /= weights[i];
  return out;
}

}  // namespace

RunLog::RunLog(std::string folder, const NamedValues& state)
    : folder_(std::move(folder)),
      mark_(folder_),
      events_(open_events(folder_, state, mark_)),
      lines_(folder_ + kLines, saved_length(state, "line_bytes")) {
  lines_.file().set_buffered(true);
  events_->file().set_buffered(true);
}

void RunLog::step(int64_t step, int64_t epoch, double loss, double lr) {
  lines_.write({{"step", step}, {"epoch", epoch}, {"loss", loss}, {"lr", lr}});
  events_->add_scalar("loss/train", loss, step);
}

void RunLog::epoch(int64_t step, int64_t epoch, double average_loss, const NamedValues& metrics) {
  NamedValues line{{"step", step}, {"epoch", epoch}, {"train_loss", average_loss}};
  line.insert(line.end(), metrics.begin(), metrics.end());
  lines_.write(line);
  events_->add_scalar("loss/train_epoch", average_loss, step);
  for (const NamedValue& m : metrics)
    if (m.value.is_number()) events_->add_scalar(m.name, m.value.toDouble(), step);
}

void RunLog::speed(int64_t step, double samples_per_second) {
  events_->add_scalar("samples_per_second", samples_per_second, step);
}

void RunLog::flush() {
  lines_.file().flush();
  events_->file().flush();
}

NamedValues RunLog::synced_state() {
  lines_.file().sync();
  events_->file().sync();
  const std::string& events = events_->path();
  return {{"line_bytes", static_cast<int64_t>(lines_.file().size())},
          {"events", events.substr(events.rfind('/') + 1)},
          {"event_bytes", static_cast<int64_t>(events_->file().size())}};
}

void RunLog::draw(const std::string& title) {
  flush();
  const auto raw = read_losses(folder_ + kLines);
  // About an eightieth of the run, but never fewer than 5 steps, to either side.
  const double window = std::max(5.0, static_cast<double>(raw.size()) / 80);
  auto line = smoothed(raw, 1 - 1 / window);
  const auto by_value = [](const auto& a, const auto& b) { return a.second < b.second; };
  bool wide = false;
  if (!line.empty()) {
    const auto [low, high] = std::minmax_element(line.begin(), line.end(), by_value);
    wide = low->second > 0 && high->second > 100 * low->second;
  }
  if (wide) {  // on a logarithmic axis the average must be one of logarithms
    auto logs = raw;
    for (auto& point : logs) point.second = std::log(std::max(point.second, 1e-300));
    line = smoothed(logs, 1 - 1 / window);
    for (auto& point : line) point.second = std::exp(point.second);
  }
  const Chart chart{
      .title = title,
      .x_label = "step",
      .y_label = "loss",
      .log_y = wide,
      .series = {{"every step", "#9ec5e8", 1, raw}, {"smoothed", "#1f5fa8", 2, line}}};
  io::write_file("train", folder_ + "/loss.svg", chart_svg(chart));
  io::write_file("train", folder_ + "/loss.png", chart_png(chart));
}

}  // namespace pellucid::cli::train
