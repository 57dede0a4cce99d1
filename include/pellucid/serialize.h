// save and load, as torch::save and torch::load: tensors, vectors of tensors,
// modules, optimisers and whatever else has save(OutputArchive&) and load(InputArchive&), and
// handles to them. Files are safetensors.
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

/// A module, an optimiser, or whatever else saves and loads itself.
template <class T>
concept Archivable = requires(const T& v, T& w, OutputArchive& out, InputArchive& in) {
  v.save(out);
  w.load(in);
};

template <Archivable T> OutputArchive& operator<<(OutputArchive& archive, const T& value) {
  value.save(archive);
  return archive;
}
template <Archivable T> InputArchive& operator>>(InputArchive& archive, T& value) {
  value.load(archive);
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

/// Saves to a path, a stream or a function that takes bytes.
template <class T, class... To> void save(const T& value, To&&... to) {
  using serialize::operator<<;
  serialize::OutputArchive archive;
  archive << value;
  archive.save_to(std::forward<To>(to)...);
}
/// The same for a list in braces: save({a, b}, path).
template <class... To> void save(const std::vector<Tensor>& tensors, To&&... to) {
  save<std::vector<Tensor>>(tensors, std::forward<To>(to)...);
}
/// Loads what save has saved, from a path, a stream, bytes in memory or functions that read them;
/// a device may follow.
template <class T, class... From> void load(T& value, From&&... from) {
  using serialize::operator>>;
  serialize::InputArchive archive;
  archive.load_from(std::forward<From>(from)...);
  archive >> value;
}

}  // namespace pellucid
