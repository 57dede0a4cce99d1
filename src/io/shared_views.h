// Tensors that look at one storage, on their way into a safetensors file and back. The format knows
// contiguous tensors alone, so each storage is written once, and the metadata entry "shared_views"
// says which tensors look at which part of it:
//   {"version": 1, "storages": [names of entries that are no tensors],
//    "tensors": [NAME or [NAME, ENTRY, dtype, offset, sizes, strides], …]}
// in the order of the tensors. A file without such tensors has no such metadata.
#pragma once

#include <string>

#include "pellucid/io/safetensors.h"

namespace pellucid::io {

inline constexpr std::string_view kSharedViews = "shared_views";

/// What is written: contiguous entries, and the text of the metadata; empty where no tensor needs
/// it.
struct StoredTensors {
  NamedTensors entries;
  std::string views;
};
StoredTensors store_views(const NamedTensors& tensors);
/// Whether the storages of the entries may be looked at by tensors of other dtypes: they must then
/// be aligned for all of them.
bool has_views(const Metadata& metadata);
/// Makes the tensors of a file that was read out of its entries, with every claim checked. `where`
/// begins the messages.
void restore_views(SafeTensors& file, const std::string& where);

}  // namespace pellucid::io
