// The reductions against long double loops: all ops, shapes, strides and dtypes, at every ISA level
// and with 1, 2 and 4 threads, whose bits must agree.
#include "kernels/reduce.h"

#include "reduce_support.h"

using namespace pellucid;
using namespace pellucid::kernels;
using namespace pellucid::test;

namespace {

struct Case {
  std::vector<int64_t> sizes, strides;
  uint64_t reduced;
  int64_t extent() const {
    int64_t last = 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] == 0) return 0;
      last += (sizes[i] - 1) * strides[i];
    }
    return last + 1;
  }
  std::vector<int64_t> out_strides() const {
    std::vector<int64_t> s(sizes.size(), 0);
    int64_t next = 1;
    for (size_t i = sizes.size(); i-- > 0;)
      if (!(reduced >> i & 1)) s[i] = next, next *= sizes[i];
    return s;
  }
  int64_t outputs() const {
    int64_t n = 1;
    for (size_t i = 0; i < sizes.size(); ++i)
      if (!(reduced >> i & 1)) n *= sizes[i];
    return n;
  }
};

Case contiguous(std::vector<int64_t> sizes, uint64_t reduced) {
  Case c{sizes, std::vector<int64_t>(sizes.size()), reduced};
  int64_t next = 1;
  for (size_t i = sizes.size(); i-- > 0;)
    c.strides[i] = next, next *= std::max<int64_t>(1, sizes[i]);
  return c;
}

/// The folded values of each output, in row-major order of the reduced dims.
template <class T>
std::vector<std::vector<long double>> groups(const Case& c, const std::vector<T>& x) {
  std::vector<std::vector<long double>> all(static_cast<size_t>(c.outputs()));
  const auto out_strides = c.out_strides();
  const auto walk = [&](auto& self, size_t d, int64_t in, int64_t out) -> void {
    if (d == c.sizes.size()) {
      all[static_cast<size_t>(out)].push_back(static_cast<long double>(x[static_cast<size_t>(in)]));
      return;
    }
    for (int64_t i = 0; i < c.sizes[d]; ++i)
      self(self, d + 1, in + i * c.strides[d], out + i * out_strides[d]);
  };
  walk(walk, 0, 0, 0);
  return all;
}

long double reference(ReduceOp op, double p, const std::vector<long double>& v, int64_t* index) {
  long double sum = 0, prod = 1, squares = 0, norm = p == -kInf ? kInf : 0, exps = 0;
  long double largest = -kInf, smallest = kInf;
  bool any = false, all = true;
  int64_t at_max = 0, at_min = 0;
  for (size_t i = 0; i < v.size(); ++i) {
    sum += v[i], prod *= v[i], any |= v[i] != 0, all &= v[i] != 0;
    if (!std::isnan(largest) && (i == 0 || std::isnan(v[i]) || v[i] > largest))
      largest = v[i], at_max = static_cast<int64_t>(i);
    if (!std::isnan(smallest) && (i == 0 || std::isnan(v[i]) || v[i] < smallest))
      smallest = v[i], at_min = static_cast<int64_t>(i);
  }
  const long double mean = sum / static_cast<long double>(v.size()),
                    shift = std::isinf(largest) ? 0 : largest;
  for (const long double x : v) {
    squares += (x - mean) * (x - mean);
    if (op == ReduceOp::LogSumExp) exps += std::exp(x - shift);
    const long double a = std::fabs(x);
    if (op != ReduceOp::Norm) continue;
    if (p == kInf)
      norm = std::isnan(norm) || a <= norm ? norm : a;
    else if (p == -kInf)
      norm = std::isnan(norm) || a >= norm ? norm : a;
    else
      norm += p == 0 ? x != 0 : std::pow(a, static_cast<long double>(p));
  }
  const long double var = squares / std::max(0.0L, static_cast<long double>(v.size()) - p);
  switch (op) {
    case ReduceOp::Sum:
      return sum;
    case ReduceOp::Mean:
      return mean;
    case ReduceOp::Prod:
      return prod;
    case ReduceOp::Max:
      return largest;
    case ReduceOp::Min:
      return smallest;
    case ReduceOp::ArgMax:
      *index = at_max;
      return largest;
    case ReduceOp::ArgMin:
      *index = at_min;
      return smallest;
    case ReduceOp::Any:
      return any;
    case ReduceOp::All:
      return all;
    case ReduceOp::Var:
      return var;
    case ReduceOp::Std:
      return std::sqrt(var);
    case ReduceOp::Norm:
      return p == 0 || std::isinf(p) ? norm : std::pow(norm, 1 / static_cast<long double>(p));
    case ReduceOp::LogSumExp:
      return std::log(exps) + shift;
  }
  return 0;
}

/// The same reduction of a dense input that comes in pieces: rows of some columns, or a few blocks.
/// Returns whether there is one.
template <class In, class Out>
bool in_pieces(const ReduceArgs& args, int64_t elements, std::vector<Out>& values,
               std::vector<int64_t>& indices) {
  int64_t count = 1;
  for (const int64_t n : args.sizes) count *= n;
  const std::shared_ptr<PieceFold> fold = piece_fold(args);
  if (count != elements || !fold || fold->computed != dtype_of<In>) return false;
  const PieceFold::Shape& s = fold->shape;
  REQUIRE(s.outer * s.count * s.columns == count);
  const auto* const x = static_cast<const In*>(args.in);
  for (const int64_t width : {s.columns, s.columns / 3 + 1}) {
    fold->begin(values.data(), indices.data(), width);
    parallel_for(0, s.outer * s.chunks(), 1, [&](int64_t first, int64_t last) {
      for (int64_t t = first; t < last; ++t)
        for (int64_t column = 0; column < s.columns; column += width) {
          const int64_t begin = t % s.chunks() * s.chunk, end = std::min(begin + s.chunk, s.count),
                        some = s.columns > 1 ? s.piece : 3 * s.piece,
                        base = t / s.chunks() * s.count;
          const auto task = fold->task({.outer = t / s.chunks(),
                                        .column = column,
                                        .width = std::min(width, s.columns - column),
                                        .chunk = t % s.chunks()});
          for (int64_t at = begin; at < end; at += some) {
            std::vector<const void*> rows;
            for (int64_t r = at; r < std::min(at + some, end); ++r)
              rows.push_back(x + (base + r) * s.columns + column);
            task->add(rows.data(), std::ssize(rows), at);
          }
          task->end();
        }
    });
    fold->finish();
  }
  return true;
}

template <class In, class Out>
void check(ReduceOp op, double p, const Case& c, const std::vector<In>& x, double tolerance) {
  INFO("op " << static_cast<int>(op) << " parameter " << p << " reduced " << c.reduced << " sizes "
             << to_string(c.sizes) << " strides " << to_string(c.strides));
  const auto out_strides = c.out_strides();
  const auto n = static_cast<size_t>(c.outputs());
  std::vector<int64_t> indices(n, -1);
  const bool arg = op == ReduceOp::ArgMax || op == ReduceOp::ArgMin;
  // exp uses the level's fma, so its bits may differ between levels.
  const bool exact = op != ReduceOp::LogSumExp;
  const auto out = at_every_level(
      [&] {
        std::vector<Out> y(n);
        ReduceArgs args{.op = op,
                        .in_type = dtype_of<In>,
                        .in = x.data(),
                        .out_type = dtype_of<Out>,
                        .out = y.data(),
                        .sizes = c.sizes,
                        .in_strides = c.strides,
                        .out_strides = out_strides,
                        .reduced = c.reduced,
                        .parameter = p};
        if (arg) args.indices = indices.data();
        reduce(args);
        std::vector<Out> of_pieces(n);
        std::vector<int64_t> found(n, -1);
        if (in_pieces<In>(args, static_cast<int64_t>(x.size()), of_pieces, found)) {
          CHECK(same_bits(of_pieces, y));
          if (arg) CHECK(found == indices);
        }
        return y;
      },
      exact);
  const auto values = groups(c, x);
  for (size_t i = 0; i < n; ++i) {
    int64_t index = -1;
    const long double want = reference(op, p, values[i], &index);
    INFO("output " << i << " got " << static_cast<double>(out[i]) << " want "
                   << static_cast<double>(want));
    REQUIRE(close(static_cast<double>(out[i]), want, tolerance));
    if (arg) REQUIRE(indices[i] == index);
  }
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      contiguous({}, 0),
      contiguous({1}, 1),
      contiguous({7}, 1),
      contiguous({1000}, 1),
      contiguous({70001}, 1),      // several chunks
      contiguous({33, 1025}, 2),   // rows
      contiguous({1025, 33}, 1),   // columns, several chunks
      contiguous({40, 600}, 1),    // columns, two tiles
      contiguous({3, 70, 20}, 2),  // the middle
      contiguous({5, 9, 31}, 5),   // as batch norm: all but the middle
      contiguous({300, 5}, 2),     // short rows
      contiguous({900, 3}, 1),     // few columns
      contiguous({4, 3, 2, 5}, 0b1010),
      {{20, 30}, {1, 20}, 1},  // transposed
      {{20, 30}, {1, 20}, 2},
      {{16, 50}, {100, 2}, 2},  // every second column
      {{50, 16}, {40, 2}, 1},
      {{6, 40}, {0, 1}, 1},  // expanded
      {{6, 40}, {1, 0}, 2},
      {{4, 1, 12}, {12, 77, 1}, 0b011},
  };
  return all;
}

}  // namespace

TEST_CASE("reduce: every op on every layout, float32 and float64") {
  const std::vector<std::pair<ReduceOp, double>> ops = {
      {ReduceOp::Sum, 0},     {ReduceOp::Mean, 0},     {ReduceOp::Max, 0},
      {ReduceOp::Min, 0},     {ReduceOp::ArgMax, 0},   {ReduceOp::ArgMin, 0},
      {ReduceOp::Any, 0},     {ReduceOp::All, 0},      {ReduceOp::Var, 1},
      {ReduceOp::Var, 0},     {ReduceOp::Std, 1},      {ReduceOp::Norm, 0},
      {ReduceOp::Norm, 1},    {ReduceOp::Norm, 2},     {ReduceOp::Norm, 3.5},
      {ReduceOp::Norm, kInf}, {ReduceOp::Norm, -kInf}, {ReduceOp::LogSumExp, 0}};
  for (const Case& c : cases())
    for (const auto& [op, p] : ops) {
      check<float, float>(op, p, c, random_vector<float>(c.extent(), 1), 3e-5);
      check<double, double>(op, p, c, random_vector<double>(c.extent(), 2), 1e-14);
    }
}

TEST_CASE("reduce: prod stays exact near one and wraps for integers") {
  for (const Case& c : cases())
    check<double, double>(ReduceOp::Prod, 0, c, random_vector<double>(c.extent(), 3, 0.999, 1.001),
                          1e-12);
  const std::vector<int64_t> big(70, 3);
  int64_t got = 0;
  reduce({.op = ReduceOp::Prod,
          .in_type = kInt64,
          .in = big.data(),
          .out_type = kInt64,
          .out = &got,
          .indices = nullptr,
          .sizes = {70},
          .in_strides = {1},
          .out_strides = {0},
          .reduced = 1,
          .parameter = 0});
  uint64_t want = 1;
  for (int i = 0; i < 70; ++i) want *= 3;
  CHECK(static_cast<uint64_t>(got) == want);
}

TEST_CASE("reduce: integers, bools and 16-bit floats") {
  for (const Case& c : cases()) {
    const auto i32 = random_vector<int32_t>(c.extent(), 4, -1000, 1000);
    check<int32_t, int64_t>(ReduceOp::Sum, 0, c, i32, 0);
    check<int32_t, int32_t>(ReduceOp::Max, 0, c, i32, 0);
    check<int32_t, int32_t>(ReduceOp::ArgMin, 0, c, i32, 0);
    check<int32_t, float>(ReduceOp::Mean, 0, c, i32, 1e-6);
    const auto bytes = random_vector<uint8_t>(c.extent(), 5, 0, 2);
    check<uint8_t, int64_t>(ReduceOp::Sum, 0, c, bytes, 0);
    check<uint8_t, uint8_t>(ReduceOp::Any, 0, c, bytes, 0);
    check<uint8_t, uint8_t>(ReduceOp::All, 0, c, bytes, 0);
    const auto half = random_vector<BFloat16>(c.extent(), 6);
    check<BFloat16, float>(ReduceOp::Sum, 0, c, half, 1e-5);
    check<BFloat16, BFloat16>(ReduceOp::Max, 0, c, half, 0);
    check<float, double>(ReduceOp::Sum, 0, c, random_vector<float>(c.extent(), 7), 1e-13);
  }
}

TEST_CASE("reduce: NaN and infinity") {
  for (const Case& c :
       {contiguous({3, 2000}, 2), contiguous({100, 40}, 1), contiguous({90, 4}, 2)}) {
    for (const double special : {kNan, kInf, -kInf}) {
      auto x = random_vector<float>(c.extent(), 8);
      x[5] = x[77] = x[static_cast<size_t>(c.extent() - 1)] = static_cast<float>(special);
      for (const ReduceOp op :
           {ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min, ReduceOp::ArgMax, ReduceOp::ArgMin,
            ReduceOp::Any, ReduceOp::All, ReduceOp::LogSumExp, ReduceOp::Var})
        check<float, float>(op, 0, c, x, 1e-5);
    }
    const std::vector<float> lowest(static_cast<size_t>(c.extent()), static_cast<float>(-kInf));
    check<float, float>(ReduceOp::LogSumExp, 0, c, lowest, 0);
    check<float, float>(ReduceOp::ArgMax, 0, c, lowest, 0);
  }
}

TEST_CASE("reduce: logsumexp merges blocks of which one is all -inf") {
  std::vector<float> x(2048, static_cast<float>(-kInf));
  for (size_t i = 1024; i < 2048; ++i) x[i] = -1000;
  check<float, float>(ReduceOp::LogSumExp, 0, contiguous({2048}, 1), x, 1e-6);
}

TEST_CASE("reduce: variance of large, nearly equal values") {
  for (const Case& c : {contiguous({100000}, 1), contiguous({3000, 20}, 1)})
    check<double, double>(ReduceOp::Var, 1, c, random_vector<double>(c.extent(), 9, 1e8, 1e8 + 1),
                          1e-9);
}

TEST_CASE("reduce: a float sum of 16 million ones and tenths stays accurate") {
  const Case c = contiguous({1 << 24}, 1);
  const std::vector<float> x(1 << 24, 0.1f);
  float y = 0;
  reduce({.op = ReduceOp::Sum,
          .in_type = kFloat32,
          .in = x.data(),
          .out_type = kFloat32,
          .out = &y,
          .indices = nullptr,
          .sizes = c.sizes,
          .in_strides = c.strides,
          .out_strides = {0},
          .reduced = 1,
          .parameter = 0});
  CHECK(close(y, static_cast<long double>(0.1f) * (1 << 24), 3e-7));
}

TEST_CASE("reduce: nothing to fold") {
  const Case c = contiguous({3, 0}, 2);
  const auto run = [&](ReduceOp op, double p) {
    std::vector<float> y(3, 42);
    reduce({.op = op,
            .in_type = kFloat32,
            .in = nullptr,
            .out_type = kFloat32,
            .out = y.data(),
            .indices = nullptr,
            .sizes = c.sizes,
            .in_strides = c.strides,
            .out_strides = {1, 0},
            .reduced = 2,
            .parameter = p});
    CHECK(((y[0] == y[2]) | (y[0] != y[0])));
    return y[2];
  };
  CHECK(run(ReduceOp::Sum, 0) == 0);
  CHECK(run(ReduceOp::Prod, 0) == 1);
  CHECK(run(ReduceOp::Any, 0) == 0);
  CHECK(run(ReduceOp::All, 0) == 1);
  CHECK(run(ReduceOp::Norm, 2) == 0);
  CHECK(run(ReduceOp::LogSumExp, 0) == -kInf);
  CHECK(std::isnan(run(ReduceOp::Mean, 0)));
  CHECK(std::isnan(run(ReduceOp::Var, 1)));
  reduce({.op = ReduceOp::Sum,
          .in_type = kFloat32,
          .in = nullptr,
          .out_type = kFloat32,
          .out = nullptr,
          .indices = nullptr,
          .sizes = {0, 4},
          .in_strides = {4, 1},
          .out_strides = {1, 0},
          .reduced = 2,
          .parameter = 0});
}

TEST_CASE("reduce: strided output") {
  const auto x = random_vector<float>(12, 10);
  std::vector<float> y(8, -1);
  reduce({.op = ReduceOp::Sum,
          .in_type = kFloat32,
          .in = x.data(),
          .out_type = kFloat32,
          .out = y.data(),
          .indices = nullptr,
          .sizes = {4, 3},
          .in_strides = {3, 1},
          .out_strides = {2, 0},
          .reduced = 2,
          .parameter = 0});
  for (size_t i = 0; i < 4; ++i) {
    CHECK(close(y[2 * i], static_cast<long double>(x[3 * i]) + x[3 * i + 1] + x[3 * i + 2], 1e-6));
    CHECK(y[2 * i + 1] == -1);
  }
}
