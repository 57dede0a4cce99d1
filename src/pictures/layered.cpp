// See layered.h. Four steps, each linear in nodes and edges but for sorting: layers (longest path,
// then sources moved down to what uses them), bends where an edge passes layers, the order within
// layers (barycentres), and positions (each layer as near to its neighbours as its order allows).
#include "pictures/layered.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace pellucid::pictures {
namespace {

// A layer with more nodes is broken into several: a hundred parameters that feed one node are no
// line of a hundred.
constexpr size_t kWidest = 16;
// An edge that passes more layers than this is drawn without bends in each of them.
constexpr int32_t kFarthest = 12;
constexpr int kSweeps = 4;

using Indices = std::vector<int32_t>;

// Lists of numbers in one array: list i is items[starts[i]..starts[i + 1]).
struct Lists {
  Indices starts, items;
  Lists(size_t count, const std::vector<std::pair<int32_t, int32_t>>& pairs, bool reverse)
      : starts(count + 1), items(pairs.size()) {
    const auto key = [&](const auto& p) { return reverse ? p.second : p.first; };
    for (const auto& p : pairs) ++starts[static_cast<size_t>(key(p)) + 1];
    std::partial_sum(starts.begin(), starts.end(), starts.begin());
    Indices next(starts.begin(), starts.end() - 1);
    for (const auto& p : pairs)
      items[static_cast<size_t>(next[static_cast<size_t>(key(p))]++)] =
          reverse ? p.first : p.second;
  }
  template <class F> void each(size_t list, const F& f) const {
    for (int32_t i = starts[list]; i < starts[list + 1]; ++i) f(items[static_cast<size_t>(i)]);
  }
  int32_t size(size_t list) const { return starts[list + 1] - starts[list]; }
};

size_t at(int32_t i) { return static_cast<size_t>(i); }

class Layering {
 public:
  explicit Layering(const LayoutInput& graph) : graph_(graph), real_(graph.nodes.size()) {
    direct();
    rank();
    break_wide();
    bend();
    order();
    place();
  }

  Layout result() const {
    Layout out;
    double left = std::numeric_limits<double>::max(), right = 0;
    for (size_t i = 0; i < real_; ++i) {
      left = std::min(left, center_[i] - width(i) / 2);
      right = std::max(right, center_[i] + width(i) / 2);
    }
    for (size_t i = real_; i < layer_.size(); ++i) {
      left = std::min(left, center_[i]);
      right = std::max(right, center_[i]);
    }
    if (layer_.empty()) return out;
    out.width = right - left;
    out.height = bottoms_.back();
    for (size_t i = 0; i < real_; ++i)
      out.corners.push_back({center_[i] - width(i) / 2 - left, top(i)});
    for (size_t e = 0; e < graph_.edges.size(); ++e) out.routes.push_back(route(e, left));
    return out;
  }

 private:
  double width(size_t i) const { return i < real_ ? graph_.nodes[i].width : 0; }
  double height(size_t i) const { return i < real_ ? graph_.nodes[i].height : 0; }
  double top(size_t i) const { return tops_[at(layer_[i])]; }

  // Edges that close a cycle are turned around: the nodes are taken in an order in which each comes
  // after as many of its predecessors as possible.
  void direct() {
    const Lists after(real_, graph_.edges, false);
    Indices waits(real_), ready, place(real_, -1);
    for (const auto& [from, to] : graph_.edges)
      if (from != to) ++waits[at(to)];
    for (size_t i = real_; i-- > 0;)
      if (waits[i] == 0) ready.push_back(static_cast<int32_t>(i));
    size_t first = 0;  // no node before it is left
    for (size_t taken = 0; taken < real_;) {
      if (ready.empty()) {  // a cycle: its first node goes first
        while (place[first] >= 0) ++first;
        ready.push_back(static_cast<int32_t>(first));
      }
      const int32_t n = ready.back();
      ready.pop_back();
      if (place[at(n)] >= 0) continue;
      place[at(n)] = static_cast<int32_t>(taken++);
      sequence_.push_back(n);
      after.each(at(n), [&](int32_t to) {
        if (--waits[at(to)] == 0 && place[at(to)] < 0) ready.push_back(to);
      });
    }
    for (size_t e = 0; e < graph_.edges.size(); ++e) {
      auto [from, to] = graph_.edges[e];
      if (from == to) continue;
      if (place[at(from)] > place[at(to)]) std::swap(from, to);
      down_.emplace_back(from, to);
      edge_of_.push_back(static_cast<int32_t>(e));
    }
  }

  void rank() {
    layer_.assign(real_, 0);
    const Lists after(real_, down_, false), before(real_, down_, true);
    for (const int32_t n : sequence_)
      after.each(at(n),
                 [&](int32_t to) { layer_[at(to)] = std::max(layer_[at(to)], layer_[at(n)] + 1); });
    for (size_t i = sequence_.size(); i-- > 0;) {
      const auto n = at(sequence_[i]);
      if (before.size(n) > 0 || after.size(n) == 0) continue;
      int32_t next = std::numeric_limits<int32_t>::max();
      after.each(n, [&](int32_t to) { next = std::min(next, layer_[at(to)]); });
      layer_[n] = next - 1;
    }
  }

  // Nodes of one layer have no edges between them, so it may become several.
  void break_wide() {
    const int32_t layers = layer_.empty() ? 0 : 1 + *std::max_element(layer_.begin(), layer_.end());
    Indices count(at(layers)), first(at(layers) + 1);
    for (const int32_t l : layer_) ++count[at(l)];
    for (size_t l = 0; l < count.size(); ++l)
      first[l + 1] = first[l] + static_cast<int32_t>((at(count[l]) + kWidest - 1) / kWidest);
    std::fill(count.begin(), count.end(), 0);
    for (const int32_t n : sequence_) {
      const auto l = at(layer_[at(n)]);
      layer_[at(n)] = first[l] + static_cast<int32_t>(at(count[l]++) / kWidest);
    }
    layers_ = at(first.back());
  }

  // A node without size in each layer that an edge passes.
  void bend() {
    bends_.resize(graph_.edges.size());
    for (size_t d = 0; d < down_.size(); ++d) {
      const auto [from, to] = down_[d];
      int32_t last = from;
      const int32_t passed = layer_[at(to)] - layer_[at(from)] - 1;
      for (int32_t l = layer_[at(from)] + 1; passed <= kFarthest && l < layer_[at(to)]; ++l) {
        const auto bend = static_cast<int32_t>(layer_.size());
        layer_.push_back(l);
        links_.emplace_back(last, bend);
        bends_[at(edge_of_[d])].push_back(bend);
        last = bend;
      }
      links_.emplace_back(last, to);
    }
  }

  void order() {
    rows_.resize(layers_);
    for (const int32_t n : sequence_) rows_[at(layer_[at(n)])].push_back(n);
    for (size_t i = real_; i < layer_.size(); ++i)
      rows_[at(layer_[i])].push_back(static_cast<int32_t>(i));
    const Lists below(layer_.size(), links_, false), above(layer_.size(), links_, true);
    std::vector<double> place(layer_.size()), wish(layer_.size());
    const auto number = [&](const Indices& row) {
      for (size_t i = 0; i < row.size(); ++i)
        place[at(row[i])] = static_cast<double>(2 * i + 1) / static_cast<double>(2 * row.size());
    };
    for (const Indices& row : rows_) number(row);
    for (int sweep = 0; sweep < 2 * kSweeps; ++sweep) {
      const bool downwards = sweep % 2 == 0;
      const Lists& near = downwards ? above : below;
      for (size_t step = 0; step < rows_.size(); ++step) {
        Indices& row = rows_[downwards ? step : rows_.size() - 1 - step];
        for (const int32_t n : row) {
          double sum = 0;
          near.each(at(n), [&](int32_t other) { sum += place[at(other)]; });
          wish[at(n)] = near.size(at(n)) > 0 ? sum / near.size(at(n)) : place[at(n)];
        }
        std::stable_sort(row.begin(), row.end(),
                         [&](int32_t a, int32_t b) { return wish[at(a)] < wish[at(b)]; });
        number(row);
      }
    }
  }

  // The nodes of a row as near to where they wish to be as their order and gaps allow: blocks of
  // nodes that touch move together, to the mean of their wishes.
  void settle(const Indices& row, const std::vector<double>& wish) {
    struct Block {
      double sum = 0, offset = 0;  // of wishes less offsets; where the next node would begin
      size_t count = 0, first = 0;
      double center() const { return sum / static_cast<double>(count); }
    };
    std::vector<Block> blocks;
    std::vector<double> offset(row.size());
    for (size_t i = 0; i < row.size(); ++i) {
      const auto n = at(row[i]);
      const double half = (width(n) + graph_.node_gap) / 2;
      offset[i] = half;
      blocks.push_back({wish[n] - half, 2 * half, 1, i});
      while (blocks.size() > 1) {
        Block& a = blocks[blocks.size() - 2];
        const Block b = blocks.back();
        if (a.center() + a.offset <= b.center()) break;
        for (size_t j = b.first; j < b.first + b.count; ++j) offset[j] += a.offset;
        a.sum += b.sum - a.offset * static_cast<double>(b.count);
        a.offset += b.offset;
        a.count += b.count;
        blocks.pop_back();
      }
    }
    for (const Block& b : blocks)
      for (size_t j = b.first; j < b.first + b.count; ++j)
        center_[at(row[j])] = b.center() + offset[j];
  }

  void place() {
    center_.assign(layer_.size(), 0);
    for (const Indices& row : rows_) {
      double x = 0;
      for (const int32_t n : row) {
        center_[at(n)] = x + (width(at(n)) + graph_.node_gap) / 2;
        x += width(at(n)) + graph_.node_gap;
      }
    }
    const Lists below(layer_.size(), links_, false), above(layer_.size(), links_, true);
    std::vector<double> wish(layer_.size());
    for (int sweep = 0; sweep < 2 * kSweeps; ++sweep) {
      const bool downwards = sweep % 2 == 0;
      const Lists& near = downwards ? above : below;
      for (size_t step = 0; step < rows_.size(); ++step) {
        const Indices& row = rows_[downwards ? step : rows_.size() - 1 - step];
        for (const int32_t n : row) {
          double sum = 0;
          near.each(at(n), [&](int32_t other) { sum += center_[at(other)]; });
          wish[at(n)] = near.size(at(n)) > 0 ? sum / near.size(at(n)) : center_[at(n)];
        }
        settle(row, wish);
      }
    }
    double y = 0;
    for (const Indices& row : rows_) {
      double tallest = 0;
      for (const int32_t n : row) tallest = std::max(tallest, height(at(n)));
      tops_.push_back(y);
      bottoms_.push_back(y + tallest);
      y += tallest + graph_.layer_gap;
    }
  }

  std::vector<Point> route(size_t e, double left) const {
    const auto [from, to] = graph_.edges[e];
    if (from == to) return {};
    const bool down = layer_[at(from)] < layer_[at(to)];
    const auto upper = at(down ? from : to), lower = at(down ? to : from);
    std::vector<Point> points = {{center_[upper] - left, top(upper) + height(upper)}};
    for (const int32_t bend : bends_[e]) {
      const auto b = at(bend);
      points.push_back({center_[b] - left, tops_[at(layer_[b])]});
      points.push_back({center_[b] - left, bottoms_[at(layer_[b])]});
    }
    points.push_back({center_[lower] - left, top(lower)});
    if (!down) std::reverse(points.begin(), points.end());
    return points;
  }

  const LayoutInput& graph_;
  size_t real_, layers_ = 0;
  std::vector<std::pair<int32_t, int32_t>> down_, links_;
  Indices edge_of_, sequence_, layer_;
  std::vector<Indices> bends_, rows_;
  std::vector<double> center_, tops_, bottoms_;
};

}  // namespace

Layout layered_layout(const LayoutInput& graph) { return Layering(graph).result(); }

}  // namespace pellucid::pictures
