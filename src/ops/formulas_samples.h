// Samples that many pointwise ops share: shapes, layouts and broadcasts at which every such op
// must work.
#pragma once

#include "pellucid/op.h"
#include "pellucid/operators.h"
#include "pellucid/ops.h"

namespace pellucid {

/// Unary, on values from [low, high).
template <double low, double high> void unary_samples_in(Samples& s) {
  s.add({sample_uniform({3, 4}, low, high)});
  s.add({sample_uniform({4, 2, 3}, low, high).transpose(0, 2)});
  s.add({sample_uniform({}, low, high)});
  s.add({sample_uniform({0, 3}, low, high)});
  s.large([] { return std::vector<Value>{rand({4096, 1024}) * (high - low) + low}; });
}

/// Unary, on normal values at a distance from 0.
inline void unary_samples(Samples& s) {
  s.add({sample_randn({3, 4}, 0.1)});
  s.add({sample_randn({4, 2, 3}, 0.1).transpose(0, 2)});
  s.add({sample_randn({}, 0.1)});
  s.add({sample_randn({0, 3})});
  s.large([] { return std::vector<Value>{randn({4096, 1024})}; });
}

/// A backward op on (grad_output, values from [low, high)).
template <double low, double high> void backward_samples_in(Samples& s) {
  s.add({sample_randn({3, 4}), sample_uniform({3, 4}, low, high)});
  s.add({sample_randn({4, 3}), sample_uniform({3, 4}, low, high).t()});
  s.large([] {
    return std::vector<Value>{randn({4096, 1024}), rand({4096, 1024}) * (high - low) + low};
  });
}

inline void backward_samples(Samples& s) {
  s.add({sample_randn({3, 4}), sample_randn({3, 4}, 0.1)});
  s.add({sample_randn({4, 3}), sample_randn({3, 4}, 0.1).t()});
  s.large([] { return std::vector<Value>{randn({4096, 1024}), randn({4096, 1024})}; });
}

/// Binary, on values from [low, high): equal shapes, broadcasts, strides, 0-dim, empty, and shapes
/// that do not fit.
template <double low, double high> void binary_samples_in(Samples& s) {
  s.add({sample_uniform({3, 4}, low, high), sample_uniform({3, 4}, low, high)});
  s.add({sample_uniform({3, 1}, low, high), sample_uniform({2, 1, 4}, low, high)});
  s.add({sample_uniform({2, 3}, low, high).t(), sample_uniform({2}, low, high)});
  s.add({sample_uniform({}, low, high), sample_uniform({2, 2}, low, high)});
  s.add({sample_uniform({0, 3}, low, high), sample_uniform({3}, low, high)});
  s.error({sample_uniform({2, 3}, low, high), sample_uniform({4}, low, high)}, "do not broadcast");
  s.large([] {
    return std::vector<Value>{rand({4096, 1024}) * (high - low) + low,
                              rand({4096, 1024}) * (high - low) + low};
  });
}

/// The same on normal values at a distance from 0.
inline void binary_samples(Samples& s) {
  s.add({sample_randn({3, 4}, 0.1), sample_randn({3, 4}, 0.1)});
  s.add({sample_randn({3, 1}, 0.1), sample_randn({2, 1, 4}, 0.1)});
  s.add({sample_randn({2, 3}, 0.1).t(), sample_randn({2}, 0.1)});
  s.add({sample_randn({}, 0.1), sample_randn({2, 2}, 0.1)});
  s.add({sample_randn({0, 3}), sample_randn({3})});
  s.error({sample_randn({2, 3}), sample_randn({4})}, "do not broadcast");
  s.large([] { return std::vector<Value>{randn({4096, 1024}), randn({4096, 1024})}; });
}

/// The same with a number for the second argument too.
inline void binary_scalar_samples(Samples& s) {
  binary_samples(s);
  s.add({sample_randn({2, 3}, 0.1), 2.5});
  s.add_no_grad({sample_ints({2, 3}, 1, 9), 2});
}

}  // namespace pellucid
