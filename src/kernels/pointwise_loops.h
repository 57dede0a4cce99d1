// Inner loops made from formulas: one plain loop per formula, type and ISA level, over contiguous
// blocks of the compute type. Layout, conversion and threads are run_pointwise's business.
//
// A formula is a struct with `template <class V> V value(V…) const` and, where it is
// differentiable, `template <class V> V grad(V g, V…) const`. What a loop calls and which types it
// reads and writes is the Kind; for which types it exists is the Types policy. A formula may have
// `template <class V> static auto ordinary(V x)`, or of all its arguments: blocks in which it holds
// everywhere run with V::kOrdinary, where the maths leaves out the care for special values and
// gives the same bits. A formula that calls sin, cos, tan, fmod, remainder or floor_div has a
// member `static constexpr bool kUsesLibm = true`: of its other blocks only the elements that are
// not ordinary run without V::kOrdinary, one by one, because libm may answer for them.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

#include "kernels/lane.h"

namespace pellucid::kernels {

/// out[i] = f(in[0][i], in[1][i], …) for i < n; everything contiguous, in compute types. out may be
/// one of the inputs.
using InnerLoop = void (*)(const void* functor, void* out, const void* const* in, int64_t n);

/// The loops of one formula at one ISA level; null for types that the policy leaves out.
struct LoopTable {
  InnerLoop f32 = nullptr, f64 = nullptr, i32 = nullptr, i64 = nullptr;
  size_t functor_bytes = 0;
};

/// Types policies.
struct FloatTypes {
  static constexpr bool floats = true, integers = false;
};
struct IntegerTypes {
  static constexpr bool floats = false, integers = true;
};
struct AllTypes {
  static constexpr bool floats = true, integers = true;
};

namespace detail {

template <class F> constexpr bool uses_libm() {
  if constexpr (requires { F::kUsesLibm; })
    return F::kUsesLibm;
  else
    return false;
}

/// bool storage is a byte that is 0 or 1 when we wrote it; any other byte counts as true.
template <class T, class V> [[gnu::always_inline]] inline auto load(const void* p, int64_t i) {
  if constexpr (std::is_same_v<T, bool>)
    return LaneMask{static_cast<const uint8_t*>(p)[i] != 0};
  else
    return V(static_cast<const T*>(p)[i]);
}

}  // namespace detail

/// Kinds: what is called, from N inputs. Input k has type T, or bool where `first_is_bool` and k is
/// 0.
template <int N> struct ValueKind {  ///< T from N of T
  static constexpr int arity = N;
  static constexpr bool first_is_bool = false, bool_out = false;
  template <class F, class... A> [[gnu::always_inline]] static auto call(const F& f, A... a) {
    return f.value(a...);
  }
};
template <int N> struct GradKind {  ///< T from the gradient and N - 1 of T
  static constexpr int arity = N;
  static constexpr bool first_is_bool = false, bool_out = false;
  template <class F, class... A> [[gnu::always_inline]] static auto call(const F& f, A... a) {
    return f.grad(a...);
  }
};
template <int N> struct PredicateKind {  ///< bool from N of T
  static constexpr int arity = N;
  static constexpr bool first_is_bool = false, bool_out = true;
  template <class F, class... A> [[gnu::always_inline]] static auto call(const F& f, A... a) {
    return f.value(a...);
  }
};
template <int N> struct SelectKind {  ///< T from a bool and N - 1 of T
  static constexpr int arity = N;
  static constexpr bool first_is_bool = true, bool_out = false;
  template <class F, class... A> [[gnu::always_inline]] static auto call(const F& f, A... a) {
    return f.value(a...);
  }
};

/// The loop of formula F with kind K on type T; run<level> is its body.
template <class F, class K, class T> struct FormulaLoop {
  template <Isa I>
  [[gnu::always_inline]] static void run(const void* functor, void* out, const void* const* in,
                                         int64_t n) {
    const F f = *static_cast<const F*>(functor);  // a copy: stores to out cannot change it
    const void* inputs[K::arity];
    for (int k = 0; k < K::arity; ++k) inputs[k] = in[k];
    if constexpr (has_ordinary<Lane<T, I>>()) {
      constexpr int64_t block = 512;
      bool in_place = false;  // then a block's inputs are gone once it is written
      for (const void* input : inputs) in_place |= input == out;
      for (int64_t begin = 0; begin < n; begin += block) {
        const int64_t end = n - begin < block ? n : begin + block;
        if (in_place || !ordinary<I>(f, out, inputs, begin, end)) [[unlikely]]
          any<I>(f, out, inputs, begin, end);
      }
    } else {
      any<I>(f, out, inputs, 0, n);
    }
  }

 private:
  /// Not for a gradient that reads the result: `ordinary` is about the formula's arguments.
  template <class V> static constexpr bool has_ordinary() {
    constexpr bool from_result = std::is_same_v<K, GradKind<K::arity>> && requires {
      F::kGradFromOutput;
    };
    constexpr bool told = tells_of_one<V>() || tells_of_two<V>();
    return told && !from_result && !K::bool_out;
  }
  template <class V> static constexpr bool tells_of_one() {
    if constexpr (std::is_floating_point_v<T>) return requires(V x) {
        F::ordinary(x);
      };
    else
      return false;
  }
  template <class V> static constexpr bool tells_of_two() {
    if constexpr (std::is_floating_point_v<T> && std::is_same_v<K, ValueKind<2>>)
      return requires(V x) { F::ordinary(x, x); };
    else
      return false;
  }
  /// Whether the arguments of element i are ordinary: that of a formula of one argument is the last
  /// of the inputs.
  template <Isa I>
  [[gnu::always_inline]] static bool ordinary_at(const void* const* inputs, int64_t i) {
    using V = Lane<T, I>;
    const V last = detail::load<T, V>(inputs[K::arity - 1], i);
    if constexpr (tells_of_one<V>())
      return F::ordinary(last).v;
    else
      return F::ordinary(detail::load<T, V>(inputs[0], i), last).v;
  }
  /// Elements [begin, end) as if the arguments were ordinary all over; whether they were. One loop
  /// for both: a look beforehand would wait for memory alone.
  template <Isa I>
  [[gnu::always_inline]] static bool ordinary(const F& f, void* out, const void* const* inputs,
                                              int64_t begin, int64_t end) {
    T* o = static_cast<T*>(out);
    typename detail::BitsOf<T>::type others = 0;  // as wide as T, which keeps the loop vectorised
#pragma GCC ivdep
    for (int64_t i = begin; i < end; ++i) {
      others |= ordinary_at<I>(inputs, i) ? 0 : 1;
      o[i] =
          at<Lane<T, I, LaneMode::Ordinary>>(f, inputs, i, std::make_index_sequence<K::arity>()).v;
    }
    return others == 0;
  }
  /// Elements [begin, end), whatever they are.
  template <Isa I>
  [[gnu::always_inline]] static void any(const F& f, void* out, const void* const* inputs,
                                         int64_t begin, int64_t end) {
    if constexpr (detail::uses_libm<F>() && has_ordinary<Lane<T, I>>())
      with_libm<I>(f, out, inputs, begin, end);
    else
      plain<Lane<T, I>>(f, out, inputs, begin, end);
  }
  template <class V>
  [[gnu::always_inline]] static void plain(const F& f, void* out, const void* const* inputs,
                                           int64_t begin, int64_t end) {
    using Out = std::conditional_t<K::bool_out, uint8_t, T>;
    Out* o = static_cast<Out*>(out);
#pragma GCC ivdep
    for (int64_t i = begin; i < end; ++i)
      o[i] = at<V>(f, inputs, i, std::make_index_sequence<K::arity>()).v;
  }
  template <Isa I>
  [[gnu::always_inline]] static void with_libm(const F& f, void* out, const void* const* inputs,
                                               int64_t first, int64_t end) {
    constexpr int64_t block = 256;
    alignas(64) T buffer[block];  // the inputs must survive until all elements are right
    constexpr auto arguments = std::make_index_sequence<K::arity>();
    for (int64_t begin = first; begin < end; begin += block) {
      const int64_t count = end - begin < block ? end - begin : block;
      typename detail::BitsOf<T>::type others = 0;
#pragma GCC ivdep
      for (int64_t i = 0; i < count; ++i) {
        others |= ordinary_at<I>(inputs, begin + i) ? 0 : 1;
        buffer[i] = at<Lane<T, I, LaneMode::Ordinary>>(f, inputs, begin + i, arguments).v;
      }
      if (others != 0) [[unlikely]] {
        for (int64_t i = 0; i < count; ++i)
          if (!ordinary_at<I>(inputs, begin + i))
            buffer[i] = at<Lane<T, I>>(f, inputs, begin + i, arguments).v;
      }
      std::memcpy(static_cast<T*>(out) + begin, buffer, static_cast<size_t>(count) * sizeof(T));
    }
  }
  template <class V, size_t... k>
  [[gnu::always_inline]] static auto at(const F& f, const void* const* in, int64_t i,
                                        std::index_sequence<k...>) {
    return K::call(
        f, detail::load<std::conditional_t<K::first_is_bool && k == 0, bool, T>, V>(in[k], i)...);
  }
};

template <class F, class K, class Types> constexpr LoopTable loop_table(Isa level) {
  LoopTable t;
  t.functor_bytes = sizeof(F);
  if constexpr (Types::floats) {
    t.f32 = IsaLoops<FormulaLoop<F, K, float>, const void*, void*, const void* const*, int64_t>::at(
        level);
    t.f64 =
        IsaLoops<FormulaLoop<F, K, double>, const void*, void*, const void* const*, int64_t>::at(
            level);
  }
  if constexpr (Types::integers) {
    t.i32 =
        IsaLoops<FormulaLoop<F, K, int32_t>, const void*, void*, const void* const*, int64_t>::at(
            level);
    t.i64 =
        IsaLoops<FormulaLoop<F, K, int64_t>, const void*, void*, const void* const*, int64_t>::at(
            level);
  }
  return t;
}

/// The loops of formula F for the level in use.
template <class F, class Kind, class Types = FloatTypes> const LoopTable& pointwise_loops() {
  static constexpr LoopTable tables[] = {loop_table<F, Kind, Types>(Isa::Baseline),
                                         loop_table<F, Kind, Types>(Isa::V3),
                                         loop_table<F, Kind, Types>(Isa::V4)};
  return tables[static_cast<int>(isa())];
}

}  // namespace pellucid::kernels
