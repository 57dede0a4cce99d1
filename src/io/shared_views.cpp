// Which tensors of a file share storages. A file is never trusted: a view must lie within its
// storage.
#include "io/shared_views.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>

#include "pellucid/autograd.h"
#include "tensor/phantom.h"
#include "tensor/storage.h"

namespace pellucid::io {
namespace {

using Json = nlohmann::json;
using pellucid::detail::Storage;
constexpr int kVersion = 1;

/// Whether the tensor is all of its storage in order: a plain entry then says everything.
bool is_whole(const Tensor& t) {
  const auto& impl = t.impl();
  return impl.offset == 0 && impl.is_contiguous() && t.nbytes() == impl.storage->bytes;
}

/// The tensors that look at one storage.
struct Group {
  std::vector<size_t> members;
  std::string entry;  ///< the name under which the storage is written
};

/// All bytes of a storage, as elements of the widest dtype of its views that divides them.
Tensor whole_storage(const NamedTensors& tensors, const Group& group) {
  const auto& storage = tensors[group.members[0]].second.impl().storage;
  const auto bytes = static_cast<int64_t>(storage->bytes);
  DType dtype = kUInt8;
  for (const size_t i : group.members) {
    const DType d = tensors[i].second.dtype();
    if (d != kBool && element_size(d) > element_size(dtype) && bytes % element_size(d) == 0)
      dtype = d;
  }
  const int64_t sizes[] = {bytes / element_size(dtype)}, strides[] = {1};
  return Tensor(pellucid::detail::view_of_storage("save", storage, dtype, 0, sizes, strides));
}

[[noreturn]] void damaged(const std::string& where, std::string_view what) {
  pellucid::detail::raise<IoError>("{}: its list of views is damaged: {}.", where, what);
}

/// A view of a bool over bytes of another dtype: each byte it may look at must be 0 or 1.
void check_bool_view(const Tensor& t, const std::string& where) {
  if (t.dtype() != kBool || t.numel() == 0) return;
  const auto& impl = t.impl();
  pellucid::detail::run_writers(*impl.storage);
  const auto* bytes = static_cast<const char*>(impl.storage->data);
  const size_t end =
      pellucid::detail::reach_of("load", kBool, impl.offset, impl.sizes, impl.strides);
  if (!std::all_of(bytes + impl.offset, bytes + end, [](char c) { return c == 0 || c == 1; }))
    damaged(where, "a tensor is bool but has bytes other than 0 and 1");
}

class Restorer {
 public:
  Restorer(SafeTensors& file, const std::string& where) : file_(file), where_(where) {
    for (const auto& [name, tensor] : file.tensors) entries_.emplace(name, &tensor);
  }

  NamedTensors operator()(const Json& json) {
    const int64_t version = json.at("version").get<int64_t>();
    PELLUCID_CHECK(version == kVersion, IoError,
                   "{}: version {} of the list of views; this program reads {}.", where_, version,
                   kVersion);
    std::unordered_set<std::string> left;  // entries that must be named yet
    for (const auto& [name, tensor] : file_.tensors) left.insert(name);
    for (const Json& name : json.at("storages"))
      if (left.erase(name.get<std::string>()) == 0) damaged(where_, "a storage is missing");
    NamedTensors made;
    std::unordered_set<std::string> names;
    for (const Json& item : json.at("tensors")) {
      const bool plain = item.is_string();
      const auto name = (plain ? item : item.at(0)).get<std::string>();
      if (!names.insert(name).second) damaged(where_, "a name comes twice");
      if (plain && left.erase(name) == 0) damaged(where_, "a tensor is missing");
      made.emplace_back(name, plain ? entry(name) : view(item));
    }
    if (!left.empty()) damaged(where_, "an entry is not listed");
    return made;
  }

 private:
  const Tensor& entry(const std::string& name) const {
    const auto found = entries_.find(name);
    if (found == entries_.end()) damaged(where_, "a storage is missing");
    return *found->second;
  }
  Tensor view(const Json& item) const {
    if (!item.is_array() || item.size() != 6) damaged(where_, "a view has not six parts");
    const Tensor& whole = entry(item.at(1).get<std::string>());
    const Tensor t(pellucid::detail::view_of_storage(
        where_, whole.impl().storage, dtype_from_name(item.at(2).get<std::string>()),
        integer(item.at(3)), integers(item.at(4)), integers(item.at(5))));
    if (whole.dtype() != kBool) check_bool_view(t, where_);
    return t;
  }
  int64_t integer(const Json& json) const {
    if (!json.is_number_integer() ||
        (json.is_number_unsigned() && json.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)))
      damaged(where_, "a number is no 64-bit integer");
    return json.get<int64_t>();
  }
  std::vector<int64_t> integers(const Json& json) const {
    if (!json.is_array()) damaged(where_, "sizes are no list");
    std::vector<int64_t> numbers;
    for (const Json& n : json) numbers.push_back(integer(n));
    return numbers;
  }

  SafeTensors& file_;
  const std::string& where_;
  std::unordered_map<std::string, const Tensor*> entries_;
};

}  // namespace

StoredTensors store_views(const NamedTensors& tensors) {
  std::vector<Group> groups;
  std::unordered_map<const Storage*, size_t> group_of;
  std::vector<size_t> group_at(tensors.size());
  std::unordered_set<std::string_view> names;
  bool needed = false;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& [name, t] = tensors[i];
    PELLUCID_CHECK(t.defined(), ValueError, "save: tensor '{}' is undefined.", name);
    PELLUCID_CHECK(t.has_storage(), ValueError, "save: tensor '{}' has sizes but no values ({}).",
                   name, describe(t));
    PELLUCID_CHECK(names.insert(name).second, ValueError, "save: two tensors are called '{}'.",
                   name);
    t.expose();
    pellucid::detail::require_values(t.impl(), "save");
    const Storage* key = t.impl().storage.get();
    // An empty tensor looks at nothing, so it shares nothing.
    const auto [place, made] =
        t.numel() == 0 ? std::pair(group_of.end(), true) : group_of.try_emplace(key, groups.size());
    if (made) groups.push_back({});
    group_at[i] = t.numel() == 0 ? groups.size() - 1 : place->second;
    groups[group_at[i]].members.push_back(i);
    needed |= !made || (t.numel() > 0 && !is_whole(t));
  }
  if (!needed) return {tensors, {}};
  StoredTensors stored;
  Json storages = Json::array(), listed = Json::array();
  for (Group& g : groups) {
    const auto whole = std::find_if(g.members.begin(), g.members.end(), [&](size_t i) {
      return tensors[i].second.numel() == 0 || is_whole(tensors[i].second);
    });
    if (whole != g.members.end()) {
      g.entry = tensors[*whole].first;
      stored.entries.push_back(tensors[*whole]);
      continue;
    }
    for (size_t n = storages.size(); g.entry.empty() || names.contains(g.entry); ++n)
      g.entry = fmt::format("storage.{}", n);
    storages.push_back(g.entry);
    stored.entries.emplace_back(g.entry, whole_storage(tensors, g));
    names.insert(stored.entries.back().first);
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& [name, t] = tensors[i];
    const Group& g = groups[group_at[i]];
    if (name == g.entry) {
      listed.push_back(name);
      continue;
    }
    listed.push_back(Json::array({name, g.entry, std::string(name_of(t.dtype())), t.impl().offset,
                                  t.sizes().vec(), t.impl().strides.ref().vec()}));
  }
  try {
    stored.views = Json{{"version", kVersion}, {"storages", storages}, {"tensors", listed}}.dump();
  } catch (const Json::exception&) {
    pellucid::detail::raise<ValueError>("save: a tensor's name is not UTF-8.");
  }
  return stored;
}

bool has_views(const Metadata& metadata) {
  return std::any_of(metadata.begin(), metadata.end(),
                     [](const auto& item) { return item.first == kSharedViews; });
}

void restore_views(SafeTensors& file, const std::string& where) {
  const auto found = std::find_if(file.metadata.begin(), file.metadata.end(),
                                  [](const auto& item) { return item.first == kSharedViews; });
  if (found == file.metadata.end()) return;
  try {
    file.tensors = Restorer(file, where)(Json::parse(found->second));
  } catch (const Json::exception& e) { damaged(where, e.what()); } catch (const IoError&) {
    throw;
  } catch (const Error& e) { damaged(where, e.what()); }
  file.metadata.erase(found);
}

}  // namespace pellucid::io
