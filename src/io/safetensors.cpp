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
#include <numeric>

#include "io/atomic_file.h"
#include "io/formats.h"
#include "io/safetensors_header.h"
#include "pellucid/autograd.h"
#include "pellucid/creation.h"
#include "pellucid/memory.h"
#include "pellucid/ops.h"

namespace pellucid::io {

void refuse_pickle(std::string_view first, const std::string& path) {
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

/// A private mapping of a whole file.
class Mapping {
 public:
  explicit Mapping(const std::string& path) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    PELLUCID_CHECK(file >= 0, IoError, "load_safetensors: cannot open {}: {}.", path,
                   std::strerror(errno));
    struct stat facts {};
    const bool regular = fstat(file, &facts) == 0 && S_ISREG(facts.st_mode);
    size_ = regular ? static_cast<size_t>(facts.st_size) : 0;
    if (size_ > 0) data_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    const int error = errno;
    close(file);
    PELLUCID_CHECK(regular, IoError, "load_safetensors: {} is not a regular file.", path);
    PELLUCID_CHECK(data_ != MAP_FAILED, IoError, "load_safetensors: cannot map {}: {}.", path,
                   std::strerror(error));
  }
  ~Mapping() {
    if (size_ > 0) munmap(data_, size_);
  }
  Mapping(const Mapping&) = delete;
  std::string_view bytes() const { return {static_cast<const char*>(data_), size_}; }
  char* data() const { return static_cast<char*>(data_); }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};

/// The header's length, and the header.
struct Parsed {
  uint64_t data_at;
  Header header;
};
Parsed parse(std::string_view bytes, const std::string& where) {
  refuse_pickle(bytes, where);
  PELLUCID_CHECK(bytes.size() >= 8, IoError, "{}: {} bytes are too few for a safetensors file.",
                 where, bytes.size());
  uint64_t length;
  std::memcpy(&length, bytes.data(), 8);
  PELLUCID_CHECK(length <= kMostHeader && length <= bytes.size() - 8, IoError,
                 "{}: the header would have {} bytes, but the file has {} and {} are the limit; is "
                 "it a safetensors file?",
                 where, length, bytes.size(), kMostHeader);
  return {8 + length, parse_header(bytes.substr(8, length), bytes.size() - 8 - length, where)};
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
    const Tensor t = tensors[i].second.detach().contiguous();
    if (t.nbytes() > 0) write(t.const_data_ptr(), t.nbytes());
  }
}

}  // namespace

const Tensor& SafeTensors::at(std::string_view name) const {
  for (const auto& [n, t] : tensors)
    if (n == name) return t;
  pellucid::detail::raise<ValueError>("SafeTensors: there is no tensor '{}' among the {}.", name,
                                      tensors.size());
}

SafeTensors load_safetensors(const std::string& path) {
  const auto mapping = std::make_shared<Mapping>(path);
  const std::string where = fmt::format("load_safetensors: {}", path);
  refuse_pickle(mapping->bytes(), path);
  Parsed parsed = parse(mapping->bytes(), where);
  const MemoryCategoryGuard category(MemoryCategory::Parameter);
  SafeTensors result;
  result.metadata = std::move(parsed.header.metadata);
  for (const HeaderEntry& e : parsed.header.entries) {
    char* data = mapping->data() + parsed.data_at + e.begin;
    check_bools(e, data, where);
    const bool aligned =
        reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(element_size(e.dtype)) == 0;
    result.tensors.emplace_back(e.name, aligned && e.end > e.begin
                                            ? from_blob(
                                                  data, e.sizes, [mapping](void*) {}, e.dtype)
                                            : copied(e, data));
  }
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
  return result;
}

void save_safetensors(const std::string& path, const NamedTensors& tensors,
                      const Metadata& metadata) {
  AtomicFile file("save_safetensors", path);
  write_all(tensors, metadata, [&](const void* p, size_t n) { file.write(p, n); });
  file.commit();
}

std::string safetensors_bytes(const NamedTensors& tensors, const Metadata& metadata) {
  std::string out;
  write_all(tensors, metadata,
            [&](const void* p, size_t n) { out.append(static_cast<const char*>(p), n); });
  return out;
}

}  // namespace pellucid::io
