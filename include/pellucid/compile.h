// compile: a function whose calls are captured, fused and run as a whole, where that is faster.
//
//   auto f = compile([](const Tensor& x) { return gelu(x * 100 + 10) + x; });
//   Tensor y = f(x);                   // the same bits as without compile
//   std::cout << f.report().text();    // what was measured, and which way its calls take
//
// See docs/compile.md.
#pragma once

#include <any>
#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "pellucid/detail/tensors_in.h"
#include "pellucid/lazy.h"

namespace pellucid {

/// How a compiled function decides whether a call is captured.
enum class CompileMode {
  Measured,  ///< both ways are timed in calls 3 to 10, and the faster one stays
  Always,    ///< every call is captured
  Whole,     ///< every call is captured, and one that asks for a value throws ValueError
  /// Sealed by itself (Compiled::seal) for arguments of each form, where results need no gradient
  /// and no value is asked for; else every call is captured. What C++ variables hold is not seen.
  ReduceOverhead
};

/// How a function is compiled.
struct CompileOptions {
  CompileMode mode = CompileMode::Measured;
  int64_t memory_budget = 0;  ///< in bytes; 0 for no limit
  /// Passes may round otherwise than the program says: x@y + x@z as x@(y + z).
  bool reassociate = false;
};

/// What a compiled function has found out, for inputs of about one size at a time.
struct PELLUCID_API CompileReport {
  struct Size {
    int64_t least_elements = 0;   ///< of all tensors that are given to the function, together
    int64_t calls = 0;            ///< so far
    double captured_seconds = 0;  ///< the median of the calls that were timed; 0: none yet
    double eager_seconds = 0;
    bool decided = false;
    bool captured = true;  ///< the way that calls take now
  };
  std::vector<Size> sizes;
  int64_t new_in_a_row = 0;  ///< the last so many captures were different from all before
  /// With CompileMode::ReduceOverhead, for arguments of each form that was given.
  struct Form {
    int64_t calls = 0;     ///< that found it sealed, or being sealed
    int64_t replayed = 0;  ///< of them, without calling the function
    std::string refused;   ///< why it is not sealed; "" if it is
  };
  std::vector<Form> forms;
  std::string text() const;
};

namespace detail {

/// What the copies of one compiled function share.
class PELLUCID_API CompileTrials {
 public:
  explicit CompileTrials(const CompileOptions& options);
  const CompileOptions& options() const { return options_; }
  CompileTrials(const CompileTrials&) = delete;
  CompileReport report() const;

 private:
  friend class CompiledCall;
  static constexpr int64_t kWarm = 2, kTimed = 8;  // calls that are not timed, and that are
  struct Size {
    int64_t calls = 0;
    std::vector<double> captured, eager;  // seconds of the calls that were timed
    bool decided = false, captures = true;
  };
  bool begin(size_t size, int64_t& number);
  void end(size_t size, int64_t number, bool captured, double seconds);
  bool note_capture(bool is_new);

  const CompileOptions options_;
  mutable std::mutex mutex_;
  std::array<Size, 64> sizes_;  // by the binary logarithm of the elements
  int64_t new_in_a_row_ = 0;
  bool warned_ = false;
};

/// While it lives, programs of this thread are made with these options.
class PELLUCID_API ProgramOptions {
 public:
  explicit ProgramOptions(const CompileOptions& options);
  ~ProgramOptions();
  ProgramOptions(const ProgramOptions&) = delete;

 private:
  size_t outer_budget_;
  bool outer_reassociate_;
};

/// While it lives, whoever asks for a value on this thread gets a ValueError.
class PELLUCID_API WholeProgram {
 public:
  WholeProgram();
  ~WholeProgram();
  WholeProgram(const WholeProgram&) = delete;

 private:
  const char* outer_;
};

/// One call of a compiled function. What it leaves is computed by finish(), or at the end of the
/// scope if it throws.
class PELLUCID_API CompiledCall {
 public:
  CompiledCall(CompileTrials& trials, int64_t elements);
  ~CompiledCall();
  /// Computes what the call left. True once for a function: when it captured something new in so
  /// many calls in a row that its user should know.
  bool finish();
  CompiledCall(const CompiledCall&) = delete;

 private:
  CompileTrials& trials_;
  size_t size_;
  int64_t number_ = 0;
  const int64_t missed_before_;
  const bool nested_;  // in another compiled call, or in a program that is made: that one captures
  bool captured_;
  std::optional<ProgramOptions> options_;
  std::optional<LazyGuard> lazy_;
  std::optional<WholeProgram> whole_;  // ends first
  std::chrono::steady_clock::time_point begun_;
};

/// How many captures in a row must be new before the user is told.
inline constexpr int64_t kMostNewInARow = 64;
/// Tells on stderr that no program of a function can be kept, with the line that called it.
PELLUCID_API void warn_of_changes();

/// The program of a sealed function. Its calls take turns.
class PELLUCID_API Sealed {
 public:
  /// Where it is not `strict`, what cannot be sealed is no error: the call that finds out does what
  /// a captured one does, and report() tells why.
  explicit Sealed(bool strict = true, const CompileOptions& options = {});
  ~Sealed();
  Sealed(const Sealed&) = delete;
  /// Whether this call must trace the function again: calls 1, 2 and every 1,024th do, and those
  /// that find a tensor replaced which the function uses.
  bool traces(const Tensors& arguments);
  /// Captures until end() or the end of the object; throws ValueError where a value is asked for.
  void begin(const Tensors& arguments, std::vector<uint64_t> others);
  /// `numbers`: hashes of what else the result has, which a replay gives again.
  void end(const Tensors& results, std::any prototype = {}, std::vector<uint64_t> numbers = {});
  /// In the place of end(): the call was one like any other, and there will be no program.
  void end_unsealed(std::string why);
  /// The function failed: what it did before runs, as in an eager call.
  void abandon() noexcept;
  Tensors replay(const Tensors& arguments, const std::vector<uint64_t>& others);
  /// The same; false, before anything was done, where a strict one would throw because of the
  /// arguments.
  bool try_replay(const Tensors& arguments, Tensors& results);
  /// Whether it is known that there will be no program; report() tells why.
  bool is_refused() const;
  CompileReport::Form report() const;
  /// Whether this thread captures its function now.
  bool is_traced_here() const;
  /// The last result that was traced, as it was given to end().
  std::any prototype() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The sealed programs of a function with CompileMode::ReduceOverhead, by the form of arguments.
class PELLUCID_API SealedForms {
 public:
  explicit SealedForms(const CompileOptions& options = {});
  ~SealedForms();
  SealedForms(const SealedForms&) = delete;
  /// That of a call with these arguments: null where it is captured like any other.
  std::shared_ptr<Sealed> find(const Tensors& arguments, const std::vector<uint64_t>& others);
  /// There will be no programs from now on.
  void refuse(std::string why);
  /// Why there are none at all, or no more; "" otherwise.
  std::string refused() const;
  std::vector<CompileReport::Form> report() const;
  /// The same as text: a line for each form.
  std::string text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Whether nobody can ask for a gradient through the tensor's history: backward ran through it and
/// freed what it had saved.
PELLUCID_API bool history_is_spent(const Tensor& t);

/// Whether a compiled call of this thread has not ended, or a program is made: calls of compiled
/// functions belong to that one.
PELLUCID_API bool in_compiled_call();

/// Whether this thread captures a program that will be replayed: what a number is now must not stay
/// in it for ever.
PELLUCID_API bool is_sealing();
/// While is_sealing(): a tensor that holds a number which the program may change between two calls,
/// as a learning rate; `current` gives a tensor with what it is then.
PELLUCID_API void note_live_number(const Tensor& t, std::function<Tensor()> current);
/// While is_sealing(): the program is what the function does only as long as this gives what it
/// gives now, as the options of an optimiser.
PELLUCID_API void note_assumption(std::function<uint64_t()> current);

/// Ends a sealed call if the function throws.
class AbandonUnlessEnded {
 public:
  explicit AbandonUnlessEnded(Sealed& sealed) : sealed_(sealed) {}
  ~AbandonUnlessEnded() { sealed_.abandon(); }
  AbandonUnlessEnded(const AbandonUnlessEnded&) = delete;

 private:
  Sealed& sealed_;
};

/// Throws ValueError for a null pointer and an empty std::function.
PELLUCID_API void check_function(bool exists);
template <class F> bool function_exists(const F& f) {
  if constexpr (
      requires { f == nullptr; } && !requires { f->parameters(); })
    return !(f == nullptr);
  else
    return true;
}

}  // namespace detail

/// A function, or a module, whose calls are captured. Copies share what was found out. It may be
/// called on any thread.
template <class F> class Compiled {
 public:
  explicit Compiled(F f, const CompileOptions& options = {})
      : f_(std::move(f)), trials_(std::make_shared<detail::CompileTrials>(options)) {
    detail::check_function(detail::function_exists(f_));
    if (options.mode == CompileMode::ReduceOverhead)
      forms_ = std::make_shared<detail::SealedForms>(options);
  }

  template <class... Args> auto operator()(Args&&... args) {
    if (sealed_ && !detail::is_sealing()) return call_sealed(std::forward<Args>(args)...);
    if constexpr (can_be_sealed<Args...>())
      if (forms_ && !detail::in_compiled_call()) {
        Tensors tensors;
        std::vector<uint64_t> others;
        (detail::split_argument(args, tensors, others), ...);
        if (const auto sealed = forms_->find(tensors, others))
          return call_form(*sealed, tensors, others, std::forward<Args>(args)...);
      }
    return call_captured(std::forward<Args>(args)...);
  }

  /// Makes one call, captured, and tells what ran how.
  template <class... Args> Explanation explain(Args&&... args) {
    const detail::ProgramOptions options(trials_->options());
    Explanation e;
    if constexpr (std::is_void_v<decltype(f_(std::forward<Args>(args)...))>) {
      e = pellucid::explain([&] { f_(std::forward<Args>(args)...); });
    } else {  // the result must live until it is computed
      std::optional<std::decay_t<decltype(f_(std::forward<Args>(args)...))>> result;
      e = pellucid::explain([&] { result.emplace(f_(std::forward<Args>(args)...)); });
    }
    if (forms_) e.way = forms_->text();
    return e;
  }
  /// From now on calls replay what the function did, without calling it: the tensors among the
  /// arguments and what it captured are read anew, and its other side effects are lost. It is
  /// traced at calls 1, 2 and every 1,024th; one that differs throws ValueError before it runs.
  /// Results have no history. Copies made before are not sealed.
  Compiled& seal() {
    sealed_ = std::make_shared<detail::Sealed>(true, trials_->options());
    return *this;
  }
  bool is_sealed() const { return sealed_ != nullptr; }
  /// What was measured so far, and which way calls take.
  CompileReport report() const {
    CompileReport report = trials_->report();
    if (forms_) report.forms = forms_->report();
    return report;
  }

 private:
  template <class... Args> static constexpr bool can_be_sealed() {
    using Result = decltype(std::declval<F&>()(std::declval<Args>()...));
    constexpr bool arguments = (true && ... && detail::can_be_split<std::decay_t<Args>>);
    return arguments && (std::is_void_v<Result> || detail::can_be_split<std::decay_t<Result>>);
  }

  template <class... Args> auto call_captured(Args&&... args) {
    const auto trials = trials_;  // the function may replace or destroy this object
    detail::CompiledCall call(*trials, (int64_t{0} + ... + detail::elements_in(args)));
    if constexpr (std::is_void_v<decltype(f_(std::forward<Args>(args)...))>) {
      f_(std::forward<Args>(args)...);
      if (call.finish()) detail::warn_of_changes();
    } else {
      auto result = f_(std::forward<Args>(args)...);
      if (call.finish()) detail::warn_of_changes();
      return result;
    }
  }

  // A call that is sealed if it can be.
  template <class... Args>
  auto call_form(detail::Sealed& sealed, const Tensors& tensors, std::vector<uint64_t>& others,
                 Args&&... args) {
    using Result = decltype(f_(std::forward<Args>(args)...));
    Tensors results;
    if constexpr (std::is_void_v<Result>) {
      if (!sealed.traces(tensors)) {
        if (sealed.try_replay(tensors, results)) return;
        return call_captured(std::forward<Args>(args)...);
      }
      sealed.begin(tensors, std::move(others));
      const detail::AbandonUnlessEnded guard(sealed);
      f_(std::forward<Args>(args)...);
      sealed.end({});
    } else {
      using Value = std::decay_t<Result>;
      if (!sealed.traces(tensors)) {
        if (!sealed.try_replay(tensors, results))
          return Value(call_captured(std::forward<Args>(args)...));
        Value result = std::any_cast<Value>(sealed.prototype());
        size_t next = 0;
        detail::visit_tensors(result, [&](Tensor& t) { t = results[next++]; });
        return result;
      }
      sealed.begin(tensors, std::move(others));
      const detail::AbandonUnlessEnded guard(sealed);
      Value result = f_(std::forward<Args>(args)...);
      detail::visit_tensors(result, [](Tensor& t) {
        if (detail::history_is_spent(t)) t = t.detach();  // as in every later call
      });
      std::vector<uint64_t> numbers;
      detail::split_argument(result, results, numbers);
      sealed.end(results, result, std::move(numbers));
      return result;
    }
  }

  template <class... Args> auto call_sealed(Args&&... args) {
    using Result = decltype(f_(std::forward<Args>(args)...));
    PELLUCID_CHECK(can_be_sealed<Args...>(), ValueError,
                   "seal: an argument or the result is of a class whose tensors cannot be found, "
                   "so they would stay those of the first call. Give tensors, or lists, tuples, "
                   "maps and optionals of them.");
    const auto sealed = sealed_;  // the function may seal anew
    Tensors tensors;
    std::vector<uint64_t> others;
    (detail::split_argument(args, tensors, others), ...);
    if constexpr (std::is_void_v<Result>) {
      if (!sealed->traces(tensors)) return void(sealed->replay(tensors, others));
      sealed->begin(tensors, std::move(others));
      const detail::AbandonUnlessEnded guard(*sealed);
      f_(std::forward<Args>(args)...);
      sealed->end({});
    } else {
      using Value = std::decay_t<Result>;
      if (!sealed->traces(tensors)) {
        Value result = std::any_cast<Value>(sealed->prototype());
        const Tensors made = sealed->replay(tensors, others);
        size_t next = 0;
        detail::visit_tensors(result, [&](Tensor& t) { t = made[next++]; });
        return result;
      }
      sealed->begin(tensors, std::move(others));
      const detail::AbandonUnlessEnded guard(*sealed);
      Value result = f_(std::forward<Args>(args)...);
      Tensors results;
      detail::visit_tensors(result, [&](Tensor& t) {
        if (t.defined() && t.requires_grad()) t = t.detach();  // as in every later call
        results.push_back(t);
      });
      sealed->end(results, result);
      return result;
    }
  }

  F f_;
  std::shared_ptr<detail::CompileTrials> trials_;
  std::shared_ptr<detail::Sealed> sealed_;
  std::shared_ptr<detail::SealedForms> forms_;
};

/// The function with its calls captured: its ops run in groups, and what nobody needs is not made.
/// Its results have the same bits. By default, both ways are timed at first, in turns, and the
/// faster one stays. With a memory_budget in bytes all calls are captured, and results that wait
/// until they are read again are computed a second time where that saves memory.
template <class F>
requires(std::is_function_v<std::remove_pointer_t<std::decay_t<F>>> ||
         (std::is_class_v<std::decay_t<F>> && !std::is_convertible_v<F, std::string_view>))
    Compiled<std::decay_t<F>> compile(F&& f, CompileMode mode = CompileMode::Measured,
                                      int64_t memory_budget = 0) {
  return Compiled<std::decay_t<F>>(std::forward<F>(f),
                                   {.mode = mode, .memory_budget = memory_budget});
}
/// The same with all options, by name: compile(f, {.reassociate = true}).
template <class F>
requires(std::is_function_v<std::remove_pointer_t<std::decay_t<F>>> ||
         (std::is_class_v<std::decay_t<F>> && !std::is_convertible_v<F, std::string_view>))
    Compiled<std::decay_t<F>> compile(F&& f, const CompileOptions& options) {
  return Compiled<std::decay_t<F>>(std::forward<F>(f), options);
}

}  // namespace pellucid
