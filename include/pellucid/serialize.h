// save and load, as torch::save and torch::load: tensors, vectors of tensors,
// modules (by their state_dict), optimisers and whatever else has save(OutputArchive&) and
// load(InputArchive&), and handles to them. Files are safetensors.
#pragma once

#include "pellucid/io/archive.h"
#include "pellucid/io/checkpoint.h"
#include "pellucid/io/safetensors.h"

namespace pellucid {

namespace serialize {
PELLUCID_API OutputArchive& operator<<(OutputArchive& archive, const Tensor& tensor);
PELLUCID_API InputArchive& operator>>(InputArchive& archive, Tensor& tensor);
PELLUCID_API OutputArchive& operator<<(OutputArchive& archive, const std::vector<Tensor>& tensors);
PELLUCID_API InputArchive& operator>>(InputArchive& archive, std::vector<Tensor>& tensors);

template <class T>
concept Saves = requires(const T& v, T& w, OutputArchive& out, InputArchive& in) {
  v.save(out);
  w.load(in);
};
/// A module: its state_dict is a dictionary of tensors in order.
template <class T>
concept HasStateDict = !Saves<T> && requires(const T& v) {
  v.state_dict().begin()->key();
};
template <class T>
concept Archivable = Saves<T> || HasStateDict<T>;

template <Archivable T> OutputArchive& operator<<(OutputArchive& archive, const T& value) {
  if constexpr (Saves<T>) {
    value.save(archive);
  } else {
    for (const auto& item : value.state_dict()) archive.write(item.key(), item.value());
  }
  return archive;
}
template <Archivable T> InputArchive& operator>>(InputArchive& archive, T& value) {
  if constexpr (Saves<T>) {
    value.load(archive);
  } else {
    std::decay_t<decltype(value.state_dict())> state;
    for (const NamedValue& v : archive.values())
      if (const Tensor* t = v.value.template as<Tensor>()) state.insert(v.name, *t);
    value.load_state_dict(state);
  }
  return archive;
}

/// Handles: holders of modules and shared pointers.
template <class T>
requires requires(const T& v) { requires Archivable<std::decay_t<decltype(*v.operator->())>>; }
OutputArchive& operator<<(OutputArchive& archive, const T& handle) {
  return archive << *handle.operator->();
}
template <class T>
requires requires(T& v) { requires Archivable<std::decay_t<decltype(*v.operator->())>>; }
InputArchive& operator>>(InputArchive& archive, T& handle) {
  return archive >> *handle.operator->();
}
}  // namespace serialize

/// Saves to a path or a stream.
template <class T, class To> void save(const T& value, To&& to) {
  using serialize::operator<<;
  serialize::OutputArchive archive;
  archive << value;
  archive.save_to(to);
}
/// Loads what save has saved.
template <class T, class From> void load(T& value, From&& from) {
  using serialize::operator>>;
  serialize::InputArchive archive;
  archive.load_from(from);
  archive >> value;
}

}  // namespace pellucid
