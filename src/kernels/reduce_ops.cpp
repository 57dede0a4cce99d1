// The folds of the reductions, each written once over its compute type and compiled for each ISA
// level. Only blocks are seen here; reduce.cpp cuts shapes into blocks and merges states in a fixed
// tree.
#include <cmath>
#include <limits>

#include "base/cpu.h"
#include "kernels/isa.h"
#include "kernels/lane.h"
#include "kernels/math.h"
#include "kernels/reduce_fold.h"
#include "kernels/reduce_lanes.h"
#include "pellucid/error.h"

namespace pellucid::kernels {
namespace {

template <class T> constexpr T lowest() {
  return std::is_floating_point_v<T> ? -std::numeric_limits<T>::infinity()
                                     : std::numeric_limits<T>::lowest();
}
template <class T> constexpr T highest() {
  return std::is_floating_point_v<T> ? std::numeric_limits<T>::infinity()
                                     : std::numeric_limits<T>::max();
}

/// Keeps g++ from jamming two rows into one loop, which it then cannot vectorise.
[[gnu::always_inline]] inline void keep_rows_apart() { asm volatile("" ::: "memory"); }

/// acc[c] = fold of map(row[c], c) over the rows. Sums take eight rows a pass, so that acc is
/// touched seldom and rounding grows slowly; comparisons take one, because g++ 12 vectorises a tree
/// of them badly.
template <class T, class Map, class Combine>
[[gnu::always_inline]] inline void fold_columns(const T* const* rows, int64_t n, int64_t width,
                                                T identity, T* __restrict acc, const Map& map,
                                                const Combine& combine) {
  for (int64_t c = 0; c < width; ++c) acc[c] = identity;
  int64_t r = 0;
  if constexpr (!std::is_same_v<Combine, MaxCombine> && !std::is_same_v<Combine, MinCombine>)
    for (; r + 8 <= n; r += 8) {
      const T *a = rows[r], *b = rows[r + 1], *d = rows[r + 2], *e = rows[r + 3];
      const T *f = rows[r + 4], *g = rows[r + 5], *h = rows[r + 6], *k = rows[r + 7];
#pragma omp simd
      for (int64_t c = 0; c < width; ++c) {
        const T low =
            combine(combine(map(a[c], c), map(b[c], c)), combine(map(d[c], c), map(e[c], c)));
        const T high =
            combine(combine(map(f[c], c), map(g[c], c)), combine(map(h[c], c), map(k[c], c)));
        acc[c] = combine(acc[c], combine(low, high));
      }
    }
  for (; r < n; ++r) {
    const T* a = rows[r];
    keep_rows_apart();
#pragma omp simd
    for (int64_t c = 0; c < width; ++c) acc[c] = combine(acc[c], map(a[c], c));
  }
}

/// A fold that maps each value and joins with an associative operation.
template <class C, class Rule> struct MapFold {
  using Compute = C;
  using Part = C;
  static constexpr int64_t kParts = 1;
  template <Isa I>
  [[gnu::always_inline]] static void row(const C* x, int64_t n, int64_t, double parameter,
                                         C* state) {
    const Rule rule{parameter};
    *state = fold_lanes<C>(
        n, rule.template identity<C>(), [&](int64_t i) { return rule.map(x[i]); }, rule.combine);
  }
  template <Isa I>
  [[gnu::always_inline]] static void columns(const C* const* rows, int64_t n, int64_t width,
                                             int64_t, double parameter, C* state) {
    const Rule rule{parameter};
    fold_columns(
        rows, n, width, rule.template identity<C>(), state,
        [&](C v, int64_t) { return rule.map(v); }, rule.combine);
  }
  static void merge(C* into, const C* from, int64_t, int64_t width, int64_t, int64_t) {
    const Rule rule{0};
    for (int64_t c = 0; c < width; ++c) into[c] = rule.combine(into[c], from[c]);
  }
  static void finish(const C* state, int64_t, int64_t width, int64_t count, double parameter,
                     C* values, C*, int64_t*) {
    const Rule rule{parameter};
    for (int64_t c = 0; c < width; ++c) values[c] = rule.finish(state[c], count);
  }
};

/// What most rules share: no map, no last step.
template <class Combine> struct Rule {
  double parameter;
  [[no_unique_address]] Combine combine{};
  template <class T> T map(T x) const { return x; }
  template <class T> T finish(T x, int64_t) const { return x; }
};

struct SumRule : Rule<AddCombine> {
  template <class T> T identity() const { return T(0); }
};
struct MeanRule : SumRule {
  template <class T> T finish(T x, int64_t n) const { return x / static_cast<T>(n); }
};
struct ProdRule : Rule<MulCombine> {
  template <class T> T identity() const { return T(1); }
};
struct MaxRule : Rule<MaxCombine> {
  template <class T> T identity() const { return lowest<T>(); }
};
struct MinRule : Rule<MinCombine> {
  template <class T> T identity() const { return highest<T>(); }
};
struct AnyRule : Rule<MaxCombine> {
  template <class T> T identity() const { return T(0); }
  template <class T> T map(T x) const { return x != T(0) ? T(1) : T(0); }
};
struct AllRule : Rule<MinCombine> {
  template <class T> T identity() const { return T(1); }
  template <class T> T map(T x) const { return x != T(0) ? T(1) : T(0); }
};
struct Norm0Rule : SumRule {
  template <class T> T map(T x) const { return x != T(0) ? T(1) : T(0); }
};
struct Norm1Rule : SumRule {
  template <class T> T map(T x) const { return std::abs(x); }
};
struct Norm2Rule : SumRule {
  template <class T> T map(T x) const { return x * x; }
  template <class T> T finish(T x, int64_t) const { return std::sqrt(x); }
};
struct NormPRule : SumRule {
  template <class T> T map(T x) const {
    return std::pow(std::abs(x), static_cast<T>(this->parameter));
  }
  template <class T> T finish(T x, int64_t) const {
    return std::pow(x, static_cast<T>(1 / this->parameter));
  }
};
struct MaxAbsRule : Rule<MaxCombine> {
  template <class T> T identity() const { return T(0); }
  template <class T> T map(T x) const { return std::abs(x); }
};
struct MinAbsRule : Rule<MinCombine> {
  template <class T> T identity() const { return highest<T>(); }
  template <class T> T map(T x) const { return std::abs(x); }
};

/// Mean and sum of squared deviations: two passes over a block while it is in cache, Chan's formula
/// between blocks.
template <class C, bool Root> struct VarFold {
  using Compute = C;
  using Part = C;
  static constexpr int64_t kParts = 2;
  template <Isa I>
  [[gnu::always_inline]] static void row(const C* x, int64_t n, int64_t, double, C* state) {
    const C mean = fold_lanes<C>(
                       n, C(0), [&](int64_t i) { return x[i]; }, AddCombine{}) /
                   static_cast<C>(n);
    state[0] = mean;
    state[1] = fold_lanes<C>(
        n, C(0), [&](int64_t i) { return (x[i] - mean) * (x[i] - mean); }, AddCombine{});
  }
  template <Isa I>
  [[gnu::always_inline]] static void columns(const C* const* rows, int64_t n, int64_t width,
                                             int64_t, double, C* state) {
    C mean[kFoldTile];
    fold_columns(
        rows, n, width, C(0), mean, [](C v, int64_t) { return v; }, AddCombine{});
    for (int64_t c = 0; c < width; ++c) mean[c] /= static_cast<C>(n);
    const C* m = mean;
    fold_columns(
        rows, n, width, C(0), state + kFoldTile,
        [m](C v, int64_t c) { return (v - m[c]) * (v - m[c]); }, AddCombine{});
    for (int64_t c = 0; c < width; ++c) state[c] = mean[c];
  }
  static void merge(C* into, const C* from, int64_t pitch, int64_t width, int64_t n_into,
                    int64_t n_from) {
    const double total = static_cast<double>(n_into) + static_cast<double>(n_from);
    const C share = static_cast<C>(static_cast<double>(n_from) / total);
    const C weight =
        static_cast<C>(static_cast<double>(n_into) * (static_cast<double>(n_from) / total));
    for (int64_t c = 0; c < width; ++c) {
      const C delta = from[c] - into[c];
      into[c] += delta * share;
      into[pitch + c] += from[pitch + c] + delta * delta * weight;
    }
  }
  static void finish(const C* state, int64_t pitch, int64_t width, int64_t count, double correction,
                     C* values, C* means, int64_t*) {
    const C divisor = static_cast<C>(std::max(0.0, static_cast<double>(count) - correction));
    for (int64_t c = 0; c < width; ++c) {
      means[c] = state[c];
      const C var = state[pitch + c] / divisor;
      values[c] = Root ? std::sqrt(var) : var;
    }
  }
};

/// What exponents are shifted by: the largest value, unless that is infinite.
template <class C> C shift_of(C largest) { return std::isinf(largest) ? C(0) : largest; }

/// The largest value and the sum of exponentials shifted by it.
template <class C> struct LogSumExpFold {
  using Compute = C;
  using Part = C;
  static constexpr int64_t kParts = 2;
  template <Isa I>
  [[gnu::always_inline]] static void row(const C* x, int64_t n, int64_t, double, C* state) {
    const C largest = fold_lanes<C>(
        n, lowest<C>(), [&](int64_t i) { return x[i]; }, MaxCombine{});
    const C shift = shift_of(largest);
    state[0] = largest;
    C exps[kFoldBlock];
    for (int64_t i = 0; i < n; ++i) exps[i] = exp(Lane<C, I>(x[i] - shift)).v;
    state[1] = fold_lanes<C>(
        n, C(0), [&](int64_t i) { return exps[i]; }, AddCombine{});
  }
  template <Isa I>
  [[gnu::always_inline]] static void columns(const C* const* rows, int64_t n, int64_t width,
                                             int64_t, double, C* state) {
    C shift[kFoldTile];
    fold_columns(
        rows, n, width, lowest<C>(), state, [](C v, int64_t) { return v; }, MaxCombine{});
    for (int64_t c = 0; c < width; ++c) shift[c] = shift_of(state[c]);
    const C* s = shift;
    C* sum = state + kFoldTile;
    for (int64_t c = 0; c < width; ++c) sum[c] = C(0);
    for (int64_t r = 0; r < n; ++r) {
      const C* x = rows[r];
      keep_rows_apart();
#pragma omp simd
      for (int64_t c = 0; c < width; ++c) sum[c] += exp(Lane<C, I>(x[c] - s[c])).v;
    }
  }
  static void merge(C* into, const C* from, int64_t pitch, int64_t width, int64_t, int64_t) {
    for (int64_t c = 0; c < width; ++c) {
      const C largest = MaxCombine{}(into[c], from[c]), shift = shift_of(largest);
      // A sum of 0 comes from -inf only; its own shift of 0 must not overflow the factor.
      const auto moved = [&](C was, C sum) {
        return sum == C(0) ? C(0) : sum * std::exp(shift_of(was) - shift);
      };
      into[pitch + c] = moved(into[c], into[pitch + c]) + moved(from[c], from[pitch + c]);
      into[c] = largest;
    }
  }
  static void finish(const C* state, int64_t pitch, int64_t width, int64_t, double, C* values, C*,
                     int64_t*) {
    for (int64_t c = 0; c < width; ++c) values[c] = std::log(state[pitch + c]) + shift_of(state[c]);
  }
};

/// The extreme value and its first position. Positions live in the state's number type: exact to
/// 2^53.
template <class C, class Combine> struct ArgFold {
  using Compute = C;
  using Part = std::conditional_t<std::is_same_v<C, float>, double, C>;
  static constexpr int64_t kParts = 2;
  /// Whether b, which comes later, takes a's place.
  template <class T> static bool wins(T b, T a) {
    const bool beats = std::is_same_v<Combine, MaxCombine> ? b > a : b < a;
    return beats | ((b != b) & (a == a));
  }
  template <Isa I>
  [[gnu::always_inline]] static void row(const C* x, int64_t n, int64_t first, double,
                                         Part* state) {
    const C best = fold_lanes<C>(
        n, x[0], [&](int64_t i) { return x[i]; }, Combine{});
    int64_t at = 0;
    if (best != best)
      while (x[at] == x[at]) ++at;
    else
      while (x[at] != best) ++at;
    state[0] = static_cast<Part>(best);
    state[1] = static_cast<Part>(first + at);
  }
  template <Isa I>
  [[gnu::always_inline]] static void columns(const C* const* rows, int64_t n, int64_t width,
                                             int64_t first, double, Part* state) {
    C best[kFoldTile];
    int32_t at[kFoldTile];
    for (int64_t c = 0; c < width; ++c) best[c] = rows[0][c], at[c] = 0;
    for (int64_t r = 1; r < n; ++r) {
      const C* x = rows[r];
      keep_rows_apart();
#pragma omp simd
      for (int64_t c = 0; c < width; ++c) {
        const C old = best[c], now = x[c];
        // As wins(), in the form that is vectorised: the new value stays unless the old one holds.
        const C joined = Combine{}(old, now);
        const bool holds = (joined == old) | (old != old);
        best[c] = joined;
        at[c] = holds ? at[c] : static_cast<int32_t>(r);
      }
    }
    for (int64_t c = 0; c < width; ++c) {
      state[c] = static_cast<Part>(best[c]);
      state[kFoldTile + c] = static_cast<Part>(first + at[c]);
    }
  }
  static void merge(Part* into, const Part* from, int64_t pitch, int64_t width, int64_t, int64_t) {
    for (int64_t c = 0; c < width; ++c)
      if (wins(from[c], into[c])) into[c] = from[c], into[pitch + c] = from[pitch + c];
  }
  static void finish(const Part* state, int64_t pitch, int64_t width, int64_t, double, C* values,
                     C*, int64_t* indices) {
    for (int64_t c = 0; c < width; ++c) {
      values[c] = static_cast<C>(state[c]);
      indices[c] = static_cast<int64_t>(state[pitch + c]);
    }
  }
};

/// The erased functions of one fold.
template <class F> struct Erased {
  using C = typename F::Compute;
  using P = typename F::Part;
  struct Row {
    template <Isa I>
    [[gnu::always_inline]] static void run(const void* x, int64_t n, int64_t first,
                                           double parameter, void* state) {
      F::template row<I>(static_cast<const C*>(x), n, first, parameter, static_cast<P*>(state));
    }
  };
  struct Columns {
    template <Isa I>
    [[gnu::always_inline]] static void run(const void* const* rows, int64_t n, int64_t width,
                                           int64_t first, double parameter, void* state) {
      F::template columns<I>(reinterpret_cast<const C* const*>(rows), n, width, first, parameter,
                             static_cast<P*>(state));
    }
  };
  static void merge(void* into, const void* from, int64_t pitch, int64_t width, int64_t n_into,
                    int64_t n_from) {
    F::merge(static_cast<P*>(into), static_cast<const P*>(from), pitch, width, n_into, n_from);
  }
  static void finish(const void* state, int64_t pitch, int64_t width, int64_t count,
                     double parameter, void* values, void* means, int64_t* indices) {
    F::finish(static_cast<const P*>(state), pitch, width, count, parameter, static_cast<C*>(values),
              static_cast<C*>(means), indices);
  }
  static constexpr Fold table(Isa level) {
    return {
        F::kParts,
        sizeof(P),
        dtype_of<C>,
        IsaLoops<Row, const void*, int64_t, int64_t, double, void*>::at(level),
        IsaLoops<Columns, const void* const*, int64_t, int64_t, int64_t, double, void*>::at(level),
        merge,
        finish};
  }
};

template <class F> const Fold& at_this_isa() {
  static constexpr Fold tables[] = {Erased<F>::table(Isa::Baseline), Erased<F>::table(Isa::V3),
                                    Erased<F>::table(Isa::V4)};
  return tables[static_cast<int>(isa())];
}

template <class C> const Fold& norm_fold(double p) {
  if (p == 0) return at_this_isa<MapFold<C, Norm0Rule>>();
  if (p == 1) return at_this_isa<MapFold<C, Norm1Rule>>();
  if (p == 2) return at_this_isa<MapFold<C, Norm2Rule>>();
  if (p == std::numeric_limits<double>::infinity()) return at_this_isa<MapFold<C, MaxAbsRule>>();
  if (p == -std::numeric_limits<double>::infinity()) return at_this_isa<MapFold<C, MinAbsRule>>();
  return at_this_isa<MapFold<C, NormPRule>>();
}

template <class C> const Fold& typed_fold(const ReduceArgs& args) {
  switch (args.op) {
    case ReduceOp::Sum:
      return at_this_isa<MapFold<C, SumRule>>();
    case ReduceOp::Prod:
      return at_this_isa<MapFold<C, ProdRule>>();
    case ReduceOp::Max:
      return at_this_isa<MapFold<C, MaxRule>>();
    case ReduceOp::Min:
      return at_this_isa<MapFold<C, MinRule>>();
    case ReduceOp::ArgMax:
      return at_this_isa<ArgFold<C, MaxCombine>>();
    case ReduceOp::ArgMin:
      return at_this_isa<ArgFold<C, MinCombine>>();
    case ReduceOp::Any:
      return at_this_isa<MapFold<C, AnyRule>>();
    case ReduceOp::All:
      return at_this_isa<MapFold<C, AllRule>>();
    default:
      break;
  }
  if constexpr (std::is_floating_point_v<C>) {
    switch (args.op) {
      case ReduceOp::Mean:
        return at_this_isa<MapFold<C, MeanRule>>();
      case ReduceOp::Var:
        return at_this_isa<VarFold<C, false>>();
      case ReduceOp::Std:
        return at_this_isa<VarFold<C, true>>();
      case ReduceOp::LogSumExp:
        return at_this_isa<LogSumExpFold<C>>();
      default:
        return norm_fold<C>(args.parameter);
    }
  }
  PELLUCID_ASSERT(!"a reduction that needs floating point was asked for in integers");
  __builtin_unreachable();
}

}  // namespace

const Fold& fold_for(const ReduceArgs& args) {
  const bool whole = args.op == ReduceOp::Sum || args.op == ReduceOp::Prod ||
                     args.op == ReduceOp::Max || args.op == ReduceOp::Min ||
                     args.op == ReduceOp::ArgMax || args.op == ReduceOp::ArgMin ||
                     args.op == ReduceOp::Any || args.op == ReduceOp::All;
  const bool test = args.op == ReduceOp::Any || args.op == ReduceOp::All;
  if (test && element_size(args.in_type) == 1)
    return args.op == ReduceOp::Any ? at_this_isa<MapFold<uint8_t, AnyRule>>()
                                    : at_this_isa<MapFold<uint8_t, AllRule>>();
  const bool wide = args.in_type == kFloat64 || (args.out_type == kFloat64 && args.out);
  if (wide && (is_floating(args.in_type) || !test)) return typed_fold<double>(args);
  if (is_floating(args.in_type) || (args.out && is_floating(args.out_type)) || !whole)
    return typed_fold<float>(args);
  return typed_fold<int64_t>(args);
}

double empty_result(const ReduceArgs& args) {
  switch (args.op) {
    case ReduceOp::Prod:
    case ReduceOp::All:
      return 1;
    case ReduceOp::Mean:
    case ReduceOp::Var:
    case ReduceOp::Std:
      return std::numeric_limits<double>::quiet_NaN();
    case ReduceOp::LogSumExp:
      return -std::numeric_limits<double>::infinity();
    case ReduceOp::Norm:
      return args.parameter < 0 ? std::numeric_limits<double>::infinity() : 0;
    default:
      return 0;
  }
}

}  // namespace pellucid::kernels
