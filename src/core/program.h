// A captured program that can run again: the graph of its calls after the passes, its memory plan,
// and calls that are ready to run. It is found by a key of all that decides how it runs; numbers,
// seeds and addresses are given anew with each run.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/random.h"
#include "core/capture.h"
#include "core/fuse.h"
#include "core/updates.h"
#include "graph/beside.h"
#include "graph/graph.h"
#include "graph/passes.h"
#include "graph/plan.h"
#include "pellucid/lazy.h"
#include "tensor/weights.h"

namespace pellucid::detail {

/// Tells programs apart: ops, values, sizes, strides, dtypes, layouts, which tensors share memory,
/// which results are seen afterwards, attributes that are not mere numbers.
struct ProgramKey {
  uint64_t high = 0, low = 0;
  bool operator==(const ProgramKey&) const = default;
};

/// The storages of captured calls, numbered in the order in which the calls use them.
class StorageNumbers {
 public:
  /// `prefixes` gets a key of the calls up to each one, whatever is seen of their results.
  StorageNumbers(const Capture& capture, std::span<CapturedCall* const> calls,
                 std::vector<uint64_t>* prefixes = nullptr);
  uint32_t operator[](const CapturedView& v) const { return by_slot_[v.slot]; }
  /// The same of a storage; kNone (graph/graph.h) for one that the calls do not use.
  uint32_t of(const Storage& s) const;
  std::span<Storage* const> storages() const { return storages_; }
  /// Whether somebody may read the storage of a number after the calls.
  bool seen_later(size_t number) const { return seen_later_[number]; }
  /// The key of the calls.
  ProgramKey key() const { return key_; }

 private:
  const Capture& capture_;
  std::vector<Storage*> storages_;
  std::vector<uint8_t> seen_later_;
  std::vector<uint32_t> by_slot_;  // of the capture
  ProgramKey key_;
};

/// The graph of captured calls. It borrows their attributes.
graph::Graph graph_of(std::span<CapturedCall* const> calls, const StorageNumbers& numbers);

/// Whether independent calls run side by side where the model and a measurement say that it pays,
/// or wherever they can: for tests.
enum class BesideRule : uint8_t { Pays, Always };
extern std::atomic<BesideRule> beside_rule;

/// What one run of a program needs and the next one reuses: calls on storages of its own, groups of
/// them, and where results lie.
class Frame {
 public:
  /// From so many bytes on a result has memory of its own while it is needed.
  static constexpr size_t kLargeResult = size_t{16} << 10;
  /// What running side by side may add to the most that is needed at one time.
  static constexpr size_t kMoreMemory = size_t{64} << 10;
  /// `addresses`: of each storage that exists now; numbers are read while groups are formed.
  Frame(const graph::Graph& g, std::span<void* const> addresses, const graph::PassSet& set,
        bool reasons);
  Frame(const Frame&) = delete;
  ~Frame();

  /// What the calls read beside tensors, from captured ones if there are any; false where the frame
  /// cannot run so, because a number chooses another loop.
  bool take_parameters(std::span<CapturedCall* const> calls, std::span<void* const> addresses);
  /// Random numbers for the next run, where no captured call has reserved them: each call gets
  /// those of `now` that lie where its own lay in `traced`.
  void take_random(const PhiloxRange& traced, const PhiloxRange& now);
  /// Memory that is not the frame's own.
  struct Outside {
    /// Gives it to a result that is seen afterwards and has none, right before it is written.
    std::function<void*(uint32_t storage)> give;
    /// Told of each large external storage after its last use, if anybody wants to know.
    std::function<void(uint32_t storage)> let_go = {};
    /// By number; those that exist before the run.
    std::span<Storage* const> storages = {};
  };
  /// Runs all. `addresses`: of each external storage and each one that has memory. The places of
  /// the others are set. `done` counts the nodes that ran, if it throws.
  void run(std::span<void* const> addresses, const Outside& outside, size_t& done);
  /// After run() threw: the memory of the results inside, which the caller takes over.
  struct Arena {
    struct Memory {
      void* data = nullptr;
      size_t bytes = 0;
      MemoryCategory category = MemoryCategory::Activation;
    };
    std::vector<Memory> blocks;
    ~Arena();
  };
  std::shared_ptr<Arena> take_arena();
  /// Where a result inside lies while the arena exists; null for one without memory.
  void* address(uint32_t storage) const { return storages_[storage]->data; }

  void explain(Explanation& e) const;

 private:
  struct Unit {
    size_t first = 0, count = 1;               // of the calls
    std::unique_ptr<Group> group;              // one of
    std::unique_ptr<Updates> updates;          // these
    std::unique_ptr<PreparedCall> single;      // three
    std::unique_ptr<CapturedWeights> weights;  // of the first call, if it is a contraction
    uint32_t held = graph::kNone;              // its weights, if nobody changes them here
    std::string end;
    int64_t unmade = 0, unmade_bytes = 0;  // results that live in tiles alone
    // Storages that get memory before it, give it back after it, or are external and used last.
    std::vector<uint32_t> takes, frees, leaves;
  };
  /// Units that run on several threads, and what their first runs took each way.
  struct Beside {
    graph::Section section;
    std::unique_ptr<std::atomic<uint32_t>[]> done;  // of each unit: the last run that it is done in
    uint32_t run = 0;
    int runs = 0;
    bool slower = false;
    double serial = 0, beside = 0;  // seconds, the least
    size_t end() const { return section.first + section.size(); }
  };
  /// When the storages are used, in units. What several threads of a section use is needed from its
  /// first unit to its last.
  struct Uses {
    std::vector<uint32_t> first, last;
    std::vector<uint32_t> own_first, own_last;  // whatever runs side by side
  };
  /// An input of a group's call that is a number: a group is told when it changes.
  struct Number {
    uint32_t unit, member, storage;
    uint64_t bits;
  };
  /// Room for a number, for storages without memory.
  struct alignas(64) Nowhere {
    char bytes[64] = {};
  };
  bool take_from(std::span<CapturedCall* const> calls);
  void set_addresses(std::span<void* const> addresses);
  void find_random();
  void make_calls(const graph::Graph& g);
  void form_units(bool fuse, bool reasons);
  void find_weights(Unit& u);
  void find_beside(const graph::Graph& g, bool plan);
  graph::Step step_of(const graph::Graph& g, const Unit& u) const;
  Uses uses_of(const graph::Graph& g) const;
  const Beside* beside_at(size_t unit) const;
  int64_t scratch_of(const Unit& u) const;
  int64_t foresee_section(const graph::Graph& g, const Beside& b,
                          const std::vector<uint32_t>& first, const std::vector<uint32_t>& last,
                          const std::vector<int64_t>& change) const;
  void run_beside(Beside& b, const Outside& outside);
  void run_on_threads(Beside& b, const Outside& outside);
  void run_in_order(Beside& b, const Outside& outside);
  void run_own(const Beside& b, size_t u, const Outside& outside);
  void run_unit(Unit& u, const Outside& outside);
  void keep_for_ties(const graph::Graph& g, Uses& uses) const;
  void take_memory(Unit& u, const Outside& outside);
  void give_back(Unit& u, const Outside& outside);
  void place_results(const graph::Graph& g, bool plan);
  void borrow_places(const graph::Graph& g, const std::vector<uint32_t>& first,
                     std::vector<uint32_t>& last);
  static bool reads_alike(const graph::Graph& g, const Unit& unit, uint32_t storage,
                          const graph::Value& like);
  size_t foresee_peak(const graph::Graph& g, const std::vector<uint32_t>& first,
                      const std::vector<uint32_t>& last);
  void watch_numbers();

  const graph::Graph& graph_;
  std::unique_ptr<Nowhere[]> nowhere_;
  std::vector<Storage*> storages_;  // by number; the calls' tensors own them
  std::vector<std::unique_ptr<CapturedCall>> calls_;
  std::vector<uint32_t> origins_;  // the captured call that each one is
  std::vector<Unit> units_;
  std::vector<Beside> beside_;              // in order
  std::vector<graph::Section> not_beside_;  // that could be, with the reason
  std::vector<Number> numbers_;
  /// A call that draws random numbers, and calls that draw the same ones again (a gradient of
  /// dropout): two of their attributes say which.
  struct Random {
    size_t call;
    std::vector<std::pair<size_t, size_t>> again;  // a call, and its attribute "seed"
  };
  std::vector<Random> random_;  // in program order
  bool random_found_ = false;
  std::vector<uint32_t> inside_;  // storages with a place in the planned block
  graph::Plan plan_;
  /// Large results have memory of their own, from the first unit that uses them to the last one, so
  /// that a run needs no more at one time than eager calls.
  std::vector<uint32_t> large_;
  std::vector<uint32_t> changed_;  // external storages that the calls write
  std::vector<uint32_t> lender_;   // of a storage the one in whose place it lies, else kNone
  size_t peak_bytes_ = 0;
  Arena::Memory small_;  // the planned block, while it runs
};

/// A program and its frames. Any number of threads may run it at once.
class ReplayProgram {
 public:
  /// `after` sees the graph as captured, too.
  ReplayProgram(std::span<CapturedCall* const> calls, const StorageNumbers& numbers,
                const graph::AfterPass& after = {});

  /// Runs captured calls, and gives memory to what is seen afterwards. `let_go` as in
  /// Frame::Outside, of a captured storage. If a kernel throws,
  /// the calls that did not run keep what they need and `ran` says which did.
  void run(std::span<CapturedCall* const> calls, const StorageNumbers& numbers,
           const std::function<void(Storage&)>& let_go, std::vector<bool>& ran);
  /// Runs without captured calls: `addresses` and `outside` as in Frame::run, random numbers as in
  /// Frame::take_random.
  void replay(std::span<void* const> addresses, const Frame::Outside& outside,
              const PhiloxRange& traced, const PhiloxRange& now);
  /// What runs how.
  void explain(Explanation& e);

  const graph::Graph& graph() const { return graph_; }

 private:
  std::unique_ptr<Frame> make_frame(std::span<void* const> addresses);
  std::unique_ptr<Frame> take(std::span<CapturedCall* const> calls,
                              std::span<void* const> addresses);
  void put_back(std::unique_ptr<Frame> frame);
  void hand_over(Frame& frame, size_t done, std::span<Storage* const> storages,
                 std::vector<bool>& ran) const;

  graph::Graph graph_;
  std::deque<OwnedAttrs> attrs_;  // of the graph's nodes
  std::vector<graph::PassResult> passes_;
  graph::PassSet set_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Frame>> idle_;
  double passes_seconds_ = 0;
  std::atomic<double> frame_seconds_{0};  // to make the first one
};

/// How often this thread ran all that it had captured and found no program for it, because it had
/// never captured the same before.
PELLUCID_API int64_t programs_missed();

/// The programs of the process, found by key; those that were not used for longest go first.
class ProgramCache {
 public:
  static ProgramCache& get();
  static constexpr size_t kMost = 256;
  /// The program of a key. Null if the key is new: a program is made when it is seen again, so that
  /// calls whose sizes never repeat cost nothing. `build`: makes it at once.
  std::shared_ptr<ReplayProgram> find(const ProgramKey& key, std::span<CapturedCall* const> calls,
                                      const StorageNumbers& numbers, bool build);
  size_t size();
  void clear();
  int64_t built() const { return built_.load(std::memory_order_relaxed); }
  int64_t found() const { return found_.load(std::memory_order_relaxed); }

 private:
  struct Entry {
    ProgramKey key;
    std::shared_ptr<ReplayProgram> program;
  };
  struct Hash {
    size_t operator()(const ProgramKey& k) const { return k.low; }
  };
  std::mutex mutex_;
  std::list<Entry> entries_;  // the last used first
  std::unordered_map<ProgramKey, std::list<Entry>::iterator, Hash> by_key_;
  std::atomic<int64_t> built_{0}, found_{0};
};

}  // namespace pellucid::detail
