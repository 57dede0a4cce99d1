// Indexing and slice assignment: brackets of an expression become pellucid::indexing.
#include <algorithm>

#include "cli/machine/operators.h"

namespace pellucid::cli {
namespace {

using indexing::TensorIndex;

TensorIndex index_entry(const Object& entry) {
  if (const auto* slice = std::get_if<indexing::Slice>(&entry.get())) return *slice;
  if (std::holds_alternative<expr::EllipsisConstant>(entry.get())) return indexing::Ellipsis;
  if (entry.is_none()) return indexing::None;
  if (const bool* b = entry.as<bool>()) return TensorIndex(*b);
  if (const int64_t* i = entry.as<int64_t>()) return TensorIndex(*i);
  if (const Tensor* t = entry.tensor()) return TensorIndex(*t);
  PELLUCID_CHECK(entry.list() != nullptr || entry.tuple() != nullptr, TypeError,
                 "index: ints, slices, None, ..., tensors and lists can stand between brackets, "
                 "found {}.",
                 entry.type_name());
  const Value list = to_value(entry);
  const bool empty = list.as<Values>()->empty();
  return TensorIndex(to_tensor(list, empty ? std::optional(kInt64) : std::nullopt));
}

std::vector<TensorIndex> index_entries(const Object& index) {
  std::vector<TensorIndex> entries;
  if (const Tuple* tuple = index.tuple())
    for (const Object& entry : *tuple) entries.push_back(index_entry(entry));
  else
    entries.push_back(index_entry(index));
  return entries;
}

// Python's clamping of an end of a slice of n elements.
int64_t clamp_end(std::optional<int64_t> end, int64_t n, int64_t otherwise) {
  if (!end) return otherwise;
  return std::clamp(*end < 0 ? *end + n : *end, int64_t{0}, n);
}

template <class List> Object list_subscript(const List& list, const Object& index) {
  const auto n = static_cast<int64_t>(list.size());
  if (const auto* slice = std::get_if<indexing::Slice>(&index.get())) {
    PELLUCID_CHECK(slice->step() > 0, ValueError, "the step of a slice must be positive, found {}.",
                   slice->step());
    List out;
    const int64_t stop = clamp_end(slice->stop(), n, n);
    for (int64_t i = clamp_end(slice->start(), n, 0); i < stop; i += slice->step()) {
      out.push_back(list[static_cast<size_t>(i)]);
      if (slice->step() >= n) break;
    }
    return out;
  }
  const int64_t i = to_int(index, "the index of a list");
  PELLUCID_CHECK(i >= -n && i < n, IndexError, "index {} is out of range for {} elements.", i, n);
  return Object(list[static_cast<size_t>(i < 0 ? i + n : i)]);
}

}  // namespace

Object subscript(const Object& object, const Object& index) {
  if (const Tensor* t = object.tensor()) return t->index(index_entries(index));
  if (const Values* list = object.list()) return list_subscript(*list, index);
  if (const Tuple* tuple = object.tuple()) return list_subscript(*tuple, index);
  detail::raise<TypeError>("{} cannot be indexed.", object.type_name());
}

void store_subscript(const Object& object, const Object& index, const Object& value) {
  const Tensor* t = object.tensor();
  PELLUCID_CHECK(t != nullptr, TypeError,
                 "only the elements of a tensor can be assigned to, found {}.", object.type_name());
  const std::vector<TensorIndex> entries = index_entries(index);
  if (const Tensor* values = value.tensor())
    t->index_put_(entries, *values);
  else if (value.is_number())
    t->index_put_(entries, value.scalar());
  else
    t->index_put_(entries, to_tensor(to_value(value)));
}

}  // namespace pellucid::cli
