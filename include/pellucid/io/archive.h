// OutputArchive and InputArchive: a tree of named tensors and values on its way to or from a
// safetensors file, with libtorch's names. Values that are no tensors travel in the file's
// metadata.
#pragma once

#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "pellucid/io/safetensors.h"
#include "pellucid/named_values.h"

namespace pellucid::serialize {

/// Collects what is to be saved. Names of nested archives are joined with dots.
class PELLUCID_API OutputArchive {
 public:
  /// Adds a tensor; buffers and parameters are saved alike.
  void write(const std::string& key, const Tensor& tensor, bool is_buffer = false);
  /// Adds a number, text or list.
  void write(const std::string& key, const Value& value);
  void write(const std::string& key, OutputArchive& nested);
  void save_to(const std::string& path) const;
  void save_to(std::ostream& stream) const;
  /// Gives the bytes to `write`, which returns how many of them it took.
  void save_to(const std::function<size_t(const void* bytes, size_t count)>& write) const;
  const NamedValues& values() const { return values_; }

 private:
  NamedValues values_;
};

/// Gives back what was saved.
class PELLUCID_API InputArchive {
 public:
  void load_from(const std::string& path, std::optional<Device> device = std::nullopt);
  void load_from(std::istream& stream, std::optional<Device> device = std::nullopt);
  void load_from(const char* bytes, size_t count, std::optional<Device> device = std::nullopt);
  /// From `size()` bytes that `read` copies, so many from a position, and says how many it did.
  void load_from(const std::function<size_t(uint64_t position, void* to, size_t count)>& read,
                 const std::function<size_t()>& size, std::optional<Device> device = std::nullopt);
  /// Reads a tensor: into the values of `tensor` where that is defined and has the same sizes (a
  /// parameter stays the same parameter), else in its place. Throws ValueError where the key is
  /// missing, ShapeError where the sizes of a tensor that requires a gradient do not fit.
  void read(const std::string& key, Tensor& tensor, bool is_buffer = false) const;
  /// The same; false where the key is missing.
  bool try_read(const std::string& key, Tensor& tensor, bool is_buffer = false) const;
  void read(const std::string& key, Value& value) const;
  bool try_read(const std::string& key, Value& value) const;
  void read(const std::string& key, InputArchive& nested) const;
  bool try_read(const std::string& key, InputArchive& nested) const;
  /// The first parts of the names, each once.
  std::vector<std::string> keys() const;
  const NamedValues& values() const { return values_; }

 private:
  void set(const io::SafeTensors& file);
  void parse(std::string_view bytes);
  NamedValues values_;
};

}  // namespace pellucid::serialize
