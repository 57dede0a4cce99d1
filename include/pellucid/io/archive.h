// OutputArchive and InputArchive: a tree of named tensors and values on its way to or from a
// safetensors file, with libtorch's names. Values that are no tensors travel in the file's
// metadata.
#pragma once

#include <iosfwd>
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
  const NamedValues& values() const { return values_; }

 private:
  NamedValues values_;
};

/// Gives back what was saved.
class PELLUCID_API InputArchive {
 public:
  void load_from(const std::string& path);
  void load_from(std::istream& stream);
  /// Reads a tensor: into the values of `tensor` where that is defined and has the same sizes and
  /// dtype (a parameter stays the same parameter), else as a new one. Throws ValueError where the
  /// key is missing, ShapeError where a defined tensor does not fit.
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
  NamedValues values_;
};

}  // namespace pellucid::serialize
