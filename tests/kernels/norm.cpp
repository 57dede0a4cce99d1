// Normalisation against long double formulas: values, saved statistics and gradients, in every
// layout.
#include "kernels/norm.h"

#include "reduce_support.h"

using namespace pellucid;
using namespace pellucid::kernels;
using namespace pellucid::test;

namespace {

using Reals = std::vector<long double>;

template <class T> Reals reals(const std::vector<T>& v) { return Reals(v.begin(), v.end()); }

template <class T>
void check_close(const char* what, const std::vector<T>& got, const Reals& want, double tolerance) {
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    INFO(what << " element " << i << " got " << static_cast<double>(got[i]) << " want "
              << static_cast<double>(want[i]));
    REQUIRE(close(static_cast<double>(got[i]), want[i], tolerance));
  }
}

/// Every norm is: elements belong to a group (whose statistics they share) and to a channel (whose
/// weight they use).
struct Layout {
  size_t groups, channels;
  std::vector<size_t> group, channel;
};

struct Result {
  Reals y, mean, rstd, variance, dx, dweight, dbias;
};

Result reference(const Layout& l, const Reals& x, const Reals& w, const Reals& b, const Reals& dy,
                 long double eps, bool centred) {
  const size_t n = x.size();
  Result r{Reals(n), Reals(l.groups),   Reals(l.groups),  Reals(l.groups),
           Reals(n), Reals(l.channels), Reals(l.channels)};
  Reals count(l.groups), g_sum(l.groups), g_along(l.groups);
  for (size_t i = 0; i < n; ++i) count[l.group[i]] += 1, r.mean[l.group[i]] += centred ? x[i] : 0;
  for (size_t g = 0; g < l.groups; ++g) r.mean[g] /= count[g];
  for (size_t i = 0; i < n; ++i)
    r.variance[l.group[i]] +=
        (x[i] - r.mean[l.group[i]]) * (x[i] - r.mean[l.group[i]]) / count[l.group[i]];
  for (size_t g = 0; g < l.groups; ++g) r.rstd[g] = 1 / std::sqrt(r.variance[g] + eps);
  for (size_t i = 0; i < n; ++i) {
    const size_t g = l.group[i], c = l.channel[i];
    const long double hat = (x[i] - r.mean[g]) * r.rstd[g];
    r.y[i] = hat * w[c] + b[c];
    r.dweight[c] += dy[i] * hat;
    r.dbias[c] += dy[i];
    g_sum[g] += dy[i] * w[c];
    g_along[g] += dy[i] * w[c] * hat;
  }
  for (size_t i = 0; i < n; ++i) {
    const size_t g = l.group[i];
    const long double hat = (x[i] - r.mean[g]) * r.rstd[g];
    r.dx[i] = r.rstd[g] * (dy[i] * w[l.channel[i]] - (centred ? g_sum[g] / count[g] : 0) -
                           hat * g_along[g] / count[g]);
  }
  return r;
}

/// Joins two results, so that at_every_level compares both.
template <class T> std::vector<T> joined(std::initializer_list<std::vector<T>> parts) {
  std::vector<T> all;
  for (const auto& p : parts) all.insert(all.end(), p.begin(), p.end());
  return all;
}
template <class T> std::vector<T> piece(const std::vector<T>& v, size_t first, size_t n) {
  return {v.begin() + static_cast<std::ptrdiff_t>(first),
          v.begin() + static_cast<std::ptrdiff_t>(first + n)};
}

template <class T> struct Inputs {
  Inputs(int64_t n, int64_t channels)
      : x(random_vector<T>(n, 1, -1, 3)),
        dy(random_vector<T>(n, 2)),
        w(random_vector<T>(channels, 3, 0.5, 1.5)),
        b(random_vector<T>(channels, 4)) {}
  std::vector<T> x, dy, w, b;
};

template <class T> void check_layer_norm(int64_t rows, int64_t n, bool centred, double tolerance) {
  INFO("rows " << rows << " n " << n << " centred " << centred);
  const Inputs<T> in(rows * n, n);
  const auto count = static_cast<size_t>(rows * n), r = static_cast<size_t>(rows),
             c = static_cast<size_t>(n);
  Layout layout{r, c, {}, {}};
  for (size_t i = 0; i < count; ++i) layout.group.push_back(i / c), layout.channel.push_back(i % c);
  const Result want = reference(layout, reals(in.x), reals(in.w), centred ? reals(in.b) : Reals(c),
                                reals(in.dy), 1e-5L, centred);
  const LayerNorm l{.type = dtype_of<T>,
                    .rows = rows,
                    .n = n,
                    .x = in.x.data(),
                    .weight = in.w.data(),
                    .bias = in.b.data(),
                    .eps = 1e-5};
  std::vector<T> mean(r), rstd(r);
  const auto y = at_every_level([&] {
    std::vector<T> out(count);
    if (centred)
      layer_norm(l, out.data(), mean.data(), rstd.data());
    else
      rms_norm(l, out.data(), rstd.data());
    return joined({out, mean, rstd});
  });
  check_close("y", piece(y, 0, count), want.y, tolerance);
  check_close("mean", mean, want.mean, tolerance);
  check_close("rstd", rstd, want.rstd, tolerance);
  const auto grads = at_every_level([&] {
    std::vector<T> dx(count), dw(c), db(c);
    if (centred)
      layer_norm_backward(l, in.dy.data(), mean.data(), rstd.data(), dx.data(), dw.data(),
                          db.data());
    else
      rms_norm_backward(l, in.dy.data(), rstd.data(), dx.data(), dw.data());
    return joined({dx, dw, db});
  });
  check_close("dx", piece(grads, 0, count), want.dx, tolerance);
  check_close("dweight", piece(grads, count, c), want.dweight, tolerance * 10);
  if (centred) check_close("dbias", piece(grads, count + c, c), want.dbias, tolerance * 10);
}

template <class T>
void check_batch_norm(int64_t batch, int64_t channels, int64_t spatial, bool last,
                      double tolerance) {
  INFO("batch " << batch << " channels " << channels << " spatial " << spatial << " channels_last "
                << last);
  const Inputs<T> in(batch * channels * spatial, channels);
  const auto count = in.x.size(), c = static_cast<size_t>(channels);
  Layout layout{c, c, {}, {}};
  for (size_t i = 0; i < count; ++i)
    layout.group.push_back(last ? i % c : i / static_cast<size_t>(spatial) % c);
  layout.channel = layout.group;
  const Result want =
      reference(layout, reals(in.x), reals(in.w), reals(in.b), reals(in.dy), 1e-5L, true);
  const BatchNorm b{.type = dtype_of<T>,
                    .batch = batch,
                    .channels = channels,
                    .spatial = spatial,
                    .channels_last = last,
                    .x = in.x.data(),
                    .weight = in.w.data(),
                    .bias = in.b.data()};
  std::vector<T> mean(c), rstd(c);
  const auto y = at_every_level([&] {
    std::vector<T> out(count), variance(c);
    batch_norm_stats(b, mean.data(), variance.data());
    for (size_t i = 0; i < c; ++i) rstd[i] = T(1) / std::sqrt(variance[i] + T(1e-5));
    batch_norm_apply(b, mean.data(), rstd.data(), out.data());
    return joined({out, mean, variance});
  });
  check_close("y", piece(y, 0, count), want.y, tolerance);
  check_close("mean", mean, want.mean, tolerance);
  check_close("variance", piece(y, count + c, c), want.variance, tolerance);
  const auto grads = at_every_level([&] {
    std::vector<T> dx(count), dw(c), db(c);
    batch_norm_backward(b, in.dy.data(), mean.data(), rstd.data(), true, dx.data(), dw.data(),
                        db.data());
    return joined({dx, dw, db});
  });
  check_close("dx", piece(grads, 0, count), want.dx, tolerance);
  check_close("dweight", piece(grads, count, c), want.dweight, tolerance * 10);
  check_close("dbias", piece(grads, count + c, c), want.dbias, tolerance * 10);
  // With fixed statistics only the scale remains.
  std::vector<T> dx(count);
  batch_norm_backward(b, in.dy.data(), mean.data(), rstd.data(), false, dx.data(), nullptr,
                      nullptr);
  Reals fixed(count);
  for (size_t i = 0; i < count; ++i)
    fixed[i] =
        static_cast<long double>(in.dy[i]) * in.w[layout.channel[i]] * rstd[layout.channel[i]];
  check_close("dx with fixed statistics", dx, fixed, tolerance);
}

template <class T>
void check_group_norm(int64_t batch, int64_t channels, int64_t spatial, int64_t groups,
                      double tolerance) {
  INFO("batch " << batch << " channels " << channels << " spatial " << spatial << " groups "
                << groups);
  const Inputs<T> in(batch * channels * spatial, channels);
  const auto count = in.x.size(), c = static_cast<size_t>(channels),
             s = static_cast<size_t>(spatial), g = static_cast<size_t>(batch * groups);
  Layout layout{g, c, {}, {}};
  for (size_t i = 0; i < count; ++i)
    layout.channel.push_back(i / s % c), layout.group.push_back(i / (count / g));
  const Result want =
      reference(layout, reals(in.x), reals(in.w), reals(in.b), reals(in.dy), 1e-5L, true);
  const GroupNorm n{.type = dtype_of<T>,
                    .batch = batch,
                    .channels = channels,
                    .spatial = spatial,
                    .groups = groups,
                    .x = in.x.data(),
                    .weight = in.w.data(),
                    .bias = in.b.data(),
                    .eps = 1e-5};
  std::vector<T> mean(g), rstd(g);
  const auto y = at_every_level([&] {
    std::vector<T> out(count);
    group_norm(n, out.data(), mean.data(), rstd.data());
    return joined({out, mean, rstd});
  });
  check_close("y", piece(y, 0, count), want.y, tolerance);
  const auto grads = at_every_level([&] {
    std::vector<T> dx(count), dw(c), db(c);
    group_norm_backward(n, in.dy.data(), mean.data(), rstd.data(), dx.data(), dw.data(), db.data());
    return joined({dx, dw, db});
  });
  check_close("dx", piece(grads, 0, count), want.dx, tolerance);
  check_close("dweight", piece(grads, count, c), want.dweight, tolerance * 10);
  check_close("dbias", piece(grads, count + c, c), want.dbias, tolerance * 10);
}

}  // namespace

TEST_CASE("layer norm and rms norm") {
  for (const auto& [rows, n] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 5}, {7, 33}, {300, 64}, {5, 3000}, {3, 1}})
    for (const bool centred : {true, false}) {
      if (n == 1 && centred)
        continue;  // every value is its own mean: rstd is 1 / sqrt(eps) and float loses the rest
      check_layer_norm<float>(rows, n, centred, 2e-5);
      check_layer_norm<double>(rows, n, centred, 1e-13);
    }
}

TEST_CASE("layer norm: without weight and bias, and 16-bit floats") {
  const auto x = random_vector<float>(60, 1);
  std::vector<float> y(60), mean(3), rstd(3);
  layer_norm({.type = kFloat32, .rows = 3, .n = 20, .x = x.data()}, y.data(), mean.data(),
             rstd.data());
  for (size_t i = 0; i < 60; ++i)
    CHECK(close(y[i], (static_cast<long double>(x[i]) - mean[i / 20]) * rstd[i / 20], 1e-6));
  std::vector<BFloat16> half(x.begin(), x.end()), out(60);
  layer_norm({.type = kBFloat16, .rows = 3, .n = 20, .x = half.data()}, out.data(), mean.data(),
             rstd.data());
  for (size_t i = 0; i < 60; ++i)
    CHECK(close(static_cast<double>(static_cast<float>(out[i])), y[i], 3e-2));
  // Backward without a weight is backward with ones.
  const auto dy = random_vector<float>(60, 2);
  const std::vector<float> ones(20, 1);
  std::vector<float> plain(60), with_ones(60);
  layer_norm_backward({.type = kFloat32, .rows = 3, .n = 20, .x = x.data()}, dy.data(), mean.data(),
                      rstd.data(), plain.data(), nullptr, nullptr);
  layer_norm_backward({.type = kFloat32, .rows = 3, .n = 20, .x = x.data(), .weight = ones.data()},
                      dy.data(), mean.data(), rstd.data(), with_ones.data(), nullptr, nullptr);
  CHECK(plain == with_ones);
  layer_norm({.type = kFloat32, .rows = 0, .n = 20}, nullptr, nullptr, nullptr);
}

TEST_CASE("batch norm in both layouts") {
  for (const bool last : {false, true}) {
    check_batch_norm<float>(4, 3, 25, last, 5e-5);
    check_batch_norm<double>(4, 3, 25, last, 1e-12);
    check_batch_norm<float>(2, 40, 700, last, 5e-5);
    check_batch_norm<double>(9, 17, 130, last, 1e-12);
    check_batch_norm<double>(64, 20, 1, last, 1e-12);
  }
}

TEST_CASE("group norm") {
  check_group_norm<float>(2, 6, 25, 3, 5e-5);
  check_group_norm<double>(3, 8, 100, 1, 1e-12);
  check_group_norm<double>(3, 8, 100, 8, 1e-12);
  check_group_norm<double>(2, 4, 1, 2, 1e-10);
}
