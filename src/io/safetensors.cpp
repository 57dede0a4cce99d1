// Reading and writing safetensors files.
#include "pellucid/io/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>
#include <set>

#include "base/atomic_file.h"
#include "base/parallel.h"
#include "io/formats.h"
#include "io/safetensors_header.h"
#include "io/shared_views.h"
#include "pellucid/autograd.h"
#include "pellucid/creation.h"
#include "pellucid/memory.h"
#include "pellucid/ops.h"

namespace pellucid::io {

void refuse_pickle(std::string_view first, const std::string& path) {
  // The length of a safetensors header may have the same first bytes (640 is 80 02).
  if (first.size() > 8 && first.substr(4, 5) == std::string_view("\0\0\0\0{", 5)) return;
  const bool zip = first.starts_with("PK\x03\x04");
  const bool pickle = first.size() >= 2 && first[0] == '\x80' && first[1] >= 2 && first[1] <= 5;
  PELLUCID_CHECK(
      !zip && !pickle, IoError,
      "{0} is a pickle or zip file, as torch.save writes it. Such a file can run any program, so "
      "it "
      "is not read. Convert it where it was made: python -c \"import torch, safetensors.torch; "
      "safetensors.torch.save_file(torch.load('{0}', weights_only=True), '{0}.safetensors')\".",
      path);
}

namespace {

constexpr uint64_t kMostHeader = 100'000'000;  // the limit of the format's own library

/// A regular file opened for reading; errors name it.
class WeightsFile {
 public:
  explicit WeightsFile(const std::string& path)
      : path_(path), file_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    PELLUCID_CHECK(file_ >= 0, IoError, "load_safetensors: cannot open {}: {}.", path,
                   std::strerror(errno));
    struct stat facts {};
    const bool regular = fstat(file_, &facts) == 0 && S_ISREG(facts.st_mode);
    if (!regular) close(file_);
    PELLUCID_CHECK(regular, IoError, "load_safetensors: {} is not a regular file.", path);
    size_ = static_cast<uint64_t>(facts.st_size);
  }
  ~WeightsFile() { close(file_); }
  WeightsFile(const WeightsFile&) = delete;
  uint64_t size() const { return size_; }
  int file() const { return file_; }
  void read(char* to, uint64_t bytes, uint64_t at) const {
    while (bytes > 0) {
      const ssize_t got =
          pread(file_, to, std::min<uint64_t>(bytes, uint64_t{1} << 30), static_cast<off_t>(at));
      if (got < 0 && errno == EINTR) continue;
      PELLUCID_CHECK(got >= 0, IoError, "load_safetensors: cannot read {}: {}.", path_,
                     std::strerror(errno));
      PELLUCID_CHECK(got > 0, IoError, "load_safetensors: {} was cut off while it was read.",
                     path_);
      to += got;
      at += static_cast<uint64_t>(got);
      bytes -= static_cast<uint64_t>(got);
    }
  }

 private:
  std::string path_;
  int file_;
  uint64_t size_ = 0;
};

/// A private mapping of a whole file. Its descriptor is kept to see whether the file was cut off.
class Mapping {
 public:
  Mapping(const WeightsFile& source, const std::string& path)
      : size_(source.size()), file_(fcntl(source.file(), F_DUPFD_CLOEXEC, 0)) {
    if (size_ > 0)
      data_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE, source.file(), 0);
    const int error = errno;
    if (data_ == MAP_FAILED && file_ >= 0) close(file_);
    PELLUCID_CHECK(data_ != MAP_FAILED, IoError, "load_safetensors: cannot map {}: {}.", path,
                   std::strerror(error));
    const std::lock_guard lock(mutex());
    all().insert(this);
  }
  ~Mapping() {
    {
      const std::lock_guard lock(mutex());
      all().erase(this);
    }
    if (size_ > 0) munmap(data_, size_);
    if (file_ >= 0) close(file_);
  }
  Mapping(const Mapping&) = delete;
  char* data() const { return static_cast<char*>(data_); }
  /// Throws IoError where `p` lies in a mapped file that has become shorter: reading it would end
  /// the process.
  static void check(const void* p) {
    const std::lock_guard lock(mutex());
    for (const Mapping* m : all()) {
      const auto* bytes = static_cast<const char*>(p);
      struct stat facts {};
      if (bytes < m->data() || bytes >= m->data() + m->size_ || m->file_ < 0) continue;
      PELLUCID_CHECK(
          fstat(m->file_, &facts) != 0 || static_cast<size_t>(facts.st_size) >= m->size_, IoError,
          "save: a tensor looks at a file that was loaded with mmap and has been cut off to {} of "
          "{} bytes since, so its values are gone. Save to the path of the file, which replaces it "
          "whole, or load without mmap.",
          static_cast<int64_t>(facts.st_size), m->size_);
    }
  }

 private:
  static std::mutex& mutex() {
    static std::mutex m;
    return m;
  }
  static std::set<const Mapping*>& all() {
    static auto* const mappings =
        new std::set<const Mapping*>;  // tensors may outlive static objects
    return *mappings;
  }
  void* data_ = nullptr;
  size_t size_ = 0;
  int file_;
};

/// The header's length, and the header.
struct Parsed {
  uint64_t data_at;
  Header header;
};
/// Checks the length that stands before the header.
uint64_t header_length(std::string_view first, uint64_t size, const std::string& where) {
  PELLUCID_CHECK(size >= 8, IoError, "{}: {} bytes are too few for a safetensors file.", where,
                 size);
  uint64_t length;
  std::memcpy(&length, first.data(), 8);
  PELLUCID_CHECK(length <= kMostHeader && length <= size - 8, IoError,
                 "{}: the header would have {} bytes, but the file has {} and {} are the limit; is "
                 "it a safetensors file?",
                 where, length, size, kMostHeader);
  return length;
}
Parsed parse(std::string_view bytes, const std::string& where) {
  refuse_pickle(bytes, where);
  const uint64_t length = header_length(bytes, bytes.size(), where);
  return {8 + length, parse_header(bytes.substr(8, length), bytes.size() - 8 - length, where)};
}
Parsed parse(const WeightsFile& source, const std::string& path, const std::string& where) {
  std::string first(std::min<uint64_t>(9, source.size()), '\0');
  source.read(first.data(), first.size(), 0);
  refuse_pickle(first, path);
  std::string header(header_length(first, source.size(), where), '\0');
  source.read(header.data(), header.size(), 8);
  const uint64_t data_at = 8 + header.size();
  return {data_at, parse_header(header, source.size() - data_at, where)};
}

/// A bool must be 0 or 1, or it has no meaning in C++.
void check_bools(const HeaderEntry& e, const char* data, const std::string& where) {
  if (e.dtype != kBool) return;
  const bool good =
      std::all_of(data, data + (e.end - e.begin), [](char c) { return c == 0 || c == 1; });
  PELLUCID_CHECK(good, IoError, "{}: tensor '{}' is bool but has bytes other than 0 and 1.", where,
                 e.name);
}

Tensor copied(const HeaderEntry& e, const char* data) {
  const Tensor t = empty(e.sizes, e.dtype);
  if (t.nbytes() > 0) std::memcpy(t.raw_data(), data, t.nbytes());
  return t;
}

/// The order in which tensors are written: wide elements first, so that each lies aligned.
std::vector<size_t> data_order(const NamedTensors& tensors) {
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return tensors[a].second.element_size() > tensors[b].second.element_size();
  });
  return order;
}

/// Hands the bytes of the file to `write`, part by part.
template <class Write>
void write_all(const NamedTensors& tensors, const Metadata& metadata, const Write& write) {
  const NoGradGuard off;
  Header header;
  header.metadata = metadata;
  std::vector<std::string_view> names;
  for (const auto& [name, tensor] : tensors) {
    PELLUCID_CHECK(tensor.defined(), ValueError, "save_safetensors: tensor '{}' is undefined.",
                   name);
    PELLUCID_CHECK(name != "__metadata__", ValueError,
                   "save_safetensors: no tensor may be called __metadata__.");
    header.entries.push_back({name, tensor.dtype(), tensor.sizes()});
    names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  PELLUCID_CHECK(twice == names.end(), ValueError, "save_safetensors: two tensors are called '{}'.",
                 *twice);
  const std::vector<size_t> order = data_order(tensors);
  uint64_t at = 0;
  for (const size_t i : order) {
    header.entries[i].begin = at;
    at += tensors[i].second.nbytes();
    header.entries[i].end = at;
  }
  const std::string json = write_header(header);
  const uint64_t length = json.size();
  write(&length, size_t{8});
  write(json.data(), json.size());
  for (const size_t i : order) {
    if (tensors[i].second.has_storage()) Mapping::check(tensors[i].second.raw_data());
    const Tensor t = tensors[i].second.detach().contiguous();
    if (t.nbytes() > 0) write(t.const_data_ptr(), t.nbytes());
  }
}

}  // namespace

const Tensor& SafeTensors::at(std::string_view name) const& {
  for (const auto& [n, t] : tensors)
    if (n == name) return t;
  pellucid::detail::raise<ValueError>("SafeTensors: there is no tensor '{}' among the {}.", name,
                                      tensors.size());
}

namespace {

/// Copies the file's data into new tensors. Threads read pieces of the file at the same time: what
/// takes long is that new memory is touched for the first time.
NamedTensors read_tensors(const WeightsFile& source, const Parsed& parsed,
                          const std::string& where) {
  constexpr uint64_t kPiece = 4 << 20;
  struct Piece {
    char* to;
    uint64_t bytes, at;
  };
  NamedTensors tensors;
  std::vector<Piece> pieces;
  for (const HeaderEntry& e : parsed.header.entries) {
    const Tensor t = empty(e.sizes, e.dtype);
    auto* to = static_cast<char*>(t.raw_data());
    for (uint64_t at = e.begin; at < e.end; at += kPiece)
      pieces.push_back({to + (at - e.begin), std::min(kPiece, e.end - at), parsed.data_at + at});
    tensors.emplace_back(e.name, t);
  }
  parallel_chunks(static_cast<int64_t>(pieces.size()), [&](int64_t i) {
    const Piece& p = pieces[static_cast<size_t>(i)];
    source.read(p.to, p.bytes, p.at);
  });
  for (size_t i = 0; i < tensors.size(); ++i)
    check_bools(parsed.header.entries[i], static_cast<const char*>(tensors[i].second.raw_data()),
                where);
  return tensors;
}

/// Tensors over the file's pages; copies where an element would not lie aligned.
NamedTensors map_tensors(const WeightsFile& source, const Parsed& parsed, const std::string& path,
                         const std::string& where) {
  const auto mapping = std::make_shared<Mapping>(source, path);
  const bool views = has_views(parsed.header.metadata);
  NamedTensors tensors;
  for (const HeaderEntry& e : parsed.header.entries) {
    char* data = mapping->data() + parsed.data_at + e.begin;
    check_bools(e, data, where);
    const uintptr_t step = views ? 8 : static_cast<uintptr_t>(element_size(e.dtype));
    const bool aligned = reinterpret_cast<uintptr_t>(data) % step == 0;
    tensors.emplace_back(e.name, aligned && e.end > e.begin
                                     ? from_blob(
                                           data, e.sizes, [mapping](void*) {}, e.dtype)
                                     : copied(e, data));
  }
  return tensors;
}

}  // namespace

SafeTensors load_safetensors(const std::string& path, bool mmap) {
  const std::string where = fmt::format("load_safetensors: {}", path);
  const WeightsFile source(path);
  const Parsed parsed = parse(source, path, where);
  const MemoryCategoryGuard category(MemoryCategory::Parameter);
  SafeTensors result;
  result.tensors =
      mmap ? map_tensors(source, parsed, path, where) : read_tensors(source, parsed, where);
  result.metadata = parsed.header.metadata;
  restore_views(result, where);
  return result;
}

SafeTensors parse_safetensors(std::string_view bytes) {
  const std::string where = "parse_safetensors";
  Parsed parsed = parse(bytes, where);
  SafeTensors result;
  result.metadata = std::move(parsed.header.metadata);
  for (const HeaderEntry& e : parsed.header.entries) {
    const char* data = bytes.data() + parsed.data_at + e.begin;
    check_bools(e, data, where);
    result.tensors.emplace_back(e.name, copied(e, data));
  }
  restore_views(result, where);
  return result;
}

void save_safetensors(const std::string& path, const NamedTensors& tensors,
                      const Metadata& metadata) {
  AtomicFile file("save_safetensors", path);
  write_all(tensors, metadata, [&](const void* p, size_t n) { file.write(p, n); });
  file.commit();
}

namespace {

/// The metadata with the list of views, where there is one.
Metadata with_views(const Metadata& metadata, const std::string& views) {
  PELLUCID_CHECK(!has_views(metadata), ValueError, "save: metadata must not be called {}.",
                 kSharedViews);
  Metadata all = metadata;
  if (!views.empty()) all.emplace_back(kSharedViews, views);
  return all;
}

}  // namespace

void save_tensors(const std::string& path, const NamedTensors& tensors, const Metadata& metadata) {
  const StoredTensors stored = store_views(tensors);
  save_safetensors(path, stored.entries, with_views(metadata, stored.views));
}

std::string tensors_bytes(const NamedTensors& tensors, const Metadata& metadata) {
  const StoredTensors stored = store_views(tensors);
  return safetensors_bytes(stored.entries, with_views(metadata, stored.views));
}

std::string safetensors_bytes(const NamedTensors& tensors, const Metadata& metadata) {
  std::string out;
  write_all(tensors, metadata,
            [&](const void* p, size_t n) { out.append(static_cast<const char*>(p), n); });
  return out;
}

}  // namespace pellucid::io
