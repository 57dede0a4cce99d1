// Reductions whose input comes in pieces (reduce.h): the blocks, chunks and trees of reduce.cpp,
// for input that lies densely. The caller says which piece comes when; no threads here.
#include <memory>
#include <vector>

#include "kernels/reduce_plan.h"

namespace pellucid::kernels {

using namespace reducing;

namespace {

class Pieces final : public PieceFold {
 public:
  explicit Pieces(const ReduceArgs& args)
      : sizes_(args.sizes.begin(), args.sizes.end()),
        in_strides_(args.in_strides.begin(), args.in_strides.end()),
        out_strides_(args.out_strides.begin(), args.out_strides.end()),
        args_(with_own_dims(args)),
        places_alone_(!args.out),
        plan_(make_plan(args_)) {}

  /// Whether the order of the reduction is one that pieces can follow.
  bool choose_shape() {
    if (plan_.outputs == 0 || plan_.count == 0 || plan_.reduced.n != 1) return false;
    computed = plan_.fold.compute;
    const Dim& folded = plan_.reduced.d[0];
    by_columns_ = by_columns(plan_);
    if (!by_columns_) {
      if (plan_.count > 1 && folded.in != 1) return false;
      shape = {plan_.outputs, plan_.count, 1, kRowChunk, kFoldBlock};
      return true;
    }
    const Dim& columns = plan_.kept.d[plan_.kept.n - 1];
    if (columns.in != 1 || folded.in != columns.size) return false;
    shape = {plan_.outputs / columns.size, plan_.count, columns.size, rows_per_chunk(columns.size),
             kFoldRows};
    outer_.n = plan_.kept.n - 1;
    for (int i = 0; i < outer_.n; ++i) outer_.d[i] = plan_.kept.d[i];
    return true;
  }

  void begin(void* first, void* second, int64_t width) override {
    args_.out = places_alone_ ? nullptr : first;
    if (args_.op == ReduceOp::ArgMax || args_.op == ReduceOp::ArgMin)
      args_.indices = static_cast<int64_t*>(places_alone_ ? first : second);
    else
      args_.mean = second;
    width_ = width;
    per_outer_ = (shape.columns - 1) / width + 1;
    state_ = plan_.state_size(width);
    const int64_t chunks = shape.chunks();
    partial_.resize(
        static_cast<size_t>(chunks > 1 ? shape.outer * per_outer_ * chunks * state_ : 0));
  }

  std::unique_ptr<Task> task(const Place& place) override;

  void finish() override {
    const int64_t chunks = shape.chunks();
    if (chunks == 1) return;
    for (int64_t t = 0; t < shape.outer * per_outer_; ++t) {
      const int64_t column = t % per_outer_ * width_,
                    width = std::min(width_, shape.columns - column);
      std::byte* const states = partial_.data() + t * chunks * state_;
      merge_chunks(plan_, states, chunks, shape.chunk, width_, width);
      keep(states, width_, {t / per_outer_, column, width, 0});
    }
    partial_ = {};
  }

 private:
  class OneTask;
  ReduceArgs with_own_dims(const ReduceArgs& args) const {
    ReduceArgs own = args;
    own.sizes = sizes_;
    own.in_strides = in_strides_;
    own.out_strides = out_strides_;
    return own;
  }

  /// Writes results where the reduction of a whole tensor would.
  void keep(const std::byte* state, int64_t pitch, const Place& place) const {
    if (!by_columns_) return store(plan_, state, pitch, 1, plan_.kept.offsets(place.outer)[1], 1);
    const int64_t stride = plan_.kept.d[plan_.kept.n - 1].out;
    store(plan_, state, pitch, place.width, outer_.offsets(place.outer)[1] + place.column * stride,
          stride);
  }

  /// The state of a task, of the pitch that folds work with.
  void end(const std::byte* state, int64_t pitch, const Place& place) {
    const int64_t chunks = shape.chunks();
    if (chunks == 1) return keep(state, pitch, place);
    std::byte* const to =
        partial_.data() +
        ((place.outer * per_outer_ + place.column / width_) * chunks + place.chunk) * state_;
    const int64_t size = plan_.fold.part_size;
    for (int64_t part = 0; part < plan_.fold.parts; ++part)
      std::copy_n(state + part * pitch * size, place.width * size, to + part * width_ * size);
  }

  const std::vector<int64_t> sizes_, in_strides_, out_strides_;
  ReduceArgs args_;
  const bool places_alone_;
  const Plan plan_;  // looks at args_
  Dims outer_;       // the kept dims around the columns
  bool by_columns_ = false;
  int64_t width_ = 1, per_outer_ = 1, state_ = 0;
  std::vector<std::byte> partial_;
};

class Pieces::OneTask final : public PieceFold::Task {
 public:
  OneTask(Pieces& of, const Place& place)
      : of_(of),
        place_(place),
        pitch_(of.by_columns_ ? kFoldTile : 1),
        memory_(new std::byte[static_cast<size_t>((kLevels + 1) * of.plan_.state_size(pitch_))]),
        tree_(of.plan_.fold, pitch_, place.width, memory_.get()) {}

  void add(const void* const* rows, int64_t n, int64_t first) override {
    const Fold& fold = of_.plan_.fold;
    const double parameter = of_.args_.parameter;
    if (of_.by_columns_) {
      fold.columns(rows, n, place_.width, first, parameter, tree_.next());
      return tree_.push(n);
    }
    const auto* const x = static_cast<const std::byte*>(rows[0]);
    const int64_t size = element_size(fold.compute);
    for (int64_t i = 0; i < n; i += kFoldBlock) {
      const int64_t count = std::min(kFoldBlock, n - i);
      fold.row(x + i * size, count, first + i, parameter, tree_.next());
      tree_.push(count);
    }
  }
  void end() override { of_.end(tree_.root(), pitch_, place_); }

 private:
  Pieces& of_;
  const Place place_;
  const int64_t pitch_;
  const std::unique_ptr<std::byte[]> memory_;
  Tree tree_;
};

std::unique_ptr<PieceFold::Task> Pieces::task(const Place& place) {
  return std::make_unique<OneTask>(*this, place);
}

}  // namespace

std::shared_ptr<PieceFold> piece_fold(const ReduceArgs& args) {
  auto pieces = std::make_shared<Pieces>(args);
  return pieces->choose_shape() ? pieces : nullptr;
}

}  // namespace pellucid::kernels
