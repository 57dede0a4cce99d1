// Samples: the copied registers and stacks are unwound with the call frame information of the
// files that were mapped, and the addresses become lines. Code made at run time has no such
// information; there a stack ends, and the op that the thread was in tells the rest.
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>

#include "base/files.h"
#include "profile/collect.h"
#include "recorder/python_frames.h"
#include "recorder/sampler.h"

namespace pellucid::profile {
namespace {

// The sample that is unwound now; libdwfl asks for its memory and registers.
struct Current {
  const RawSample* sample = nullptr;
  const char* stack = nullptr;
  std::vector<uint64_t> addresses;
};

pid_t next_thread(Dwfl*, void* arg, void** thread_arg) {
  if (*thread_arg) return 0;
  *thread_arg = arg;
  return 1;
}

bool read_word(Dwfl*, Dwarf_Addr address, Dwarf_Word* result, void* arg) {
  const auto& c = *static_cast<const Current*>(arg);
  const uint64_t from = c.sample->registers[7];
  const uint64_t bytes = c.sample->stack_bytes;
  if (bytes < 8 || address < from || address - from > bytes - 8) return false;
  std::memcpy(result, c.stack + (address - from), 8);
  return true;
}

bool set_registers(Dwfl_Thread* thread, void* arg) {
  const auto& c = *static_cast<const Current*>(arg);
  return dwfl_thread_state_registers(thread, 0, kSampleRegisters, c.sample->registers);
}

int on_frame(Dwfl_Frame* frame, void* arg) {
  auto& c = *static_cast<Current*>(arg);
  Dwarf_Addr pc = 0;
  bool is_activation = false;
  if (!dwfl_frame_pc(frame, &pc, &is_activation)) return DWARF_CB_ABORT;
  c.addresses.push_back(is_activation ? pc : pc - 1);
  return c.addresses.size() < 200 ? DWARF_CB_OK : DWARF_CB_ABORT;
}

// A frame of a Python program.
struct PythonPlace {
  int32_t site;  // -1: of the package
  bool entry;    // the outermost one of its run of the interpreter's loop
};

class Unwinder {
 public:
  Unwinder(Collected& all, const std::string& maps) : all_(all) {
    static char* debug_path = nullptr;
    static const Dwfl_Callbacks callbacks = {.find_elf = dwfl_linux_proc_find_elf,
                                             .find_debuginfo = dwfl_standard_find_debuginfo,
                                             .section_address = nullptr,
                                             .debuginfo_path = &debug_path};
    static const Dwfl_Thread_Callbacks threads = {.next_thread = next_thread,
                                                  .get_thread = nullptr,
                                                  .memory_read = read_word,
                                                  .set_initial_registers = set_registers,
                                                  .detach = nullptr,
                                                  .thread_detach = nullptr};
    std::FILE* file = io::is_regular(maps) ? std::fopen(maps.c_str(), "re") : nullptr;
    if (!file) return;
    dwfl_ = dwfl_begin(&callbacks);
    const bool read = dwfl_ && dwfl_linux_proc_maps_report(dwfl_, file) == 0;
    std::fclose(file);
    if (!read) return;
    dwfl_report_end(dwfl_, nullptr, nullptr);
    attached_ = dwfl_attach_state(dwfl_, nullptr, 1, &threads, &current_);
  }
  ~Unwinder() {
    if (dwfl_) dwfl_end(dwfl_);
  }
  Unwinder(const Unwinder&) = delete;

  /// The stack of a sample as a frame of the profile; -1 where nothing is known. `python` are the
  /// sites of its Python frames, innermost first.
  int32_t stack_of(const RawSample& sample, const char* stack,
                   const std::vector<PythonPlace>& python) {
    current_ = {&sample, stack, {}};
    if (attached_) dwfl_getthread_frames(dwfl_, 1, on_frame, &current_);
    if (current_.addresses.empty()) current_.addresses.push_back(sample.registers[16]);
    std::vector<int32_t> sites;  // innermost first
    size_t next = 0;
    for (const uint64_t address : current_.addresses) {
      const Code& code = code_at(address);
      if (!code.interpreter || next == python.size()) {
        sites.insert(sites.end(), code.sites.begin(), code.sites.end());
        continue;
      }
      // One run of the interpreter's loop: what it interprets stands for it.
      bool more = true;
      while (more && next < python.size()) {
        more = !python[next].entry;
        if (python[next].site >= 0) sites.push_back(python[next].site);
        ++next;
      }
    }
    // The copy of the stack ended before the interpreter's loop: its frames lie further out.
    for (; next < python.size(); ++next)
      if (python[next].site >= 0) sites.push_back(python[next].site);
    int32_t frame = -1;
    for (size_t i = sites.size(); i-- > 0;) frame = all_.child_frame(frame, sites[i]);
    return frame;
  }

 private:
  // What lies at an address: functions, the innermost that was inlined there first.
  struct Code {
    std::vector<int32_t> sites;
    bool interpreter = false;  // CPython's loop
  };
  const Code& code_at(uint64_t address) {
    const auto [it, is_new] = code_.try_emplace(address);
    if (!is_new) return it->second;
    Dwfl_Module* module = dwfl_ ? dwfl_addrmodule(dwfl_, address) : nullptr;
    const char *object = nullptr, *name = nullptr;
    if (module) {
      // What lies behind a file in memory is given to it: code made at run time, as oneDNN's.
      Dwarf_Addr begin = 0, end = 0;
      dwfl_module_info(module, nullptr, &begin, &end, nullptr, nullptr, &object, nullptr);
      if (address < begin || address >= end) {
        module = nullptr;
        object = nullptr;
      }
    }
    if (module) name = dwfl_module_addrname(module, address);
    it->second.interpreter = name && std::string_view(name).starts_with("_PyEval_EvalFrameDefault");
    for (const Site& s : frames_at(module, address, object ? object : ""))
      it->second.sites.push_back(all_.place_of(s));
    return it->second;
  }

  Collected& all_;
  Dwfl* dwfl_ = nullptr;
  bool attached_ = false;
  Current current_;
  std::map<uint64_t, Code> code_;
};

// The records of a file of samples, one after the other.
class SampleFile {
 public:
  explicit SampleFile(const std::string& path) {
    if (io::is_regular(path)) file_.open(path, std::ios::binary);
  }
  explicit operator bool() const { return file_.is_open(); }
  /// False at the end, or where a record was not finished.
  bool next() {
    uint64_t magic = 0;
    if (!read(&magic, sizeof magic)) return false;
    is_code = magic == kCodeMagic;
    if (is_code) return read_rest(code) && read_body(code.bytes());
    if (magic != kSampleMagic || !read_rest(sample)) return false;
    if (sample.stack_bytes > (1u << 20) || sample.python_frames > kMostPythonFrames) return false;
    return read_body(sample.stack_bytes + sample.python_frames * sizeof(RawPythonFrame));
  }
  bool is_code = false;
  RawCode code{};
  RawSample sample{};
  std::vector<char> body;  // what follows either

 private:
  bool read(void* to, size_t bytes) {
    return static_cast<bool>(
        file_.read(static_cast<char*>(to), static_cast<std::streamsize>(bytes)));
  }
  template <class Record> bool read_rest(Record& r) {  // all but its magic number
    return read(reinterpret_cast<char*>(&r) + sizeof r.magic, sizeof r - sizeof r.magic);
  }
  bool read_body(size_t bytes) {
    if (bytes > (1u << 21)) return false;
    body.resize(bytes);
    return read(body.data(), bytes);
  }
  std::ifstream file_;
};

// The code objects of a Python program that samples name.
class PythonCodes {
 public:
  PythonCodes(Collected& all, const std::string& path) : all_(all) {
    for (SampleFile f(path); f.next();)
      if (f.is_code) add(f.code, f.body);
  }
  /// The frames of a sample. Those of the package itself have no site: what they do is charged to
  /// the line that called it.
  std::vector<PythonPlace> places(const RawSample& sample, const char* frames) {
    std::vector<PythonPlace> found;
    for (uint32_t i = 0; i < sample.python_frames; ++i) {
      RawPythonFrame f;
      std::memcpy(&f, frames + i * sizeof f, sizeof f);
      const int32_t site = site_of(f);
      const bool ours = all_.is_python_package(all_.profile.sites[static_cast<size_t>(site)].file);
      found.push_back({ours ? -1 : site, (f.instruction & RawPythonFrame::kEntry) != 0});
    }
    return found;
  }

 private:
  struct Code {
    std::string file, name;
    int first_line;
    std::vector<unsigned char> lines;
  };
  void add(const RawCode& raw, const std::vector<char>& body) {
    const char* at = body.data();
    Code c{std::string(at, raw.file_bytes),
           std::string(at + raw.file_bytes, raw.name_bytes),
           raw.first_line,
           {}};
    const auto* lines =
        reinterpret_cast<const unsigned char*>(at + raw.file_bytes + raw.name_bytes);
    c.lines.assign(lines, lines + raw.lines_bytes);
    codes_.insert_or_assign(raw.number, std::move(c));
  }
  int32_t site_of(const RawPythonFrame& f) {
    const auto [it, is_new] = sites_.try_emplace({f.code, f.instruction & ~RawPythonFrame::kEntry});
    if (!is_new) return it->second;
    Site s;
    s.python = true;
    s.function = "(Python)";  // where the table of code objects was full
    if (const auto code = codes_.find(f.code); code != codes_.end()) {
      const Code& c = code->second;
      s.file = c.file;
      s.function = c.name;
      s.line = python_line(c.lines.data(), c.lines.size(), c.first_line, it->first.second);
    }
    return it->second = all_.place_of(s);
  }

  Collected& all_;
  std::map<uint32_t, Code> codes_;
  std::map<std::pair<uint32_t, uint32_t>, int32_t> sites_;  // by code and instruction
};

}  // namespace

void read_samples(Collected& all, const std::string& folder, const std::string& tag,
                  int32_t process, const ProcessClock& clock,
                  const std::vector<CalledFrom>& calls) {
  const std::string path = fmt::format("{}/samples-{}", folder, tag);
  SampleFile file(path);
  if (!file) return;
  PythonCodes python(all, path);
  Unwinder unwinder(all, fmt::format("{}/maps-{}", folder, tag));
  while (file.next()) {
    all.profile.run.recorded_bytes += static_cast<int64_t>(
        file.body.size() + (file.is_code ? sizeof file.code : sizeof file.sample));
    if (file.is_code) continue;
    const RawSample& raw = file.sample;
    all.handler_ns.push_back(static_cast<double>(raw.took) * clock.ns_per_tick);
    Sample s;
    s.at = clock.at(raw.at) - all.start_ns;
    s.thread = all.thread_index(process, raw.thread);
    s.stack = unwinder.stack_of(raw, file.body.data(),
                                python.places(raw, file.body.data() + raw.stack_bytes));
    if (raw.call == kIdleCall) {
      s.signature = all.idle_signature();
    } else if (raw.call < calls.size()) {
      s.signature = calls[raw.call].signature;
      s.site = calls[raw.call].site;
    }
    all.profile.samples.push_back(s);
  }
}

}  // namespace pellucid::profile
