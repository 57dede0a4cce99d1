// The loops of the optimiser steps. A condition that holds for the whole array is a template
// argument, so that a loop has no branch and the compiler vectorises it.
#include "kernels/optim.h"

#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/optim_loops.h"

namespace pellucid::kernels {

using namespace optim_loops;

namespace {

/// A loop with its numbers and arrays, the parameter first; the gradient comes between it and the
/// state.
template <class T, class Numbers, class... State>
using StepLoop = void (*)(const Numbers&, T*, const T*, State*..., int64_t);
template <class T, class Numbers, class... State>
Update make_update(std::type_identity_t<StepLoop<T, Numbers, State...>> loop,
                   const Numbers& numbers, void* param, State*... state) {
  static_assert(sizeof(Numbers) <= sizeof(Update::numbers) &&
                sizeof...(State) < Update::kMostArrays);
  Update u;
  u.loop = reinterpret_cast<void (*)()>(loop);
  std::memcpy(u.numbers, &numbers, sizeof(numbers));
  size_t next = 0;
  u.arrays[next++] = param;
  ((u.arrays[next++] = state), ...);
  u.run = [](const Update& self, int64_t begin, int64_t count, const void* grad) {
    const auto f = reinterpret_cast<StepLoop<T, Numbers, State...>>(self.loop);
    Numbers c;
    std::memcpy(&c, self.numbers, sizeof(c));
    [&]<size_t... i>(std::index_sequence<i...>) {
      f(c, at<T>(self.arrays[0], begin), static_cast<const T*>(grad),
        at<T>(self.arrays[i + 1], begin)..., count);
    }
    (std::index_sequence_for<State...>());
  };
  return u;
}

template <class T> struct SgdNumbers { T lr, momentum, kept, weight_decay; };

enum class Momentum : uint8_t { None, First, Plain, Nesterov, FirstNesterov };

template <class T, Momentum M, bool kDecay> struct SgdLoop {
  template <Isa>
  [[gnu::always_inline]] static void run(const SgdNumbers<T>& c, T* p, const T* g, T* b,
                                         int64_t n) {
    const T lr = c.lr, momentum = c.momentum, kept = c.kept, decay = c.weight_decay;
    constexpr bool first = M == Momentum::First || M == Momentum::FirstNesterov;
    constexpr bool nesterov = M == Momentum::Nesterov || M == Momentum::FirstNesterov;
    const auto one = [=](int64_t i) __attribute__((always_inline)) {
      T d = kDecay ? g[i] + decay * p[i] : g[i];
      if constexpr (M != Momentum::None) {
        const T moved = first ? d : momentum * b[i] + kept * d;
        b[i] = moved;
        d = nesterov ? d + momentum * moved : moved;
      }
      p[i] -= lr * d;
    };
    streamed<T>(n, one, p, g);
  }
};

template <class T, Momentum M> Update sgd_with(const SgdStep& s, void* param, void* buffer) {
  const SgdNumbers<T> c{static_cast<T>(s.lr), static_cast<T>(s.momentum),
                        static_cast<T>(1 - s.dampening), static_cast<T>(s.weight_decay)};
  using Loops = IsaLoops<SgdLoop<T, M, false>, const SgdNumbers<T>&, T*, const T*, T*, int64_t>;
  using Decaying = IsaLoops<SgdLoop<T, M, true>, const SgdNumbers<T>&, T*, const T*, T*, int64_t>;
  const auto loop = s.weight_decay != 0 ? Decaying::at(isa()) : Loops::at(isa());
  return make_update<T>(loop, c, param, static_cast<T*>(buffer));
}

template <class T> Update sgd(const SgdStep& s, void* param, void* buffer) {
  const auto run =
      s.momentum == 0 ? sgd_with<T, Momentum::None>
      : s.nesterov
          ? (s.first ? sgd_with<T, Momentum::FirstNesterov> : sgd_with<T, Momentum::Nesterov>)
          : (s.first ? sgd_with<T, Momentum::First> : sgd_with<T, Momentum::Plain>);
  return run(s, param, buffer);
}

template <class T> struct AdamNumbers {
  T fresh1, beta2, fresh2, eps, step_size, root_scale, weight_decay;
};

template <class T, Decay D, bool kAmsgrad> struct AdamLoop {
  template <Isa>
  [[gnu::always_inline]] static void run(const AdamNumbers<T>& numbers, T* p, const T* g, T* m,
                                         T* v, T* top, int64_t n) {
    const AdamNumbers<T> c = numbers;
    const auto one = [=](int64_t i) __attribute__((always_inline)) {
      T x = p[i], d = g[i];
      if constexpr (D == Decay::Gradient) d += c.weight_decay * x;
      if constexpr (D == Decay::Decoupled) x *= c.weight_decay;
      const T mean = m[i] + c.fresh1 * (d - m[i]);
      const T square = c.beta2 * v[i] + c.fresh2 * d * d;
      m[i] = mean;
      v[i] = square;
      T used = square;
      if constexpr (kAmsgrad) {
        used = top[i] > square ? top[i] : square;
        top[i] = used;
      }
      p[i] = x - c.step_size * (mean / (root(used) * c.root_scale + c.eps));
    };
    streamed<T>(n, one, p, g, m, v);
  }
};

template <class T, Decay D>
Update adam_with(const AdamStep& s, void* param, void* exp_avg, void* exp_avg_sq, void* top) {
  const auto steps = static_cast<double>(s.step);
  const double correction1 = 1 - std::pow(s.beta1, steps);
  const double correction2 = 1 - std::pow(s.beta2, steps);
  const double decay = D == Decay::Decoupled ? 1 - s.lr * s.weight_decay : s.weight_decay;
  const AdamNumbers<T> c{static_cast<T>(1 - s.beta1),
                         static_cast<T>(s.beta2),
                         static_cast<T>(1 - s.beta2),
                         static_cast<T>(s.eps),
                         static_cast<T>(s.lr / correction1),
                         static_cast<T>(1 / std::sqrt(correction2)),
                         static_cast<T>(decay)};
  using Loops =
      IsaLoops<AdamLoop<T, D, false>, const AdamNumbers<T>&, T*, const T*, T*, T*, T*, int64_t>;
  using Amsgrad =
      IsaLoops<AdamLoop<T, D, true>, const AdamNumbers<T>&, T*, const T*, T*, T*, T*, int64_t>;
  const auto loop = top ? Amsgrad::at(isa()) : Loops::at(isa());
  return make_update<T>(loop, c, param, static_cast<T*>(exp_avg), static_cast<T*>(exp_avg_sq),
                        static_cast<T*>(top));
}

template <class T> struct RmspropNumbers { T lr, alpha, fresh, eps, weight_decay, momentum; };

template <class T, bool kCentred, bool kMomentum> struct RmspropLoop {
  template <Isa>
  [[gnu::always_inline]] static void run(const RmspropNumbers<T>& numbers, T* p, const T* g, T* v,
                                         T* mean, T* b, int64_t n) {
    const RmspropNumbers<T> c = numbers;
    const bool decays = c.weight_decay != 0;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      const T d = decays ? g[i] + c.weight_decay * p[i] : g[i];
      const T square = c.alpha * v[i] + c.fresh * d * d;
      v[i] = square;
      T variance = square;
      if constexpr (kCentred) {
        const T average = mean[i] + c.fresh * (d - mean[i]);
        mean[i] = average;
        variance = square - average * average;
      }
      T change = d / (root(variance) + c.eps);
      if constexpr (kMomentum) {
        change = c.momentum * b[i] + change;
        b[i] = change;
      }
      p[i] -= c.lr * change;
    }
  }
};

template <class T>
Update rmsprop(const RmspropStep& s, void* param, void* square_avg, void* grad_avg, void* buffer) {
  const RmspropNumbers<T> c{static_cast<T>(s.lr),           static_cast<T>(s.alpha),
                            static_cast<T>(1 - s.alpha),    static_cast<T>(s.eps),
                            static_cast<T>(s.weight_decay), static_cast<T>(s.momentum)};
  const auto pick = [&]<bool kCentred, bool kMomentum>() {
    return IsaLoops<RmspropLoop<T, kCentred, kMomentum>, const RmspropNumbers<T>&, T*, const T*, T*,
                    T*, T*, int64_t>::at(isa());
  };
  const auto loop = grad_avg ? (buffer ? pick.template operator()<true, true>()
                                       : pick.template operator()<true, false>())
                             : (buffer ? pick.template operator()<false, true>()
                                       : pick.template operator()<false, false>());
  return make_update<T>(loop, c, param, static_cast<T*>(square_avg), static_cast<T*>(grad_avg),
                        static_cast<T*>(buffer));
}

template <class T> struct AdagradNumbers { T lr, eps, weight_decay; };

template <class T> struct AdagradLoop {
  template <Isa>
  [[gnu::always_inline]] static void run(const AdagradNumbers<T>& numbers, T* p, const T* g, T* sum,
                                         int64_t n) {
    const AdagradNumbers<T> c = numbers;
    const bool decays = c.weight_decay != 0;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      const T d = decays ? g[i] + c.weight_decay * p[i] : g[i];
      const T total = sum[i] + d * d;
      sum[i] = total;
      p[i] -= c.lr * (d / (root(total) + c.eps));
    }
  }
};

template <class T> Update adagrad(const AdagradStep& s, void* param, void* sum) {
  const AdagradNumbers<T> c{static_cast<T>(s.lr), static_cast<T>(s.eps),
                            static_cast<T>(s.weight_decay)};
  const auto loop =
      IsaLoops<AdagradLoop<T>, const AdagradNumbers<T>&, T*, const T*, T*, int64_t>::at(isa());
  return make_update<T>(loop, c, param, static_cast<T*>(sum));
}

}  // namespace

void run_update(const Update& update, DType type, int64_t n, const void* grad) {
  const int64_t size = element_size(type);
  cut(n, [&](int64_t i, int64_t count) {
    update(i, count, static_cast<const char*>(grad) + i * size);
  });
}

Update sgd_update(DType type, const SgdStep& s, void* param, void* momentum_buffer) {
  return by_type(type, sgd<float>, sgd<double>)(s, param, momentum_buffer);
}

Update adam_update(DType type, const AdamStep& s, void* param, void* exp_avg, void* exp_avg_sq,
                   void* max_exp_avg_sq) {
  const auto make =
      s.decay == Decay::None
          ? by_type(type, adam_with<float, Decay::None>, adam_with<double, Decay::None>)
      : s.decay == Decay::Gradient
          ? by_type(type, adam_with<float, Decay::Gradient>, adam_with<double, Decay::Gradient>)
          : by_type(type, adam_with<float, Decay::Decoupled>, adam_with<double, Decay::Decoupled>);
  return make(s, param, exp_avg, exp_avg_sq, max_exp_avg_sq);
}

Update rmsprop_update(DType type, const RmspropStep& s, void* param, void* square_avg,
                      void* grad_avg, void* momentum_buffer) {
  return by_type(type, rmsprop<float>, rmsprop<double>)(s, param, square_avg, grad_avg,
                                                        momentum_buffer);
}

Update adagrad_update(DType type, const AdagradStep& s, void* param, void* sum) {
  return by_type(type, adagrad<float>, adagrad<double>)(s, param, sum);
}

}  // namespace pellucid::kernels
