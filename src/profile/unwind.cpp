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

#include "profile/collect.h"
#include "profile/sampler.h"

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
    std::FILE* file = std::fopen(maps.c_str(), "r");
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

  /// The stack of a sample as a frame of the profile; -1 where nothing is known.
  int32_t stack_of(const RawSample& sample, const char* stack) {
    current_ = {&sample, stack, {}};
    if (attached_) dwfl_getthread_frames(dwfl_, 1, on_frame, &current_);
    if (current_.addresses.empty()) current_.addresses.push_back(sample.registers[16]);
    int32_t frame = -1;
    for (size_t i = current_.addresses.size(); i-- > 0;) {
      const std::vector<int32_t>& sites = sites_at(current_.addresses[i]);
      for (size_t k = sites.size(); k-- > 0;) frame = all_.child_frame(frame, sites[k]);
    }
    return frame;
  }

 private:
  const std::vector<int32_t>& sites_at(uint64_t address) {
    const auto [it, is_new] = sites_.try_emplace(address);
    if (!is_new) return it->second;
    Dwfl_Module* module = dwfl_ ? dwfl_addrmodule(dwfl_, address) : nullptr;
    const char* object = nullptr;
    if (module)
      dwfl_module_info(module, nullptr, nullptr, nullptr, nullptr, nullptr, &object, nullptr);
    for (const Site& s : frames_at(module, address, object ? object : ""))
      it->second.push_back(all_.place_of(s));
    return it->second;
  }

  Collected& all_;
  Dwfl* dwfl_ = nullptr;
  bool attached_ = false;
  Current current_;
  std::map<uint64_t, std::vector<int32_t>> sites_;
};

}  // namespace

void read_samples(Collected& all, const std::string& folder, const std::string& tag,
                  int32_t process, const ProcessClock& clock,
                  const std::vector<CalledFrom>& calls) {
  std::ifstream file(fmt::format("{}/samples-{}", folder, tag), std::ios::binary);
  if (!file) return;
  Unwinder unwinder(all, fmt::format("{}/maps-{}", folder, tag));
  RawSample raw;
  std::vector<char> stack;
  while (file.read(reinterpret_cast<char*>(&raw), sizeof raw)) {
    if (raw.magic != kSampleMagic || raw.stack_bytes > (1u << 20)) break;
    stack.resize(raw.stack_bytes);
    if (!file.read(stack.data(), static_cast<std::streamsize>(stack.size()))) break;
    Sample s;
    s.at = clock.at(raw.at) - all.start_ns;
    s.thread = all.thread_index(process, raw.thread);
    s.stack = unwinder.stack_of(raw, stack.data());
    if (raw.call < calls.size()) {
      s.signature = calls[raw.call].signature;
      s.site = calls[raw.call].site;
    }
    all.profile.samples.push_back(s);
    all.profile.run.recorded_bytes += static_cast<int64_t>(sizeof raw) + raw.stack_bytes;
  }
}

}  // namespace pellucid::profile
