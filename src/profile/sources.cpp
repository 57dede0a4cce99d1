// See sources.h.
#include "profile/sources.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <string_view>

#include "base/escape.h"
#include "base/files.h"
#include "base/sha256.h"

namespace pellucid::profile {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLargestFile = 1'000'000, kLargestSum = 16'000'000;

// The text of a regular file that is small enough.
std::optional<std::string> text_of(const std::string& path) {
  const int file = io::open_regular(path, O_RDONLY, io::Links::Follow);
  if (file < 0) return std::nullopt;
  std::string text(static_cast<size_t>(kLargestFile) + 1, '\0');
  size_t size = 0;
  ssize_t got = 0;
  while ((got = read(file, text.data() + size, text.size() - size)) > 0)
    size += static_cast<size_t>(got);
  close(file);
  if (got < 0 || size > static_cast<size_t>(kLargestFile)) return std::nullopt;
  text.resize(size);
  return text;
}

std::string resolved(const std::string& file, const std::string& folder) {
  return file.starts_with('/') || folder.empty() ? file : folder + "/" + file;
}

// The first line of a small file, without its end.
std::string first_line(const fs::path& path) {
  std::error_code unknown;
  if (!fs::is_regular_file(path, unknown)) return "";
  std::ifstream in(path);
  std::string line(4096, '\0');
  in.read(line.data(), static_cast<std::streamsize>(line.size()));
  line.resize(static_cast<size_t>(std::max<std::streamsize>(in.gcount(), 0)));
  return line.substr(0, line.find_first_of("\r\n"));
}

bool is_revision(std::string_view text) {
  return (text.size() == 40 || text.size() == 64) &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// The commit that a name such as refs/heads/main stands for.
std::string revision_of(const fs::path& repository, const std::string& name) {
  if (name.find("..") != std::string::npos) return "";
  if (std::string direct = first_line(repository / name); is_revision(direct)) return direct;
  std::ifstream packed(repository / "packed-refs");
  for (std::string line; std::getline(packed, line);) {
    const size_t blank = line.find(' ');
    if (blank != std::string::npos && line.substr(blank + 1) == name &&
        is_revision(line.substr(0, blank)))
      return line.substr(0, blank);
  }
  return "";
}

}  // namespace

bool is_own(const Site& s) {
  if (s.file.empty() || s.file.starts_with("/usr/") || s.file.starts_with("<")) return false;
  for (const std::string_view part :
       {"/site-packages/", "/dist-packages/", "/include/pellucid/", "/lib/python3"})
    if (s.file.find(part) != std::string::npos) return false;
  return s.object.find("libpellucid.so") == std::string::npos;
}

void add_sources(Profile& p) {
  std::set<std::string> seen;
  int64_t sum = 0;
  for (const Site& s : p.sites) {
    if (!is_own(s) || !seen.insert(s.file).second) continue;
    std::optional<std::string> text = text_of(resolved(s.file, p.run.folder));
    if (!text || text::utf8(*text) != *text || sum + std::ssize(*text) > kLargestSum) continue;
    sum += std::ssize(*text);
    p.sources.push_back({s.file, io::sha256(*text), std::move(*text)});
  }
}

bool unchanged(const SourceFile& s, const std::string& folder) {
  const std::optional<std::string> text = text_of(resolved(s.file, folder));
  return !text || io::sha256(*text) == s.hash;
}

std::string git_revision(const std::string& folder) {
  if (folder.empty()) return "";
  std::error_code unknown;
  fs::path at = fs::weakly_canonical(folder, unknown);
  if (unknown) return "";
  for (; !fs::exists(at / ".git", unknown); at = at.parent_path())
    if (at == at.parent_path()) return "";
  fs::path repository = at / ".git", shared;
  if (fs::is_regular_file(repository, unknown)) {  // a worktree: "gitdir: …"
    constexpr std::string_view kKey = "gitdir: ";
    const std::string line = first_line(repository);
    if (!line.starts_with(kKey)) return "";
    repository = at / line.substr(kKey.size());
  }
  const std::string common = first_line(repository / "commondir");
  shared = common.empty() ? repository : repository / common;
  std::string head = first_line(repository / "HEAD");
  if (is_revision(head)) return head;
  constexpr std::string_view kRef = "ref: ";
  return head.starts_with(kRef) ? revision_of(shared, head.substr(kRef.size())) : "";
}

}  // namespace pellucid::profile
