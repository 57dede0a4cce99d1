#include "profile/read_definitions.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "recorder/raw.h"

namespace pellucid::profile {
namespace {

using Json = nlohmann::json;

TensorInfo tensor_from(const Json& j) {
  TensorInfo t;
  if (j.is_null()) return t;
  t.dtype = static_cast<DType>(std::clamp(j.at(0).get<int>(), 0, kDTypeCount - 1));
  t.sizes = j.at(1).get<std::vector<int64_t>>();
  return t;
}

// Each thread that calls it first tells; they say the same.
void set_cost(Signature& s, const Json& j) {
  s.outputs.clear();
  for (const Json& t : j.at("outputs"))
    if (!t.is_null()) s.outputs.push_back(tensor_from(t));
  s.has_cost = j.contains("flops");
  s.flops = j.value("flops", 0.0);
  s.bytes = j.value("bytes", 0.0);
  s.contraction_flops = j.value("contraction", 0.0);
}

Signature signature_from(const Json& j) {
  Signature s;
  s.kind = static_cast<EventKind>(std::clamp(j.at("kind").get<int>(), 0, kEventKindCount - 1));
  s.name = j.at("name").get<std::string>();
  s.op_kind = j.value("op_kind", "");
  s.attributes = j.value("attributes", "");
  if (j.contains("inputs"))
    for (const Json& t : j.at("inputs"))
      if (!t.is_null()) s.inputs.push_back(tensor_from(t));
  return s;
}

/// The number of a definition; numbers count from 1, so one beyond `most`, the bytes of the file,
/// is none of ours, and a table must not grow to it.
size_t number_of(const Json& j, size_t most) {
  if (!j.is_number_unsigned() || j.get<size_t>() > most)
    throw Json::out_of_range::create(401, "a number of a definition", &j);
  return j.get<size_t>();
}

void put(std::vector<int32_t>& table, const Json& number, size_t position, size_t most) {
  const size_t n = number_of(number, most);
  if (table.size() <= n) table.resize(n + 1, -1);
  table[n] = static_cast<int32_t>(position);
}

// The latest value of a key, of as many keys as a program means to state.
void add_pair(std::vector<std::pair<std::string, std::string>>& pairs, std::string key,
              std::string value) {
  constexpr size_t kMost = 100;
  const auto known =
      std::find_if(pairs.begin(), pairs.end(), [&](const auto& p) { return p.first == key; });
  if (known != pairs.end())
    known->second = std::move(value);
  else if (pairs.size() < kMost)
    pairs.emplace_back(std::move(key), std::move(value));
}

int32_t entry_of(const std::vector<int32_t>& table, const Json& number) {
  const auto n = number.get<size_t>();
  return n < table.size() ? table[n] : -1;
}

}  // namespace

Definitions::Definitions(Collected& all, const std::string& path) : all_(all) {
  if (!io::is_regular(path)) return;
  std::ifstream file(path);
  file.seekg(0, std::ios::end);
  most_ = static_cast<size_t>(std::max<std::streamoff>(file.tellg(), 0));
  file.seekg(0);
  std::string line;
  while (std::getline(file, line)) {
    const Json j = Json::parse(line, nullptr, false);
    if (j.is_discarded()) continue;  // cut off in the middle, at the end
    try {
      add(j);
    } catch (const Json::exception&) {
      // A line that says less than it should: what refers to it stays without a name.
    }
  }
}

void Definitions::add(const Json& j) {
  Profile& p = all_.profile;
  if (j.contains("call")) {
    add_call(j);
  } else if (j.contains("signature")) {
    p.signatures.push_back(signature_from(j));
    put(signatures_, j["signature"], p.signatures.size() - 1, most_);
  } else if (j.contains("cost")) {
    const auto n = j["cost"].get<size_t>();
    if (n < signatures_.size() && signatures_[n] >= 0)
      set_cost(p.signatures[static_cast<size_t>(signatures_[n])], j);
  } else if (j.contains("site")) {
    p.sites.push_back(site_from(j));
    put(sites_, j["site"], p.sites.size() - 1, most_);
  } else if (j.contains("stack")) {
    add_stack(j);
  } else if (j.contains("module")) {
    add_module(j);
  } else if (j.contains("stalls_missing")) {
    p.run.stalls_missing = j["stalls_missing"].get<std::string>();
  } else if (j.contains("python_package")) {
    all_.python_package = j["python_package"].get<std::string>();
  } else if (j.contains("note")) {
    all_.add_note(j["note"].get<std::string>());
  } else if (j.contains("name")) {
    if (j.contains("text"))
      all_.names[{number, j["name"].get<int64_t>()}] = j["text"].get<std::string>();
  } else if (j.contains("fact")) {
    add_pair(p.run.facts, j["fact"].at(0).get<std::string>(), j["fact"].at(1).get<std::string>());
  } else if (j.contains("start")) {
    start(j["start"]);
  } else if (j.contains("memory") && !all_.memory.empty()) {
    for (size_t c = 0; c < kMemoryCategoryCount; ++c)
      all_.memory[static_cast<size_t>(number)].at_start[c] = j["memory"].at(c).get<int64_t>();
  } else if (j.contains("end")) {
    end(j["end"]);
  }
}

void Definitions::end(const Json& e) {
  ended = true;
  clock.settle(e.at("clocks").at(0), e.at("clocks").at(1));
  end_ns = e.at("clocks").at(1).get<int64_t>();
  all_.watched_ns += e.value("watched_ns", int64_t{0});
  if (clock.nanoseconds == all_.start_ns) {  // the process that began the run
    all_.profile.run.isa = e.value("isa", "");
    all_.profile.run.threads = e.value("threads", 0);
  }
  for (const Json& c : e.at("counters")) counters.push_back({c.at(0), c.at(1), c.at(2)});
}

Site Definitions::site_from(const Json& j) {
  if (!j.contains("object")) {
    Site s;
    s.file = j.value("file", "");
    s.line = j.value("line", 0);
    s.function = j.value("function", "");
    s.python = true;
    return s;
  }
  return all_.symbols.program_line(j.at("object").get<std::string>(),
                                   j.at("offset").get<uint64_t>());
}

void Definitions::add_stack(const Json& j) {
  int32_t frame = -1;
  const Json& list = j.at("frames");
  for (size_t i = list.size(); i-- > 0;) {  // the outermost is last
    frame = all_.child_frame(frame, all_.place_of(site_from(list[i])));
  }
  if (frame >= 0) put(stacks_, j["stack"], static_cast<size_t>(frame), most_);
}

void Definitions::add_call(const Json& j) {
  const size_t n = number_of(j["call"], most_);
  CalledFrom c;
  if (j.at("kind").get<int>() == static_cast<int>(EventKind::Module)) {
    c.module = entry_of(modules_, j.at("what"));
    if (c.module >= 0) c.signature = all_.module_signature(c.module);
  } else {
    c.signature = entry_of(signatures_, j.at("what"));
  }
  const auto line = j.at("line").get<uint32_t>();
  if (line & kRawStack) {
    c.stack = entry_of(stacks_, line & ~kRawStack);
    if (c.stack >= 0) c.site = all_.profile.frames[static_cast<size_t>(c.stack)].site;
  } else {
    c.site = entry_of(sites_, line);
  }
  if (calls.size() <= n) calls.resize(n + 1);
  calls[n] = c;
}

void Definitions::add_module(const Json& j) {
  ModuleInfo m;
  const auto parent = j.at("parent").get<size_t>();
  m.parent = parent < modules_.size() ? modules_[parent] : -1;
  m.type = j.at("type").get<std::string>();
  m.name = j.at("name").get<std::string>();
  m.parameters = j.at("parameters").get<int64_t>();
  m.parameter_bytes = j.at("bytes").get<int64_t>();
  if (m.parent >= 0) {
    constexpr size_t kLongestPath = 1 << 14;  // a chain of modules must not fill the memory
    const std::string above =
        all_.profile.modules[static_cast<size_t>(m.parent)].path.substr(0, kLongestPath);
    m.path = above.empty() || m.name.empty() ? above + m.name : above + "." + m.name;
  }
  if (m.name.empty()) m.name = m.type;
  put(modules_, j["module"], all_.profile.modules.size(), most_);
  all_.profile.modules.push_back(std::move(m));
}

void Definitions::start(const Json& s) {
  const Json& c = s.at("clocks");
  clock.ticks = c.at(0).get<uint64_t>();
  clock.nanoseconds = c.at(1).get<int64_t>();
  clock.settle(c.at(2), c.at(3));
  process = s.at("process").get<int32_t>();
  number = all_.processes++;
  all_.memory.emplace_back();
  RunInfo& run = all_.profile.run;
  if (!run.started.empty() && clock.nanoseconds > all_.start_ns) return;  // the child of a fork
  all_.start_ns = clock.nanoseconds;
  run.program = s.at("program").get<std::string>();
  run.version = s.at("version").get<std::string>();
  run.started = s.at("started").get<std::string>();
  run.mode = s.at("mode").get<std::string>();
  run.sample_rate = s.at("sample_rate").get<double>();
  run.folder = s.value("folder", "");
  run.variables.clear();
  if (s.contains("variables"))
    for (const auto& [name, value] : s.at("variables").items())
      add_pair(run.variables, name, value.get<std::string>());
}

}  // namespace pellucid::profile
