// Weights as safetensors files (huggingface.co/docs/safetensors): a JSON header with names, dtypes,
// shapes and offsets, then the bytes. Reading maps the file and copies nothing; writing replaces
// the file whole or not at all.
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
  PELLUCID_API const Tensor& at(std::string_view name) const;
};

/// Reads a file. Tensors look at the file's pages, which stay mapped while a tensor lives; a write
/// to one changes memory alone, never the file. Throws IoError for a file that is not whole and
/// consistent, TypeError for a dtype that pellucid lacks.
PELLUCID_API SafeTensors load_safetensors(const std::string& path);
/// The same from bytes in memory; copies.
PELLUCID_API SafeTensors parse_safetensors(std::string_view bytes);
/// Writes tensors, contiguous in row-major order, under unique names.
PELLUCID_API void save_safetensors(const std::string& path, const NamedTensors& tensors,
                                   const Metadata& metadata = {});
/// The bytes that save_safetensors writes.
PELLUCID_API std::string safetensors_bytes(const NamedTensors& tensors,
                                           const Metadata& metadata = {});

}  // namespace pellucid::io
