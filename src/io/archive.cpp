// Archives over safetensors, and what tensors, modules and optimisers write into them.
#include "pellucid/io/archive.h"

#include <istream>
#include <iterator>
#include <ostream>
#include <span>

#include "io/value_json.h"
#include "pellucid/autograd.h"
#include "pellucid/data/samplers.h"
#include "pellucid/nn/module.h"
#include "pellucid/ops.h"
#include "pellucid/optim/optimizer.h"
#include "pellucid/serialize.h"

namespace pellucid::serialize {
namespace {

void require_available(const std::optional<Device>& device) {
  if (device) device->require_available("InputArchive::load_from");
}

using Json = nlohmann::json;
/// Metadata entries with this prefix are values of the archive.
constexpr std::string_view kPrefix = "pellucid.";

struct Parts {
  io::NamedTensors tensors;
  io::Metadata metadata;
};

Json no_tensor(const Tensor&) {
  pellucid::detail::raise<TypeError>(
      "OutputArchive: a list must not hold tensors; write each under a key of its own.");
}
Tensor no_tensor_back(const Json&) {
  pellucid::detail::raise<IoError>("InputArchive: a value of the metadata holds a tensor.");
}

Parts parts_of(const NamedValues& values) {
  Parts parts;
  for (const NamedValue& v : values) {
    if (const Tensor* t = v.value.as<Tensor>()) {
      parts.tensors.emplace_back(v.name, *t);
      continue;
    }
    const Json json = io::to_json(v.value, no_tensor);
    parts.metadata.emplace_back(std::string(kPrefix) + v.name,
                                json.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  return parts;
}

void write_all(OutputArchive& archive, const NamedValues& values) {
  for (const NamedValue& v : values) {
    if (const Tensor* t = v.value.as<Tensor>())
      archive.write(v.name, *t);
    else
      archive.write(v.name, v.value);
  }
}

}  // namespace

void OutputArchive::write(const std::string& key, const Tensor& tensor, bool) {
  if (tensor.defined()) values_.push_back({key, tensor});
}
void OutputArchive::write(const std::string& key, const Value& value) {
  values_.push_back({key, value});
}
void OutputArchive::write(const std::string& key, OutputArchive& nested) {
  add_part(values_, key, nested.values_);
}

void OutputArchive::save_to(const std::string& path) const {
  const Parts parts = parts_of(values_);
  io::save_tensors(path, parts.tensors, parts.metadata);
}
void OutputArchive::save_to(std::ostream& stream) const {
  const Parts parts = parts_of(values_);
  stream << io::tensors_bytes(parts.tensors, parts.metadata);
  PELLUCID_CHECK(stream.good(), IoError, "OutputArchive::save_to: the stream failed.");
}
void OutputArchive::save_to(const std::function<size_t(const void*, size_t)>& write) const {
  const Parts parts = parts_of(values_);
  const std::string bytes = io::tensors_bytes(parts.tensors, parts.metadata);
  const size_t taken = write(bytes.data(), bytes.size());
  PELLUCID_CHECK(taken == bytes.size(), IoError,
                 "OutputArchive::save_to: the function took {} of {} bytes.", taken, bytes.size());
}

void InputArchive::set(const io::SafeTensors& file) {
  NamedValues values;
  for (const auto& [name, tensor] : file.tensors) values.push_back({name, tensor});
  for (const auto& [key, text] : file.metadata) {
    if (!key.starts_with(kPrefix)) continue;
    try {
      values.push_back(
          {key.substr(kPrefix.size()), io::from_json(Json::parse(text), no_tensor_back)});
    } catch (const Json::exception& e) {
      pellucid::detail::raise<IoError>("InputArchive: the value '{}' is damaged: {}.", key,
                                       e.what());
    }
  }
  values_ = std::move(values);
}

void InputArchive::parse(std::string_view bytes) { set(io::parse_safetensors(bytes)); }

void InputArchive::load_from(const std::string& path, std::optional<Device> device) {
  require_available(device);
  set(io::load_safetensors(path));
}
void InputArchive::load_from(std::istream& stream, std::optional<Device> device) {
  require_available(device);
  const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  parse(bytes);
}
void InputArchive::load_from(const char* bytes, size_t count, std::optional<Device> device) {
  require_available(device);
  parse({bytes, count});
}
void InputArchive::load_from(const std::function<size_t(uint64_t, void*, size_t)>& read,
                             const std::function<size_t()>& size, std::optional<Device> device) {
  require_available(device);
  std::string bytes(size(), '\0');
  const size_t got = read(0, bytes.data(), bytes.size());
  PELLUCID_CHECK(got == bytes.size(), IoError,
                 "InputArchive::load_from: the function gave {} of {} bytes.", got, bytes.size());
  parse(bytes);
}

bool InputArchive::try_read(const std::string& key, Tensor& tensor, bool) const {
  const Value* v = find_value(values_, key);
  if (!v || !v->as<Tensor>()) return false;
  const Tensor& saved = v->tensor();
  if (!tensor.defined()) {
    tensor = saved;  // not a copy: tensors of one storage stay together
    return true;
  }
  const bool fits = tensor.sizes() == saved.sizes();
  PELLUCID_CHECK(fits || !tensor.requires_grad(), ShapeError,
                 "InputArchive::read: '{}' was saved as {} but is to be read into {}.", key,
                 describe(saved), describe(tensor));
  const NoGradGuard off;
  if (fits)
    tensor.copy_(saved);
  else
    tensor.set_data(saved);
  return true;
}

void InputArchive::read(const std::string& key, Tensor& tensor, bool is_buffer) const {
  PELLUCID_CHECK(try_read(key, tensor, is_buffer), ValueError,
                 "InputArchive::read: there is no tensor '{}' among the {} entries.", key,
                 values_.size());
}

bool InputArchive::try_read(const std::string& key, Value& value) const {
  const Value* v = find_value(values_, key);
  if (v) value = *v;
  return v != nullptr;
}
void InputArchive::read(const std::string& key, Value& value) const {
  value = value_of(values_, key, "InputArchive::read");
}

bool InputArchive::try_read(const std::string& key, InputArchive& nested) const {
  nested.values_ = part_of(values_, key);
  return !nested.values_.empty();
}
void InputArchive::read(const std::string& key, InputArchive& nested) const {
  PELLUCID_CHECK(try_read(key, nested), ValueError,
                 "InputArchive::read: nothing was saved under '{}.'.", key);
}

std::vector<std::string> InputArchive::keys() const {
  std::vector<std::string> keys;
  for (const NamedValue& v : values_) {
    std::string first = v.name.substr(0, v.name.find('.'));
    if (std::find(keys.begin(), keys.end(), first) == keys.end()) keys.push_back(std::move(first));
  }
  return keys;
}

namespace {

/// Lets the tensors require a gradient that did when they were saved: "requires_grad" lists them.
void require_gradients(const InputArchive& archive, std::span<Tensor> tensors) {
  Value listed;
  if (!archive.try_read("requires_grad", listed)) return;
  const Values* numbers = listed.as<Values>();
  PELLUCID_CHECK(numbers, IoError, "load: requires_grad is no list.");
  for (const Value& number : *numbers) {
    const int64_t* i = number.as<int64_t>();
    PELLUCID_CHECK(i && *i >= 0 && *i < static_cast<int64_t>(tensors.size()) &&
                       tensors[static_cast<size_t>(*i)].is_floating_point(),
                   IoError, "load: requires_grad names a tensor that cannot require a gradient.");
    tensors[static_cast<size_t>(*i)].requires_grad_();
  }
}

}  // namespace

OutputArchive& operator<<(OutputArchive& archive, const Tensor& tensor) {
  PELLUCID_CHECK(tensor.defined(), ValueError, "save: the tensor is undefined.");
  archive.write("0", tensor);
  if (tensor.requires_grad()) archive.write("requires_grad", Value(Values{0}));
  return archive;
}
InputArchive& operator>>(InputArchive& archive, Tensor& tensor) {
  const bool made = !tensor.defined();
  archive.read("0", tensor);
  if (made) require_gradients(archive, {&tensor, 1});
  return archive;
}

OutputArchive& operator<<(OutputArchive& archive, const std::vector<Tensor>& tensors) {
  Values gradients;
  archive.write("size", Value(static_cast<int64_t>(tensors.size())));
  for (size_t i = 0; i < tensors.size(); ++i) {
    PELLUCID_CHECK(tensors[i].defined(), ValueError, "save: tensor {} is undefined.", i);
    archive.write(std::to_string(i), tensors[i]);
    if (tensors[i].requires_grad()) gradients.emplace_back(static_cast<int64_t>(i));
  }
  if (!gradients.empty()) archive.write("requires_grad", Value(gradients));
  return archive;
}
InputArchive& operator>>(InputArchive& archive, std::vector<Tensor>& tensors) {
  const int64_t size = integer_of(archive.values(), "size", "load");
  PELLUCID_CHECK(size >= 0 && size <= static_cast<int64_t>(archive.values().size()), IoError,
                 "load: the file claims {} tensors but has {} entries.", size,
                 archive.values().size());
  const bool made = tensors.empty();
  tensors.resize(static_cast<size_t>(size));
  for (size_t i = 0; i < tensors.size(); ++i) archive.read(std::to_string(i), tensors[i]);
  if (made) require_gradients(archive, tensors);
  return archive;
}

}  // namespace pellucid::serialize

namespace pellucid::nn {

void Module::save(serialize::OutputArchive& archive) const {
  for (const auto& item : state_dict()) archive.write(item.key(), item.value());
}

void Module::load(serialize::InputArchive& archive) {
  StateDict state;
  for (const NamedValue& v : archive.values())
    if (const Tensor* t = v.value.as<Tensor>()) state.insert(v.name, *t);
  load_state_dict(state);
}

}  // namespace pellucid::nn

namespace pellucid::data::samplers::detail {

void save_state(serialize::OutputArchive& archive, const NamedValues& state) {
  serialize::write_all(archive, state);
}

NamedValues load_state(serialize::InputArchive& archive) { return archive.values(); }

}  // namespace pellucid::data::samplers::detail

namespace pellucid::optim {

void Optimizer::save(serialize::OutputArchive& archive) const {
  serialize::write_all(archive, state_dict());
}

void Optimizer::load(serialize::InputArchive& archive) { load_state_dict(archive.values()); }

}  // namespace pellucid::optim
