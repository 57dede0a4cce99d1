// The loops of the rarer optimisers' steps. Each is a formula of one element: the parameter, its
// gradient and up to two numbers of state.
#include "kernels/optim_variants.h"

#include "kernels/optim_loops.h"

namespace pellucid::kernels {

using namespace optim_loops;

namespace {

/// Runs formula(param, grad, state a, state b) over the arrays; what a formula without a second
/// state gets for it is the first.
template <class T, class Formula> struct FormulaLoop {
  template <Isa>
  [[gnu::always_inline]] static void run(const Formula& formula, T* p, const T* g, T* a, T* b,
                                         int64_t n) {
    const Formula f = formula;
    const auto one = [=](int64_t i) __attribute__((always_inline)) { f(p[i], g[i], a[i], b[i]); };
    streamed<T>(n, one, p, g, a, b);
  }
};

template <class T, class Formula>
void over(int64_t n, const Formula& f, void* param, const void* grad, void* a, void* b) {
  const auto loop =
      IsaLoops<FormulaLoop<T, Formula>, const Formula&, T*, const T*, T*, T*, int64_t>::at(isa());
  cut(n, [&](int64_t i, int64_t count) {
    loop(f, at<T>(param, i), at<T>(grad, i), at<T>(a, i), at<T>(b, i), count);
  });
}

/// The formula for the arrays' type, made of a step's numbers.
template <template <class> class Formula, class Step>
void run(DType type, int64_t n, const Step& s, void* param, const void* grad, void* a, void* b) {
  PELLUCID_ASSERT(type == kFloat32 || type == kFloat64);
  if (type == kFloat32)
    over<float>(n, Formula<float>(s), param, grad, a, b);
  else
    over<double>(n, Formula<double>(s), param, grad, a, b);
}

template <class T> [[gnu::always_inline]] inline T decayed(T g, T p, T weight_decay) {
  return weight_decay != 0 ? g + weight_decay * p : g;
}

template <class T> struct Adadelta {
  explicit Adadelta(const AdadeltaStep& s)
      : lr(static_cast<T>(s.lr)),
        rho(static_cast<T>(s.rho)),
        fresh(static_cast<T>(1 - s.rho)),
        eps(static_cast<T>(s.eps)),
        decay(static_cast<T>(s.weight_decay)) {}
  [[gnu::always_inline]] void operator()(T& p, T g, T& square, T& moved) const {
    const T d = decayed(g, p, decay);
    square = rho * square + fresh * d * d;
    const T delta = root(moved + eps) / root(square + eps) * d;
    moved = rho * moved + fresh * delta * delta;
    p -= lr * delta;
  }
  T lr, rho, fresh, eps, decay;
};

template <class T> struct Adamax {
  explicit Adamax(const AdamaxStep& s)
      : step_size(static_cast<T>(s.step_size)),
        fresh1(static_cast<T>(1 - s.beta1)),
        beta2(static_cast<T>(s.beta2)),
        eps(static_cast<T>(s.eps)),
        decay(static_cast<T>(s.weight_decay)) {}
  [[gnu::always_inline]] void operator()(T& p, T g, T& mean, T& greatest) const {
    const T d = decayed(g, p, decay);
    mean += fresh1 * (d - mean);
    const T before = greatest * beta2, now = (d < 0 ? -d : d) + eps;
    greatest = before > now || before != before ? before : now;
    p -= step_size * (mean / greatest);
  }
  T step_size, fresh1, beta2, eps, decay;
};

/// What NAdam and RAdam share: the decay, and the averages of the gradient and of its square.
template <class T> struct Moments {
  template <class Step>
  explicit Moments(const Step& s)
      : fresh1(static_cast<T>(1 - s.beta1)),
        beta2(static_cast<T>(s.beta2)),
        fresh2(static_cast<T>(1 - s.beta2)),
        in_gradient(s.where == Decay::Gradient ? static_cast<T>(s.decay) : T(0)),
        of_parameter(s.where == Decay::Decoupled ? static_cast<T>(s.decay) : T(1)) {}
  /// Moves the averages and decays p; returns the gradient that was used.
  [[gnu::always_inline]] T move(T& p, T g, T& mean, T& square) const {
    p *= of_parameter;
    const T d = decayed(g, p, in_gradient);
    mean += fresh1 * (d - mean);
    square = beta2 * square + fresh2 * d * d;
    return d;
  }
  T fresh1, beta2, fresh2, in_gradient, of_parameter;
};

template <class T> struct Nadam {
  explicit Nadam(const NadamStep& s)
      : moments(s),
        grad_size(static_cast<T>(s.grad_size)),
        mean_size(static_cast<T>(s.mean_size)),
        correction2(static_cast<T>(s.correction2)),
        eps(static_cast<T>(s.eps)) {}
  [[gnu::always_inline]] void operator()(T& p, T g, T& mean, T& square) const {
    const T d = moments.move(p, g, mean, square);
    const T below = root(square / correction2) + eps;
    p = p - grad_size * (d / below) - mean_size * (mean / below);
  }
  Moments<T> moments;
  T grad_size, mean_size, correction2, eps;
};

template <class T> struct RadamPlain {
  explicit RadamPlain(const RadamStep& s) : moments(s), step_size(static_cast<T>(s.step_size)) {}
  [[gnu::always_inline]] void operator()(T& p, T g, T& mean, T& square) const {
    moments.move(p, g, mean, square);
    p -= step_size * mean;
  }
  Moments<T> moments;
  T step_size;
};

template <class T> struct RadamRectified {
  explicit RadamRectified(const RadamStep& s)
      : moments(s), step_size(static_cast<T>(s.step_size)), eps(static_cast<T>(s.eps)) {}
  [[gnu::always_inline]] void operator()(T& p, T g, T& mean, T& square) const {
    moments.move(p, g, mean, square);
    p -= step_size * (mean / (root(square) + eps));
  }
  Moments<T> moments;
  T step_size, eps;
};

template <class T> struct Asgd {
  explicit Asgd(const AsgdStep& s)
      : eta(static_cast<T>(s.eta)),
        mu(static_cast<T>(s.mu)),
        kept(static_cast<T>(1 - s.lambd * s.eta)),
        decay(static_cast<T>(s.weight_decay)) {}
  [[gnu::always_inline]] void operator()(T& p, T g, T& average, T&) const {
    const T d = decayed(g, p, decay);
    p = p * kept - eta * d;
    average = mu == 1 ? p : average + (p - average) * mu;
  }
  T eta, mu, kept, decay;
};

template <class T> struct Rprop {
  explicit Rprop(const RpropStep& s)
      : low(static_cast<T>(s.eta_minus)),
        high(static_cast<T>(s.eta_plus)),
        least(static_cast<T>(s.step_min)),
        most(static_cast<T>(s.step_max)) {}
  // A product that is no number keeps its place: neither greater, less nor equal to 0.
  [[gnu::always_inline]] void operator()(T& p, T g, T& prev, T& step) const {
    const T turned = g * prev;
    const T factor = turned > 0 ? high : turned < 0 ? low : turned + T(1);
    const T grown = step * factor;
    step = grown < least ? least : grown > most ? most : grown;
    const T d = turned < 0 ? T(0) : g;
    p -= (d > 0 ? T(1) : d < 0 ? T(-1) : d) * step;
    prev = d;
  }
  T low, high, least, most;
};

}  // namespace

void adadelta_step(DType type, int64_t n, const AdadeltaStep& s, void* param, const void* grad,
                   void* square_avg, void* acc_delta) {
  run<Adadelta>(type, n, s, param, grad, square_avg, acc_delta);
}

void adamax_step(DType type, int64_t n, const AdamaxStep& s, void* param, const void* grad,
                 void* exp_avg, void* exp_inf) {
  run<Adamax>(type, n, s, param, grad, exp_avg, exp_inf);
}

void nadam_step(DType type, int64_t n, const NadamStep& s, void* param, const void* grad,
                void* exp_avg, void* exp_avg_sq) {
  run<Nadam>(type, n, s, param, grad, exp_avg, exp_avg_sq);
}

void radam_step(DType type, int64_t n, const RadamStep& s, void* param, const void* grad,
                void* exp_avg, void* exp_avg_sq) {
  if (s.rectified)
    run<RadamRectified>(type, n, s, param, grad, exp_avg, exp_avg_sq);
  else
    run<RadamPlain>(type, n, s, param, grad, exp_avg, exp_avg_sq);
}

void asgd_step(DType type, int64_t n, const AsgdStep& s, void* param, const void* grad, void* ax) {
  run<Asgd>(type, n, s, param, grad, ax, ax);
}

void rprop_step(DType type, int64_t n, const RpropStep& s, void* param, const void* grad,
                void* prev, void* step_size) {
  run<Rprop>(type, n, s, param, grad, prev, step_size);
}

}  // namespace pellucid::kernels
