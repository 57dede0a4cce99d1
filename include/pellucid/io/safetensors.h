// Weights as safetensors files (huggingface.co/docs/safetensors): a JSON header with names, dtypes,
// shapes and offsets, then the bytes. Reading copies, so that a file may change or go away later;
// writing replaces the file whole or not at all.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "pellucid/tensor.h"

namespace pellucid::io {

/// Tensors by name, in order.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
/// A module's state_dict, or another dictionary in order, as such a list.
template <class Dict>
requires requires(const Dict& d) { d.begin()->key(); }
NamedTensors named_tensors(const Dict& dict) {
  NamedTensors tensors;
  for (const auto& item : dict) tensors.emplace_back(item.key(), item.value());
  return tensors;
}
/// The list as a dictionary: dict_of<nn::StateDict>(tensors).
template <class Dict> Dict dict_of(const NamedTensors& tensors) {
  Dict dict;
  for (const auto& [name, tensor] : tensors) dict.insert(name, tensor);
  return dict;
}
using Metadata = std::vector<std::pair<std::string, std::string>>;

/// What a safetensors file holds, in the order of its header.
struct SafeTensors {
  NamedTensors tensors;
  Metadata metadata;
  /// The tensor called `name`; throws ValueError where there is none.
  PELLUCID_API const Tensor& at(std::string_view name) const&;
  Tensor at(std::string_view name) && { return std::as_const(*this).at(name); }
};

/// Reads a file into memory of its own. With `mmap`, tensors look at the file's pages, which stay
/// mapped while a tensor lives: nothing is copied and a write to one changes memory alone, but the
/// file must not be written to or cut off meanwhile (replacing it, as every save here does, is
/// safe). Tensors that shared storages when save_tensors wrote them share them again. Throws
/// IoError for a file that is not whole and consistent, TypeError for a dtype that pellucid lacks.
PELLUCID_API SafeTensors load_safetensors(const std::string& path, bool mmap = false);
/// The same from bytes in memory; copies.
PELLUCID_API SafeTensors parse_safetensors(std::string_view bytes);
/// Writes tensors, contiguous in row-major order, under unique names.
PELLUCID_API void save_safetensors(const std::string& path, const NamedTensors& tensors,
                                   const Metadata& metadata = {});
/// The same with storages and strides kept: each storage is written once and whole, and loading
/// gives tensors that share it as before. Where no tensor shares or leaves out a part of its
/// storage, the file is the same as save_safetensors'.
PELLUCID_API void save_tensors(const std::string& path, const NamedTensors& tensors,
                               const Metadata& metadata = {});
PELLUCID_API std::string tensors_bytes(const NamedTensors& tensors, const Metadata& metadata = {});
/// The bytes that save_safetensors writes.
PELLUCID_API std::string safetensors_bytes(const NamedTensors& tensors,
                                           const Metadata& metadata = {});

}  // namespace pellucid::io
