#include "kernels/pointwise.h"

#include <emmintrin.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "base/parallel.h"
#include "kernels/convert.h"
#include "kernels/copy_transpose.h"
#include "kernels/pointwise_plan.h"
#include "pellucid/error.h"

namespace pellucid::kernels {
namespace {

/// Bytes of one operand's block buffer: small enough for all of them to stay in the first-level
/// cache.
constexpr int64_t kBlockBytes = 4096;
/// Elements to which a value that a whole row shares is spread out; longer blocks run in pieces.
constexpr int64_t kSpread = 256;
/// Edge of the tiles in which transposed operands are visited.
constexpr int64_t kTile = 64;
/// Copies a part of a strided operand, `count` elements from `index` on, to or from a dense block.
template <class E, bool kGather>
void move_block(std::conditional_t<kGather, E, const E>* dense,
                std::conditional_t<kGather, const E, E>* base, const IterationPlan& plan,
                const int64_t* strides, const int64_t* start, int64_t count) {
  int64_t index[kMaxDims];
  auto* p = base;
  for (int d = 0; d < plan.dims; ++d) {
    index[d] = start[d];
    p += index[d] * strides[d];
  }
  const int64_t n0 = plan.dims > 0 ? plan.sizes[0] : 1, s0 = plan.dims > 0 ? strides[0] : 1;
  int64_t first = plan.dims > 0 ? index[0] : 0;
  for (;;) {
    const int64_t run = std::min(n0 - first, count);
    if constexpr (kGather) {
      if (s0 == 0)
        std::fill_n(dense, run, E(*p));
      else if (s0 == 1)
        for (int64_t i = 0; i < run; ++i) dense[i] = p[i];
      else
        for (int64_t i = 0; i < run; ++i) dense[i] = p[i * s0];
    } else {
      if (s0 == 1)
        for (int64_t i = 0; i < run; ++i) p[i] = dense[i];
      else
        for (int64_t i = 0; i < run; ++i) p[i * s0] = dense[i];
    }
    count -= run;
    if (count == 0) return;
    dense += run;
    p -= first * s0;
    first = 0;
    for (int d = 1; d < plan.dims; ++d) {
      p += strides[d];
      if (++index[d] < plan.sizes[d]) break;
      p -= index[d] * strides[d];
      index[d] = 0;
    }
  }
}

template <bool kGather, class Dense, class Base>
void move_block(int64_t element, Dense* dense, Base* base, const IterationPlan& plan,
                const int64_t* strides, const int64_t* start, int64_t count) {
  by_element_size(element, [&](auto type) {
    using E = decltype(type);
    using D = std::conditional_t<kGather, E, const E>;
    using B = std::conditional_t<kGather, const E, E>;
    move_block<E, kGather>(reinterpret_cast<D*>(dense), reinterpret_cast<B*>(base), plan, strides,
                           start, count);
  });
}

/// One operand, classified once for the whole call.
struct Access {
  char* data;
  int64_t element, compute_element;  // bytes
  const int64_t* strides;            // of the plan
  ConvertBlock convert;              // null where storage and compute types agree
  bool dense;                        // a block of it is contiguous in memory
  bool constant;                     // every block has the same content, or one repeated value
};

/// A pointwise call on any layout, cut into blocks that threads share out.
struct BlockRun {
  InnerLoop loop;
  const void* functor;
  const IterationPlan& plan;
  Access access[kMaxOperands];
  int operands;
  int64_t block;  // elements of a full block
  int64_t row;    // blocks never cross a multiple of this many elements
  int64_t blocks_per_row;
  bool spread;  // some input is one value along a row, and another in the next

  void run(int64_t first_block, int64_t last_block) const;
};

/// What one thread needs: a buffer per operand, one for values before conversion, and what the
/// buffers hold.
struct Workspace {
  alignas(64) char buffer[kMaxOperands][kBlockBytes];
  alignas(64) char raw[kBlockBytes];
  int64_t held_offset[kMaxOperands];
  int64_t held_count[kMaxOperands];
};

/// The block of operand k as dense compute values: in place, or brought into `into`.
const char* load(const BlockRun& r, int k, Workspace& w, const int64_t* index, int64_t count,
                 char* into) {
  const Access& a = r.access[k];
  const int64_t offset = r.plan.offset(k, index);
  char* const source = a.data + offset * a.element;
  if (a.dense) {
    if (!a.convert) return source;
    a.convert(into, source, count);
    return into;
  }
  if (a.constant && w.held_offset[k] == offset && w.held_count[k] >= count) return w.buffer[k];
  char* const gathered = a.convert ? w.raw : into;
  move_block<true>(a.element, gathered, static_cast<const char*>(a.data), r.plan, a.strides, index,
                   count);
  if (a.convert) a.convert(into, gathered, count);
  if (into == w.buffer[k]) {
    w.held_offset[k] = offset;
    w.held_count[k] = count;
  }
  return into;
}

void BlockRun::run(int64_t first_block, int64_t last_block) const {
  Workspace w;
  for (int k = 0; k < operands; ++k) w.held_count[k] = 0;
  const Access& out = access[0];
  int64_t index[kMaxDims];
  for (int64_t b = first_block; b < last_block; ++b) {
    const int64_t within = b % blocks_per_row * block;
    const int64_t position = b / blocks_per_row * row + within;
    const int64_t count = std::min({block, row - within, plan.numel - position});
    plan.locate(position, index);
    char* const target = out.data + plan.offset(0, index) * out.element;
    char* const result = out.dense && !out.convert ? target : w.buffer[0];
    if (loop) {
      const void* in[kMaxOperands];
      const int64_t most = spread ? std::min(count, kSpread) : count;
      for (int k = 1; k < operands; ++k)
        in[k - 1] =
            load(*this, k, w, index, spread && access[k].constant ? most : count, w.buffer[k]);
      for (int64_t done = 0; done < count; done += most) {
        const int64_t n = std::min(most, count - done);
        loop(functor, result + done * out.compute_element, in, n);
        for (int k = 1; k < operands; ++k)
          if (!access[k].constant)
            in[k - 1] = static_cast<const char*>(in[k - 1]) + n * access[k].compute_element;
      }
    } else {
      const char* source = load(*this, 1, w, index, count, result);
      if (source != result)
        std::memcpy(result, source, static_cast<size_t>(count * out.compute_element));
    }
    if (result == target) continue;
    const char* stored = result;
    if (out.convert) {
      out.convert(out.dense ? target : w.raw, result, count);
      if (out.dense) continue;
      stored = w.raw;
    }
    move_block<false>(out.element, stored, out.data, plan, out.strides, index, count);
  }
}

/// A dimension along which some input runs through memory much closer than along dimension 0, so
/// that going by rows would fetch a cache line for each element; 0 if there is none.
int crossing_dimension(const IterationPlan& plan, std::span<const Operand> in) {
  if (plan.dims < 2 || plan.numel < 4 * kTile * kTile || plan.sizes[0] < kTile / 2) return 0;
  for (int k = 1; k < plan.operands; ++k) {
    const int64_t element = element_size(in[static_cast<size_t>(k - 1)].dtype);
    if (std::abs(plan.strides[k][0]) * element < 64) continue;
    for (int d = 1; d < plan.dims; ++d) {
      if (plan.strides[k][d] != 0 && std::abs(plan.strides[k][d]) * element <= 16 &&
          plan.sizes[d] >= 8)
        return d;
    }
  }
  return 0;
}

void run_blocks(InnerLoop loop, const void* functor, IntArrayRef shape, const Operand& out,
                std::span<const Operand> in, double work);

/// Runs tiles of dimension 0 by dimension `across`, each a small call of its own, on transposed
/// copies of (the first few of) the inputs that run the other way.
void run_tiles(InnerLoop loop, const void* functor, const IterationPlan& plan, int across,
               const Operand& out, std::span<const Operand> in, double work) {
  const int64_t width = plan.sizes[0], height = plan.sizes[across];
  const int64_t tiles_x = (width - 1) / kTile + 1, tiles_y = (height - 1) / kTile + 1;
  const int64_t tiles = plan.numel / (width * height) * tiles_y * tiles_x;
  const int64_t grain =
      std::max<int64_t>(1, static_cast<int64_t>(kParallelWork / 2 / (kTile * kTile) / work));
  parallel_for(0, tiles, grain, [&](int64_t first, int64_t last) {
    int64_t index[kMaxDims];
    int64_t strides[kMaxOperands][2];
    Operand part[kMaxOperands];
    constexpr int most = 3;
    alignas(64) char transposed[most][kTile * kTile * 8];
    for (int64_t t = first; t < last; ++t) {
      int64_t rest = t / tiles_x / tiles_y;
      for (int d = 1; d < plan.dims; ++d) {
        if (d == across) continue;
        index[d] = rest % plan.sizes[d];
        rest /= plan.sizes[d];
      }
      index[0] = t / tiles_y % tiles_x * kTile;
      index[across] = t % tiles_y * kTile;
      const int64_t shape[2] = {std::min(kTile, height - index[across]),
                                std::min(kTile, width - index[0])};
      for (int k = 0; k < plan.operands; ++k) {
        const Operand& o = k == 0 ? out : in[static_cast<size_t>(k - 1)];
        strides[k][0] = plan.strides[k][across];
        strides[k][1] = plan.strides[k][0];
        part[k] = {o.data + plan.offset(k, index) * element_size(o.dtype), o.dtype, o.compute,
                   strides[k]};
      }
      int used = 0;
      for (int k = 1; k < plan.operands && used < most; ++k) {
        if (strides[k][0] != 1 || strides[k][1] <= 1) continue;
        by_element_size(element_size(part[k].dtype), [&](auto type) {
          using E = decltype(type);
          transpose_panel(reinterpret_cast<E*>(transposed[used]), shape[1],
                          reinterpret_cast<const E*>(part[k].data), strides[k][1], shape[0],
                          shape[1]);
        });
        part[k].data = transposed[used++];
        strides[k][0] = shape[1];
        strides[k][1] = 1;
      }
      run_blocks(loop, functor, shape, part[0], {part + 1, in.size()}, 0);
    }
  });
}

/// Strided, broadcast or converted operands.
[[gnu::noinline]] void run_blocks(InnerLoop loop, const void* functor, IntArrayRef shape,
                                  const Operand& out, std::span<const Operand> in, double work) {
  const int64_t* strides[kMaxOperands];
  strides[0] = out.strides;
  int64_t widest = std::max(element_size(out.dtype), element_size(out.compute));
  for (size_t k = 0; k < in.size(); ++k) {
    strides[k + 1] = in[k].strides;
    widest = std::max({widest, element_size(in[k].dtype), element_size(in[k].compute)});
  }
  const IterationPlan plan(shape, {strides, in.size() + 1});
  if (plan.numel == 0) return;
  if (const int across = crossing_dimension(plan, in); across != 0)
    return run_tiles(loop, functor, plan, across, out, in, work);

  const int64_t capacity = kBlockBytes / widest;
  const int64_t n0 = plan.dims > 0 ? plan.sizes[0] : 1;
  // Long rows are cut into blocks; of short rows as many as fit make one block, so that 10 columns
  // cost no more per element than 1,000.
  const bool by_row = n0 > capacity / 2;
  BlockRun r{.loop = loop,
             .functor = functor,
             .plan = plan,
             .access = {},
             .operands = plan.operands,
             .block = capacity,
             .row = n0,
             .blocks_per_row = 1,
             .spread = false};
  bool buffered = false;
  for (int k = 0; k < plan.operands; ++k) {
    const Operand& o = k == 0 ? out : in[static_cast<size_t>(k - 1)];
    const bool same = o.dtype == o.compute;
    Access& a = r.access[k];
    a = {.data = o.data,
         .element = element_size(o.dtype),
         .compute_element = element_size(o.compute),
         .strides = plan.strides[k],
         .convert = same     ? nullptr
                    : k == 0 ? block_converter(o.dtype, o.compute)
                             : block_converter(o.compute, o.dtype),
         .dense = plan.dims == 0 || (by_row ? plan.strides[k][0] == 1 : plan.linear(k)),
         .constant = false};
    if (by_row) {
      a.constant = plan.strides[k][0] == 0;
      for (int d = 1; d < plan.dims; ++d)
        r.spread |= k > 0 && a.constant && plan.strides[k][d] != 0;
    } else {
      a.constant = true;
      for (int d = 1; d < plan.dims; ++d) a.constant &= plan.strides[k][d] == 0;
    }
    buffered |= !a.dense || !same;
  }
  if (by_row) {
    if (!buffered)
      r.block = std::max<int64_t>(capacity, 16384);  // nothing is copied: only threads need a cut
    r.blocks_per_row = (n0 - 1) / r.block + 1;
  } else {
    r.row = capacity / n0 * n0;
    r.block = r.row;
  }
  const int64_t blocks = by_row ? plan.numel / n0 * r.blocks_per_row : (plan.numel - 1) / r.row + 1;
  if (static_cast<double>(plan.numel) * work < kParallelWork) return r.run(0, blocks);
  const double per_block = static_cast<double>(plan.numel) / static_cast<double>(blocks) * work;
  const int64_t grain = std::max<int64_t>(1, static_cast<int64_t>(kParallelWork / 2 / per_block));
  parallel_for(0, blocks, grain, [&](int64_t b, int64_t e) { r.run(b, e); });
}

/// Elements up to which an operand that is one value is spread out without a plan.
constexpr int64_t kSmall = 64;

void run_small(InnerLoop loop, const void* functor, const Operand& out, std::span<const Operand> in,
               unsigned repeated, int64_t n) {
  alignas(64) char spread[kMaxOperands][kSmall * 8];
  const void* data[kMaxOperands];
  for (size_t k = 0; k < in.size(); ++k) {
    data[k] = in[k].data;
    if ((repeated >> k & 1) == 0) continue;
    by_element_size(element_size(in[k].dtype), [&](auto type) {
      using E = decltype(type);
      E value;
      std::memcpy(&value, in[k].data, sizeof(E));
      E* const to = reinterpret_cast<E*>(spread[k]);
      for (int64_t i = 0; i < n; ++i) to[i] = value;
    });
    data[k] = spread[k];
  }
  loop(functor, out.data, data, n);
}

/// Elements [begin, end) of contiguous operands. With `stream` a block of results is made in the
/// first-level cache, and goes from there to memory.
void run_contiguous(InnerLoop loop, const void* functor, const Operand& out,
                    std::span<const Operand> in, int64_t begin, int64_t end, bool stream) {
  const int64_t size = element_size(out.dtype);
  const int64_t step = stream ? kBlockBytes / size : end - begin;
  alignas(64) char buffer[kBlockBytes];
  for (int64_t b = begin; b < end; b += step) {
    const int64_t n = std::min(step, end - b);
    const void* part[kMaxOperands];
    for (size_t k = 0; k < in.size(); ++k) part[k] = in[k].data + b * element_size(in[k].dtype);
    loop(functor, stream ? buffer : out.data + b * size, part, n);
    if (stream) stream_block(out.data + b * size, buffer, n * size);
  }
  if (stream) _mm_sfence();  // other threads must see it after the join
}

}  // namespace

void stream_block(char* to, const char* from, int64_t bytes) {
  int64_t at = 0;
  for (; at + 64 <= bytes; at += 64)
    for (int64_t k = at; k < at + 64; k += 16)
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + k),
                       _mm_load_si128(reinterpret_cast<const __m128i*>(from + k)));
  std::memcpy(to + at, from + at, static_cast<size_t>(bytes - at));
}

void gather_block(int64_t element, char* dense, const char* base, const IterationPlan& plan,
                  const int64_t* strides, const int64_t* start, int64_t count) {
  move_block<true>(element, dense, base, plan, strides, start, count);
}

void run_pointwise(InnerLoop loop, const void* functor, IntArrayRef shape, const Operand& out,
                   std::span<const Operand> in, double work_per_element) {
  PELLUCID_ASSERT(in.size() < kMaxOperands && (loop || in.size() == 1));
  // The common case, decided without the heap or a plan: everything contiguous and in its compute
  // type.
  bool simple = loop && out.dtype == out.compute;
  for (const Operand& o : in) simple &= o.dtype == o.compute;
  unsigned repeated = (1u << in.size()) - 1;  // inputs that are one value
  int64_t n = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    if (shape[d] == 1) continue;
    simple &= out.strides[d] == n;
    for (size_t k = 0; k < in.size(); ++k) {
      const int64_t s = in[k].strides[d];
      simple &= s == n || s == 0;
      const bool one_value = (repeated >> k & 1) != 0;  // over the dims so far
      if (s != 0) {
        simple &= n == 1 || !one_value;
        repeated &= ~(1u << k);
      } else {
        simple &= one_value;
      }
    }
    n *= shape[d];
  }
  if (n == 0) return;
  if (!simple) return run_blocks(loop, functor, shape, out, in, work_per_element);

  if (n > 1 && repeated != 0) {
    if (n > kSmall) return run_blocks(loop, functor, shape, out, in, work_per_element);
    return run_small(loop, functor, out, in, repeated, n);
  }
  const void* data[kMaxOperands];
  for (size_t k = 0; k < in.size(); ++k) data[k] = in[k].data;
  if (static_cast<double>(n) * work_per_element < kParallelWork)
    return loop(functor, out.data, data, n);
  const int64_t grain = std::max<int64_t>(
      1024, static_cast<int64_t>(kParallelWork / 2 / work_per_element) & ~int64_t{1023});
  bool stream = n * element_size(out.dtype) >= kStreamBytes &&
                reinterpret_cast<uintptr_t>(out.data) % 64 == 0;
  for (const Operand& o : in) stream &= o.data != out.data;  // in place it is in cache already
  parallel_for(0, n, grain,
               [&](int64_t b, int64_t e) { run_contiguous(loop, functor, out, in, b, e, stream); });
}

}  // namespace pellucid::kernels
