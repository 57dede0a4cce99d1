// Cutting tensors into parts along a dim; all parts are views. Joining is in shape_join.cpp.
#include "ops/common.h"
#include "pellucid/ops.h"

namespace pellucid {

namespace {

// Parts beyond the entries of a dim are empty; a number of them that memory cannot hold is a
// mistake.
void check_count(std::string_view op, int64_t parts, int64_t length) {
  PELLUCID_CHECK(parts - length <= 1000000, ValueError,
                 "{}: {} parts of {} entries would leave more than 1000000 of them empty.", op,
                 parts, length);
}

Tensors split_at(const Tensor& self, int64_t dim, IntArrayRef lengths) {
  Tensors out;
  out.reserve(lengths.size());
  int64_t start = 0;
  for (int64_t n : lengths) {
    out.push_back(self.slice(dim, start, start + n, 1));
    start += n;
  }
  return out;
}

Tensors split_evenly(std::string_view op, const Tensor& self, int64_t size, int64_t dim) {
  PELLUCID_CHECK(self.dim() > 0, ShapeError, "{}: a tensor without dimensions cannot be cut.", op);
  dim = wrap_dim(op, dim, self.dim());
  const int64_t length = self.size(dim);
  PELLUCID_CHECK(size > 0 || (size == 0 && length == 0), ValueError,
                 "{}: the size of a part must be at least 1, found {} (dim {} has {} entries).", op,
                 size, dim, length);
  Dims lengths;
  for (int64_t start = 0; start < length; start += lengths.back())
    lengths.push_back(std::min(size, length - start));
  if (lengths.empty()) lengths.push_back(0);
  return split_at(self, dim, lengths);
}

Tensors split_sizes(std::string_view op, const Tensor& self, IntArrayRef lengths, int64_t dim) {
  PELLUCID_CHECK(self.dim() > 0, ShapeError, "{}: a tensor without dimensions cannot be cut.", op);
  dim = wrap_dim(op, dim, self.dim());
  int64_t total = 0;
  for (int64_t n : lengths) {
    PELLUCID_CHECK(n >= 0, ValueError, "{}: sizes must not be negative, found {}.", op, lengths);
    PELLUCID_CHECK(!__builtin_add_overflow(total, n, &total), ValueError,
                   "{}: sizes {} sum to more than 2^63 - 1.", op, lengths);
  }
  PELLUCID_CHECK(total == self.size(dim), ValueError,
                 "{}: sizes {} sum to {} but dim {} has {} entries (self {}).", op, lengths, total,
                 dim, self.size(dim), self.sizes());
  return split_at(self, dim, lengths);
}

Tensors split_indices(std::string_view op, const Tensor& self, IntArrayRef indices, int64_t dim) {
  PELLUCID_CHECK(self.dim() > 0, ShapeError, "{}: a tensor without dimensions cannot be cut.", op);
  dim = wrap_dim(op, dim, self.dim());
  Tensors out;
  int64_t start = 0;
  for (int64_t end : indices) {
    out.push_back(self.slice(dim, start, end, 1));
    start = end;
  }
  out.push_back(self.slice(dim, start, self.size(dim), 1));
  return out;
}

Tensors split_sections(std::string_view op, const Tensor& self, int64_t sections, int64_t dim) {
  PELLUCID_CHECK(self.dim() > 0, ShapeError, "{}: a tensor without dimensions cannot be cut.", op);
  PELLUCID_CHECK(sections > 0, ValueError,
                 "{}: the number of sections must be at least 1, found {}.", op, sections);
  dim = wrap_dim(op, dim, self.dim());
  check_count(op, sections, self.size(dim));
  const int64_t each = self.size(dim) / sections, longer = self.size(dim) % sections;
  Dims lengths;
  for (int64_t i = 0; i < sections; ++i) lengths.push_back(each + (i < longer));
  return split_at(self, dim, lengths);
}

// hsplit, vsplit and dsplit: equal parts of one dim, of which the tensor must have enough.
Tensors split_equal(std::string_view op, const Call& c, int64_t dim, int64_t least_dims) {
  const Tensor& self = c.in(0);
  PELLUCID_CHECK(self.dim() >= least_dims, ShapeError,
                 "{}: at least {} dimensions are needed, found {} (sizes {}).", op, least_dims,
                 self.dim(), self.sizes());
  if (c.attr(0).kind() == Attr::Kind::Ints) return split_indices(op, self, c.ints(0), dim);
  PELLUCID_CHECK(c.integer(0) > 0 && self.size(dim) % c.integer(0) == 0, ValueError,
                 "{}: dim {} of size {} cannot be cut into {} equal sections.", op, dim,
                 self.size(dim), c.integer(0));
  return split_sections(op, self, c.integer(0), dim);
}

Tensors hsplit_parts(const Call& c) {
  return split_equal("hsplit", c, c.in(0).dim() == 1 ? 0 : 1, 1);
}
Tensors vsplit_parts(const Call& c) { return split_equal("vsplit", c, 0, 2); }
Tensors dsplit_parts(const Call& c) { return split_equal("dsplit", c, 2, 3); }

}  // namespace

extern constinit const OpDef split_op = {
    .schema = "split.Tensor(Tensor(a) self, int split_size, int dim=0) -> Tensor(a)[]",
    .doc = "Parts of split_size entries of a dim, the last one smaller if need be; views.",
    .compose = [](const Call& c) -> Tensors {
      return split_evenly("split", c.in(0), c.integer(0), c.integer(1));
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({5, 2}), 2});
          s.add({sample_randn({2, 4}), 4, -1});
          s.error({sample_randn({5}), 0}, "must be at least 1");
          s.error({sample_randn({}), 1}, "without dimensions");
        },
};

extern constinit const OpDef split_sizes_op = {
    .schema = "split.sizes(Tensor(a) self, int[] split_size, int dim=0) -> Tensor(a)[]",
    .doc = "Parts of the given sizes of a dim; views.",
    .compose = [](const Call& c) -> Tensors {
      return split_sizes("split", c.in(0), c.ints(0), c.integer(1));
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({5, 2}), Value::ints({1, 4})});
          s.error({sample_randn({5, 2}), Value::ints({1, 3})}, "sum to 4 but dim 0 has 5");
        },
};

extern constinit const OpDef split_with_sizes_op = {
    .schema = "split_with_sizes(Tensor(a) self, int[] split_sizes, int dim=0) -> Tensor(a)[]",
    .doc = "Parts of the given sizes of a dim; views.",
    .compose = [](const Call& c) -> Tensors {
      return split_sizes("split_with_sizes", c.in(0), c.ints(0), c.integer(1));
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({5, 2}), Value::ints({1, 4})});
          s.error({sample_randn({5, 2}), Value::ints({-1, 6})}, "must not be negative");
        },
};

extern constinit const OpDef chunk_op = {
    .schema = "chunk(Tensor(a) self, int chunks, int dim=0) -> Tensor(a)[]",
    .doc = "At most `chunks` parts of a dim, all of one size but the last; views.",
    .compose = [](const Call& c) -> Tensors {
      const Tensor& self = c.in(0);
      PELLUCID_CHECK(self.dim() > 0, ShapeError,
                     "chunk: a tensor without dimensions cannot be cut.");
      PELLUCID_CHECK(c.integer(0) > 0, ValueError,
                     "chunk: the number of chunks must be at least 1, found {}.", c.integer(0));
      const int64_t d = wrap_dim("chunk", c.integer(1), self.dim()), length = self.size(d);
      check_count("chunk", c.integer(0), length);
      if (length == 0) return split_at(self, d, Dims(static_cast<size_t>(c.integer(0)), 0));
      return split_evenly("chunk", self, (length - 1) / c.integer(0) + 1, d);
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({5, 2}), 3});
          s.add({sample_randn({2, 4}), 2, 1});
          s.error({sample_randn({5}), 0}, "must be at least 1");
        },
};

extern constinit const OpDef tensor_split_op = {
    .schema = "tensor_split.sections(Tensor(a) self, int sections, int dim=0) -> Tensor(a)[]",
    .doc = "Exactly `sections` parts of a dim whose sizes differ by at most 1; views.",
    .compose = [](const Call& c) -> Tensors {
      return split_sections("tensor_split", c.in(0), c.integer(0), c.integer(1));
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({5, 2}), 3});
          s.error({sample_randn({5}), 0}, "must be at least 1");
        },
};

extern constinit const OpDef tensor_split_indices_op = {
    .schema = "tensor_split.indices(Tensor(a) self, int[] indices, int dim=0) -> Tensor(a)[]",
    .doc = "Parts of a dim cut at the given indices; views.",
    .compose = [](const Call& c) -> Tensors {
      return split_indices("tensor_split", c.in(0), c.ints(0), c.integer(1));
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({5, 2}), Value::ints({1, 3})});
        },
};

extern constinit const OpDef hsplit_op = {
    .schema = "hsplit.int(Tensor(a) self, int sections) -> Tensor(a)[]",
    .doc = "Equal parts of dim 1, or dim 0 of a vector; views.",
    .compose = hsplit_parts,
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 4}), 2});
          s.error({sample_randn({2, 4}), 3}, "cannot be cut into 3 equal sections");
        },
};

extern constinit const OpDef hsplit_array_op = {
    .schema = "hsplit.array(Tensor(a) self, int[] indices) -> Tensor(a)[]",
    .doc = "Parts of dim 1, or dim 0 of a vector, cut at the given indices; views.",
    .compose = hsplit_parts,
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 4}), Value::ints({1, 3})});
        },
};

extern constinit const OpDef vsplit_op = {
    .schema = "vsplit.int(Tensor(a) self, int sections) -> Tensor(a)[]",
    .doc = "Equal parts of dim 0; views.",
    .compose = vsplit_parts,
    .samples =
        [](Samples& s) {
          s.add({sample_randn({4, 2}), 2});
        },
};

extern constinit const OpDef vsplit_array_op = {
    .schema = "vsplit.array(Tensor(a) self, int[] indices) -> Tensor(a)[]",
    .doc = "Parts of dim 0 cut at the given indices; views.",
    .compose = vsplit_parts,
    .samples =
        [](Samples& s) {
          s.add({sample_randn({4, 2}), Value::ints({1})});
        },
};

extern constinit const OpDef dsplit_op = {
    .schema = "dsplit.int(Tensor(a) self, int sections) -> Tensor(a)[]",
    .doc = "Equal parts of dim 2; views.",
    .compose = dsplit_parts,
    .samples =
        [](Samples& s) {
          s.add({sample_randn({1, 2, 4}), 2});
        },
};

extern constinit const OpDef dsplit_array_op = {
    .schema = "dsplit.array(Tensor(a) self, int[] indices) -> Tensor(a)[]",
    .doc = "Parts of dim 2 cut at the given indices; views.",
    .compose = dsplit_parts,
    .samples =
        [](Samples& s) {
          s.add({sample_randn({1, 2, 4}), Value::ints({1})});
        },
};

extern constinit const OpDef unbind_op = {
    .schema = "unbind.int(Tensor(a) self, int dim=0) -> Tensor(a)[]",
    .doc = "The slices of a dim, without that dim; views.",
    .compose = [](const Call& c) -> Tensors {
      const Tensor& self = c.in(0);
      PELLUCID_CHECK(self.dim() > 0, ShapeError,
                     "unbind: a tensor without dimensions cannot be cut.");
      const int64_t d = wrap_dim("unbind", c.integer(0), self.dim());
      Tensors out;
      for (int64_t i = 0; i < self.size(d); ++i) out.push_back(self.select(d, i));
      return out;
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3, 2})});
          s.add({sample_randn({3, 2}), 1});
          s.error({sample_randn({})}, "without dimensions");
        },
};

extern constinit const OpDef meshgrid_op = {
    .schema = "meshgrid(Tensor[] tensors, str indexing='ij') -> Tensor[]",
    .doc = "The grids of coordinates spanned by vectors; views. 'xy' exchanges the first two dims.",
    .compose = [](const Call& c) -> Tensors {
      PELLUCID_CHECK(c.text(0) == "ij" || c.text(0) == "xy", ValueError,
                     "meshgrid: indexing must be 'ij' or 'xy', found '{}'.", c.text(0));
      PELLUCID_CHECK(c.input_count() > 0, ValueError,
                     "meshgrid: at least one tensor is needed, the list is empty.");
      Tensors in;
      for (const Tensor* t : c.inputs()) in.push_back(*t);
      const bool swap = c.text(0) == "xy" && in.size() >= 2;
      if (swap) std::swap(in[0], in[1]);
      Dims sizes;
      for (const Tensor& t : in) {
        PELLUCID_CHECK(t.dim() <= 1, ShapeError, "meshgrid: vectors are needed, found sizes {}.",
                       t.sizes());
        sizes.push_back(t.numel());
      }
      for (size_t i = 0; i < in.size(); ++i) {
        Dims own(in.size(), 1);
        own[i] = in[i].numel();
        in[i] = in[i].view(own).expand(sizes);
      }
      if (swap) std::swap(in[0], in[1]);
      return in;
    },
    .samples =
        [](Samples& s) {
          s.add({Value::tensors({sample_randn({2}), sample_randn({3})})});
          s.add({Value::tensors({sample_randn({2}), sample_randn({3})})}, {{"indexing", "xy"}});
          s.error({Value::tensors({sample_randn({2})}), "xz"}, "indexing must be 'ij' or 'xy'");
        },
};

}  // namespace pellucid
