// See run_folder.h.
#include "cli/train/run_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/files.h"
#include "pellucid/error.h"

namespace pellucid::cli::train {

namespace fs = std::filesystem;

std::string checkpoint_path(const std::string& folder) { return folder + "/checkpoint.pellucid"; }

void check_events_name(const std::string& name, const std::string& where) {
  PELLUCID_CHECK(io::is_plain_name(name) && name.starts_with("events.out.tfevents."), IoError,
                 "{}: '{}' is no file of events of a run (events.out.tfevents.…, in its folder).",
                 where, name);
}

bool RunMark::exists() const { return io::is_regular(path_); }

std::string RunMark::events() const {
  std::array<char, 1000> text{};
  const int file = io::open_regular(path_, O_RDONLY, io::Links::Refuse);
  if (file < 0) return "";
  const ssize_t got = read(file, text.data(), text.size());
  close(file);
  const auto json =
      nlohmann::json::parse(text.data(), text.data() + std::max<ssize_t>(got, 0), nullptr, false);
  if (!json.is_object() || !json.contains("events") || !json["events"].is_string()) return "";
  const auto name = json["events"].get<std::string>();
  if (!name.empty()) check_events_name(name, path_);
  return name;
}

void RunMark::write(const std::string& events) const {
  io::write_file("train", path_, nlohmann::json({{"events", events}}).dump() + "\n");
}

void RunMark::remove() const { unlink(path_.c_str()); }

RunFolder::RunFolder(std::string path) : path_(std::move(path)) {
  std::error_code error;
  made_ = fs::create_directories(path_, error);
  PELLUCID_CHECK(!error, IoError, "cannot make the folder {}: {} (errno {}).", path_,
                 error.message(), error.value());
  lock_.emplace("train", path_ + "/.pellucid-lock", fmt::format("the run's folder {}", path_),
                "Wait until it has ended, or name another folder with --out.");
}

RunFolder::~RunFolder() {
  lock_.reset();
  std::error_code not_empty;
  if (made_) fs::remove(path_, not_empty);
}

std::string RunFolder::default_path(std::string_view task, bool resume) {
  std::string last = fmt::format("runs/{}", task), next = last;
  for (int i = 2; fs::exists(next); ++i) {
    last = next;
    next = fmt::format("runs/{}-{}", task, i);
  }
  return resume ? last : next;
}

void RunFolder::check_files(const std::vector<std::string>& names) const {
  for (const std::string& name : names) {
    struct stat facts {};
    const std::string path = path_ + "/" + name;
    if (lstat(path.c_str(), &facts) != 0) continue;
    PELLUCID_CHECK(S_ISREG(facts.st_mode), IoError,
                   "train: {} {}: a run writes files of its own into its folder. Remove it, or "
                   "name another folder with --out.",
                   path, S_ISLNK(facts.st_mode) ? "is a link" : "is no regular file");
  }
}

std::string RunFolder::first_existing(const std::vector<std::string>& names) const {
  for (const std::string& name : names)
    if (struct stat facts{}; lstat((path_ + "/" + name).c_str(), &facts) == 0) return name;
  return "";
}

}  // namespace pellucid::cli::train
