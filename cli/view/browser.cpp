// See browser.h.
#include "cli/view/browser.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <unistd.h>

#include <filesystem>

#include "base/env.h"
#include "base/escape.h"

extern char** environ;  // NOLINT: POSIX declares it nowhere

namespace pellucid::cli::view {
namespace {

std::string private_folder() {
  if (const auto runtime = env_string("XDG_RUNTIME_DIR")) return *runtime;
  std::error_code unknown;
  const auto temporary = std::filesystem::temp_directory_path(unknown);
  return unknown ? "/tmp" : temporary.string();
}

// Runs a program that nobody waits for, without input and output.
void start(const char* program, const std::string& argument) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  const char* arguments[] = {program, argument.c_str(), nullptr};
  pid_t child = 0;
  posix_spawnp(&child, program, &actions, nullptr, const_cast<char**>(arguments), environ);
  posix_spawn_file_actions_destroy(&actions);
}

}  // namespace

Browser::Browser(const std::string& address) {
  if (!env_string("DISPLAY") && !env_string("WAYLAND_DISPLAY")) return;
  std::string name = private_folder() + "/pellucid-view-XXXXXX.html";
  const int file = mkstemps(name.data(), 5);  // readable by its owner alone
  if (file < 0) return;
  file_ = name;
  const std::string page = fmt::format(
      "<!doctype html><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\">"
      "<meta http-equiv=\"refresh\" content=\"0;url={0}\"><a href=\"{0}\">pellucid</a>\n",
      text::xml(address));
  const bool whole = write(file, page.data(), page.size()) == static_cast<ssize_t>(page.size());
  close(file);
  if (whole) start("xdg-open", file_);
}

Browser::~Browser() {
  if (!file_.empty()) unlink(file_.c_str());
}

}  // namespace pellucid::cli::view
