// Pictures of a tensor's computation graph: make_dot(y, {{"x", x}}).save("g.svg").
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "pellucid/autograd.h"
#include "pellucid/program.h"
#include "pellucid/tensor.h"

namespace pellucid {

/// How a graph is drawn.
struct DotOptions {
  std::string rankdir = "TB";  ///< "TB" top-down or "LR" left to right
  bool show_saved = false;     ///< what each node keeps for backward, with its bytes
  bool show_shapes = true;     ///< sizes and dtypes of results
  bool collapse_repeats =
      true;  ///< runs of the same operations are drawn once with their count, beyond max_nodes
  int max_nodes = 400;  ///< from how many nodes on repeats are collapsed
  std::vector<std::pair<const void*, std::string>>
      values;  ///< text to show at a node: (node, "-0.7568")
};

/// A graph as DOT text that can be written as a picture.
class PELLUCID_API Dot {
 public:
  explicit Dot(std::string source) : source_(std::move(source)) {}
  /// The DOT text.
  const std::string& source() const { return source_; }
  /// The picture's bytes; format is "svg", "png", "pdf" or "dot".
  std::string render(const std::string& format) const;
  /// Writes the picture; the format is the file's ending. A file that exists is replaced only once
  /// the new one is whole.
  void save(const std::string& file) const;

 private:
  std::string source_;
};

/// The graph that computed `root`, with names for the leaves in `params`.
PELLUCID_API Dot make_dot(const Tensor& root,
                          const std::vector<std::pair<std::string, Tensor>>& params = {},
                          const DotOptions& options = {});
PELLUCID_API Dot make_dot(const Tensors& roots,
                          const std::vector<std::pair<std::string, Tensor>>& params = {},
                          const DotOptions& options = {});

/// A captured program before and after the passes that change it, side by side; in the last picture
/// calls that run as one are in a box. Beyond `max_nodes` calls the rest of a stage is left out.
PELLUCID_API Dot make_dot(const Program& program, const DotOptions& options = {});

/// One node of a graph as data: for --json and programs that draw themselves.
struct GraphNode {
  std::string id;     ///< "n0", the root first
  std::string name;   ///< "MulBackward0", or "AccumulateGrad"
  std::string op;     ///< "mul", "" for a leaf
  std::string label;  ///< the leaf's name
  std::vector<std::pair<Dims, DType>> outputs;
  std::vector<autograd::SavedInfo> saved;
  std::vector<size_t> next;  ///< indices of the nodes that gradients go to
  autograd::NodeRef node;    ///< held: that of a leaf lives only as long as somebody does
};
/// The nodes behind `roots`, newest first.
PELLUCID_API std::vector<GraphNode> graph_nodes(
    const Tensors& roots, const std::vector<std::pair<std::string, Tensor>>& params = {});

}  // namespace pellucid
