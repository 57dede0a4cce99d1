// Recording from Python: the lines of the program, scopes, modules, sessions and reports. A line is
// that of the innermost frame outside the package; code objects that were seen are kept alive, so
// that their addresses stay theirs.
#include "profiler.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <memory>
#include <mutex>
#include <sstream>
#include <unordered_map>
#include <vector>

#include "base/atomic_file.h"
#include "pellucid/error.h"
#include "pellucid/profile_report.h"
#include "python_frames.h"
#include "recorder/python_place.h"
#include "recorder/recorder.h"
#include "register.h"

namespace nb = nanobind;

namespace pellucid::python {
namespace {

using profile::EventKind;

// Whose code it is: the program's, the standard library's (copy.deepcopy, functools…), or ours.
enum class Whose : uint8_t { Program, Library, Package };

// Guarded by the GIL, but for `descriptions`, which the recorder reads without it.
struct Places {
  std::string package;  // the folder of our own Python files
  std::string library;  // and that of Python's standard library
  std::unordered_map<PyCodeObject*, Whose> whose;
  std::mutex mutex;
  std::unordered_map<uint64_t, std::string> descriptions;
  static Places& get() {
    static Places& p = *new Places;
    return p;
  }
};

thread_local uint64_t t_place = 0, t_stack = 0;

std::string utf8(PyObject* text) {
  Py_ssize_t size = 0;
  const char* s = PyUnicode_AsUTF8AndSize(text, &size);
  if (!s) PyErr_Clear();
  return s ? std::string(s, static_cast<size_t>(size)) : std::string("?");
}

Whose whose(Places& places, PyCodeObject* code) {
  const auto [it, is_new] = places.whose.try_emplace(code, Whose::Program);
  if (is_new) {
    Py_INCREF(code);
    const std::string file = utf8(code->co_filename);
    const auto in = [&](const std::string& folder) {
      return !folder.empty() && file.starts_with(folder);
    };
    // Installed packages lie below the standard library, but are the program's.
    if (in(places.package) || file.starts_with("<frozen"))
      it->second = Whose::Package;
    else if (in(places.library) && file.find("-packages/") == std::string::npos)
      it->second = Whose::Library;
  }
  return it->second;
}

uint64_t key_of(Places& places, PyFrameObject* frame, PyCodeObject* code) {
  const int line = PyFrame_GetLineNumber(frame);
  const uint64_t key = profile::mix(profile::mix(0x9117, reinterpret_cast<uint64_t>(code)),
                                    static_cast<uint64_t>(line));
  const std::lock_guard lock(places.mutex);
  const auto [it, is_new] = places.descriptions.try_emplace(key);
  if (is_new)
    it->second = fmt::format(R"("file":{},"line":{},"function":{})",
                             profile::json_text(utf8(code->co_filename)), line,
                             profile::json_text(utf8(code->co_name)));
  return key;
}

std::string place_description(uint64_t key) {
  Places& places = Places::get();
  const std::lock_guard lock(places.mutex);
  const auto it = places.descriptions.find(key);
  return it == places.descriptions.end() ? R"("file":"","line":0,"function":"")" : it->second;
}

// Every frame outside the package, innermost first, as a list of definitions.
uint64_t whole_stack() {
  Places& places = Places::get();
  uint64_t key = 0x9157;
  std::string text;
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  while (frame) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    if (whose(places, code) != Whose::Package) {
      const uint64_t place = key_of(places, frame, code);
      key = profile::mix(key, place);
      text += fmt::format("{}{{{}}}", text.empty() ? "" : ",", place_description(place));
    }
    Py_DECREF(code);
    PyFrameObject* back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  if (text.empty()) return 0;
  const std::lock_guard lock(places.mutex);
  places.descriptions.try_emplace(key, "[" + text + "]");
  return key;
}

// The innermost line of the program; where there is none, that of the standard library.
uint64_t current_place() {
  PyThreadState* state = PyThreadState_Get();
  Places& places = Places::get();
  PyFrameObject* frame = PyThreadState_GetFrame(state);
  uint64_t found = 0;
  while (frame) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    const Whose owner = whose(places, code);
    if (owner == Whose::Program || (owner == Whose::Library && found == 0))
      found = key_of(places, frame, code);
    Py_DECREF(code);
    PyFrameObject* back = owner == Whose::Program ? nullptr : PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  return found;
}

// The recorder asks; the GIL may be held or given up.
uint64_t place_key() noexcept {
  if (!Py_IsInitialized() || !PyGILState_GetThisThreadState()) return 0;
  if (PyGILState_Check()) note_place();
  return t_place;
}

uint64_t stack_key() noexcept { return place_key() ? t_stack : 0; }

// ---- scopes: each has a token that is unique to its thread

thread_local std::vector<char> t_scopes;
const void* token() { return reinterpret_cast<const void*>(0x100 + t_scopes.size()); }

void begin(int kind, const std::string& name) {
  if (!profile::recording()) return;
  t_scopes.push_back(0);
  const auto k = static_cast<EventKind>(kind);
  profile::begin_scope(token(), k, profile::scope_signature(k, name));
}

void begin_module(uint64_t id, const std::string& type, const std::string& name, int64_t parameters,
                  int64_t bytes) {
  if (!profile::recording()) return;
  t_scopes.push_back(0);
  const uint32_t parent = profile::innermost_module();
  uint64_t hash = profile::mix(profile::mix(0x9127, id), parent);
  for (const char c : type) hash = profile::mix(hash, static_cast<uint64_t>(c));
  uint32_t number = profile::find_module(hash);
  if (number == 0)
    number = profile::define_module(
        hash, parent,
        fmt::format(R"("name":{},"type":{},"parameters":{},"bytes":{})", profile::json_text(name),
                    profile::json_text(type), parameters, bytes));
  profile::begin_scope(token(), EventKind::Module, number);
}

void end(bool threw) {
  if (t_scopes.empty()) return;
  profile::end_scope(token(), 0, threw);
  t_scopes.pop_back();
}

std::unique_ptr<ProfilerSession> start(const std::string& file, const std::string& mode,
                                       double rate, bool memory, bool stacks) {
  profile::RecorderOptions o;
  o.mode = profile::mode_from_name(mode);
  o.sample_rate = rate;
  o.memory = memory;
  o.stacks = stacks;
  return std::make_unique<ProfilerSession>(file, o);
}

std::string report_text(const profile::Profile& p, const std::string& name, const std::string& sort,
                        const std::string& by, int64_t limit, const std::string& format) {
  profile::ReportOptions o;
  o.sort = sort;
  o.by = by;
  o.limit = limit;
  const auto tables = profile::report(p, name, o);
  return format == "json" ? profile::to_json(tables)
                          : (format == "csv" ? profile::to_csv(tables) : profile::to_text(tables));
}

// Every event as a tuple: name, nanoseconds of begin, end and own time, parent, thread, sizes of
// the inputs, FLOPs, bytes allocated less freed, and its line.
nb::list events_of(const profile::Profile& p) {
  nb::list out;
  for (const profile::Event& e : p.events) {
    const profile::Signature& s = p.signatures[static_cast<size_t>(e.signature)];
    nb::list shapes;
    for (const profile::TensorInfo& t : s.inputs) {
      nb::list sizes;
      for (const int64_t n : t.sizes) sizes.append(n);
      shapes.append(sizes);
    }
    std::string line;
    if (e.site >= 0) {
      const profile::Site& site = p.sites[static_cast<size_t>(e.site)];
      line = fmt::format("{}({}): {}", site.file, site.line, site.function);
    }
    out.append(nb::make_tuple(s.name, e.begin, e.end, e.self, e.parent,
                              p.threads[static_cast<size_t>(e.thread)].id, shapes,
                              s.has_cost ? s.flops : 0.0, e.allocated - e.freed, line));
  }
  return out;
}

void export_file(const profile::Profile& p, const std::string& format, const std::string& path) {
  std::ostringstream out;
  profile::export_profile(p, format, out);
  io::write_file("export", path, out.view());
}

}  // namespace

void note_place() noexcept {
  try {
    t_place = current_place();
    t_stack = profile::recording_stacks() ? whole_stack() : 0;
  } catch (const std::exception&) { t_place = 0; }
}

void register_profiler(nb::module_& m) {
  using profile::Profile;
  register_python_frames();
  profile::set_python_sites({place_key, place_description, stack_key, place_description});
  nb::class_<Profile>(m, "_Profile")
      .def_static("load", &Profile::load)
      .def("save", &Profile::save)
      .def("report", &report_text, nb::arg("name"), nb::arg("sort") = "", nb::arg("by") = "",
           nb::arg("limit") = -1, nb::arg("format") = "text")
      .def("export", &export_file)
      .def("events", &events_of)
      .def_prop_ro("duration", [](const Profile& p) { return p.run.duration; })
      .def_prop_ro("event_cost", [](const Profile& p) { return p.run.event_cost; })
      .def("__len__", [](const Profile& p) { return p.events.size(); });
  nb::class_<ProfilerSession>(m, "_ProfilerSession").def("stop", [](ProfilerSession& s) {
    return s.stop();
  });
  m.def("_profile_start", &start, nb::arg("file") = "", nb::arg("mode") = "trace",
        nb::arg("rate") = 199.0, nb::arg("memory") = true, nb::arg("stacks") = false);
  m.def("_profile_begin", &begin);
  m.def("_profile_begin_module", &begin_module);
  m.def("_profile_end", &end);
  m.def("_profile_begin_step", &profile::begin_step);
  m.def("_profile_end_step", &profile::end_step);
  m.def("_profile_package", [](const std::string& folder, const std::string& library) {
    Places::get().package = folder;
    Places::get().library = library;
    profile::set_python_package(folder);
  });
  m.def("_profile_recording", [] { return profile::recording(); });
}

}  // namespace pellucid::python
