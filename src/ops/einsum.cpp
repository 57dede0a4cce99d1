// einsum: any equation over letters, with ellipsis and repeated indices, as permutes, sums and
// batched products. Operands are contracted from left to right, as PyTorch does without a path; no
// order is searched.
#include <algorithm>
#include <array>

#include "ops/linalg.h"

namespace pellucid {
namespace {

constexpr int kEllipsis = -1;  // stands for all dimensions that "..." covers
constexpr int kLetters = 52;

int letter_index(char ch) {
  return ch >= 'A' && ch <= 'Z' ? ch - 'A' : ch >= 'a' && ch <= 'z' ? 26 + ch - 'a' : -2;
}
char letter_of(int label) { return static_cast<char>(label < 26 ? 'A' + label : 'a' + label - 26); }

using Labels = std::vector<int>;

struct Equation {
  std::vector<Labels> operands;
  Labels output;
  bool has_output = false;
};

// One side of an operand: letters, spaces and at most one "...".
Labels parse_labels(std::string_view text, size_t& at, std::string_view stop,
                    std::string_view equation) {
  Labels out;
  bool ellipsis = false;
  for (; at < text.size() && stop.find(text[at]) == std::string_view::npos; ++at) {
    if (text[at] == ' ') continue;
    if (text[at] == '.') {
      PELLUCID_CHECK(text.substr(at, 3) == "...", ValueError,
                     "einsum: found a '.' at position {} of '{}' that is not part of '...'.", at,
                     equation);
      PELLUCID_CHECK(!ellipsis, ValueError,
                     "einsum: '...' appears more than once in one operand of '{}' (position {}).",
                     equation, at);
      ellipsis = true;
      out.push_back(kEllipsis);
      at += 2;
      continue;
    }
    const int label = letter_index(text[at]);
    PELLUCID_CHECK(label >= 0, ValueError,
                   "einsum: '{}' at position {} of '{}' is not a letter, ',', '->' or '...'.",
                   text[at], at, equation);
    out.push_back(label);
  }
  return out;
}

Equation parse_equation(std::string_view text) {
  Equation e;
  size_t at = 0;
  while (true) {
    e.operands.push_back(parse_labels(text, at, ",-", text));
    if (at == text.size()) return e;
    if (text[at] == ',') {
      ++at;
      continue;
    }
    PELLUCID_CHECK(text.substr(at, 2) == "->", ValueError,
                   "einsum: found '-' at position {} of '{}'; the result is written after '->'.",
                   at, text);
    at += 2;
    e.has_output = true;
    e.output = parse_labels(text, at, "", text);
    return e;
  }
}

// The dimensions of the whole sum in a fixed order: the ellipsis, the output's letters, then the
// summed ones.
struct Plan {
  std::array<int, kLetters> place{};  // of each letter; -1 where it does not occur
  size_t ellipsis_dims = 0, output_dims = 0, total = 0;
  Dims sizes;
};

size_t ellipsis_length(const Labels& labels, const Tensor& t, size_t operand,
                       std::string_view equation) {
  const bool ellipsis = std::find(labels.begin(), labels.end(), kEllipsis) != labels.end();
  const size_t letters = labels.size() - ellipsis, dims = t.sizes().size();
  PELLUCID_CHECK(ellipsis ? dims >= letters : dims == letters, ShapeError,
                 "einsum: operand {} has {} dimensions (sizes {}) but '{}' gives it {}{}.", operand,
                 dims, t.sizes(), equation, letters, ellipsis ? " or more" : "");
  return dims - letters;
}

Plan make_plan(Equation& e, Inputs operands, std::string_view text) {
  std::array<int, kLetters> count{};
  size_t widest = 0;
  bool any_ellipsis = false;
  for (size_t i = 0; i < operands.size(); ++i) {
    widest = std::max(widest, ellipsis_length(e.operands[i], *operands[i], i, text));
    for (const int l : e.operands[i])
      l == kEllipsis ? any_ellipsis = true, 0 : ++count[static_cast<size_t>(l)];
  }
  if (!e.has_output) {  // the ellipsis, then the letters that occur once, in alphabetical order
    if (any_ellipsis) e.output.push_back(kEllipsis);
    for (int l = 0; l < kLetters; ++l)
      if (count[static_cast<size_t>(l)] == 1) e.output.push_back(l);
  }
  Plan p;
  p.place.fill(-1);
  const bool output_ellipsis =
      std::find(e.output.begin(), e.output.end(), kEllipsis) != e.output.end();
  size_t next = 0;
  for (const int l : e.output) {
    if (l == kEllipsis) {
      p.ellipsis_dims = widest;
      continue;
    }
    PELLUCID_CHECK(count[static_cast<size_t>(l)] > 0, ValueError,
                   "einsum: the result's index '{}' occurs in no operand of '{}'.", letter_of(l),
                   text);
    PELLUCID_CHECK(p.place[static_cast<size_t>(l)] < 0, ValueError,
                   "einsum: the index '{}' appears more than once in the result of '{}'.",
                   letter_of(l), text);
    p.place[static_cast<size_t>(l)] = static_cast<int>(next++);
  }
  p.output_dims = next + (output_ellipsis ? widest : 0);
  for (int l = 0; l < kLetters; ++l)
    if (count[static_cast<size_t>(l)] > 0 && p.place[static_cast<size_t>(l)] < 0)
      p.place[static_cast<size_t>(l)] = static_cast<int>(next++);
  // An ellipsis that the result does not name is summed: its dimensions come last.
  const size_t ellipsis_at = output_ellipsis ? 0 : next;
  for (int& place : p.place)
    if (place >= 0 && output_ellipsis) place += static_cast<int>(widest);
  p.ellipsis_dims = widest;
  p.total = next + widest;
  p.sizes.resize(p.total, 1);
  for (size_t i = 0; i < operands.size(); ++i) {
    const Tensor& t = *operands[i];
    size_t d = 0;
    const size_t own = ellipsis_length(e.operands[i], t, i, text);
    for (const int l : e.operands[i]) {
      for (size_t k = 0; k < (l == kEllipsis ? own : 1); ++k, ++d) {
        const size_t at = l == kEllipsis ? ellipsis_at + widest - own + k
                                         : static_cast<size_t>(p.place[static_cast<size_t>(l)]);
        const int64_t size = t.sizes()[d];
        PELLUCID_CHECK(size == p.sizes[at] || size == 1 || p.sizes[at] == 1, ShapeError,
                       "einsum: operand {} has size {} at dimension {}{}, but an earlier one has "
                       "{} there (equation '{}').",
                       i, size, d,
                       l == kEllipsis ? std::string(" (in '...')")
                                      : fmt::format(" (index '{}')", letter_of(l)),
                       p.sizes[at], text);
        if (p.sizes[at] == 1) p.sizes[at] = size;
      }
    }
  }
  return p;
}

// The operand with one dimension for each of the plan's: diagonals for repeated letters, size 1
// where it lacks one.
Tensor align(Tensor t, const Labels& labels, const Plan& p, bool output_ellipsis,
             std::string_view text) {
  const size_t own =
      t.sizes().size() -
      (labels.size() - static_cast<size_t>(std::count(labels.begin(), labels.end(), kEllipsis)));
  Labels at;  // of each dimension of t: its place in the plan
  for (const int l : labels) {
    if (l != kEllipsis) {
      at.push_back(p.place[static_cast<size_t>(l)]);
      continue;
    }
    const size_t first = output_ellipsis ? 0 : p.total - p.ellipsis_dims;
    for (size_t k = 0; k < own; ++k)
      at.push_back(static_cast<int>(first + p.ellipsis_dims - own + k));
  }
  for (size_t i = 0; i < at.size(); ++i) {
    for (size_t j = i + 1; j < at.size();) {
      if (at[j] != at[i]) {
        ++j;
        continue;
      }
      const auto a = static_cast<int64_t>(i), b = static_cast<int64_t>(j);
      PELLUCID_CHECK(t.size(a) == t.size(b), ShapeError,
                     "einsum: a repeated index has sizes {} and {} in one operand of '{}'.",
                     t.size(a), t.size(b), text);
      t = t.diagonal(0, a, b).movedim(-1, a);
      at.erase(at.begin() + static_cast<std::ptrdiff_t>(j));
    }
  }
  Dims order(p.total, -1), sizes(p.total, 1), permutation;
  for (size_t i = 0; i < at.size(); ++i)
    order[static_cast<size_t>(at[i])] = static_cast<int64_t>(i);
  for (const int64_t d : order)
    if (d >= 0) permutation.push_back(d);
  t = t.permute(permutation);
  for (size_t i = 0; i < p.total; ++i)
    if (order[i] < 0) t = t.unsqueeze(static_cast<int64_t>(i));
  return t;
}

// The sum over those of the dims that are not size 1 already; they stay, with size 1.
Tensor sum_away(const Tensor& t, const Dims& dims) {
  Dims over;
  for (const int64_t d : dims)
    if (t.size(d) != 1) over.push_back(d);
  return over.empty() ? t : t.sum(over.ref(), true, t.dtype());
}

// The product of two aligned operands, summed over `dims`: one batched matrix product.
Tensor contract_pair(Tensor a, Tensor b, const Dims& dims) {
  Dims batch, only_a, only_b, inner, sum_a, sum_b;
  for (int64_t d = 0; d < a.dim(); ++d) {
    const bool summed = std::find(dims.begin(), dims.end(), d) != dims.end();
    if (a.size(d) != 1 && b.size(d) != 1)
      (summed ? inner : batch).push_back(d);
    else if (summed)
      (a.size(d) != 1 ? sum_a : sum_b).push_back(d);
    else
      (b.size(d) != 1 ? only_b : only_a).push_back(d);
  }
  a = sum_away(a, sum_a);
  b = sum_away(b, sum_b);
  if (inner.empty() && (only_a.empty() || only_b.empty())) return a.mul(b);
  const auto product = [](const Tensor& t, const Dims& over) {
    int64_t n = 1;
    for (const int64_t d : over) n *= t.size(d);
    return n;
  };
  const auto order = [](std::initializer_list<const Dims*> parts) {
    Dims out;
    for (const Dims* part : parts)
      for (const int64_t d : *part) out.push_back(d);
    return out;
  };
  const int64_t batches = product(a, batch), rows = product(a, only_a),
                columns = product(b, only_b), k = product(a, inner);
  const Tensor left = a.permute(order({&batch, &only_a, &inner, &only_b, &sum_a, &sum_b}))
                          .reshape({batches, rows, k});
  const Tensor right = b.permute(order({&batch, &inner, &only_b, &only_a, &sum_a, &sum_b}))
                           .reshape({batches, k, columns});
  Dims sizes;
  const Dims back = order({&batch, &only_a, &only_b, &inner, &sum_a, &sum_b});
  for (size_t i = 0; i < back.size(); ++i) {
    const bool free = i < batch.size() + only_a.size() + only_b.size();
    sizes.push_back(!free ? 1 : a.size(back[i]) != 1 ? a.size(back[i]) : b.size(back[i]));
  }
  Dims inverse(back.size(), 0);
  for (size_t i = 0; i < back.size(); ++i)
    inverse[static_cast<size_t>(back[i])] = static_cast<int64_t>(i);
  return left.bmm(right).reshape(sizes).permute(inverse);
}

Tensor compose_einsum(const Call& c) {
  const std::string_view text = c.text(0);
  const Inputs operands = c.inputs();
  PELLUCID_CHECK(!operands.empty(), ValueError, "einsum: at least one operand is needed for '{}'.",
                 text);
  Equation e = parse_equation(text);
  PELLUCID_CHECK(e.operands.size() == operands.size(), ValueError,
                 "einsum: '{}' describes {} operands but {} were given.", text, e.operands.size(),
                 operands.size());
  for (size_t i = 0; i < operands.size(); ++i) {
    check_defined(c, i, "an operand");
    check_same_dtype(c, c.in(0), c.in(i));
  }
  const Plan p = make_plan(e, operands, text);
  const bool output_ellipsis =
      std::find(e.output.begin(), e.output.end(), kEllipsis) != e.output.end();
  std::vector<Tensor> aligned;
  for (size_t i = 0; i < operands.size(); ++i)
    aligned.push_back(align(*operands[i], e.operands[i], p, output_ellipsis, text));
  Tensor result = aligned[0];
  for (size_t i = 1; i < aligned.size(); ++i) {
    Dims last;  // the summed dims that no later operand has
    for (size_t d = p.output_dims; d < p.total; ++d) {
      bool later = false;
      for (size_t j = i + 1; j < aligned.size(); ++j)
        later |= aligned[j].size(static_cast<int64_t>(d)) != 1;
      if (!later) last.push_back(static_cast<int64_t>(d));
    }
    result = contract_pair(result, aligned[i], last);
  }
  Dims rest;
  for (size_t d = p.output_dims; d < p.total; ++d) rest.push_back(static_cast<int64_t>(d));
  result = sum_away(result, rest);
  if (!rest.empty()) result = result.squeeze(rest);
  // The plan has the ellipsis first; the equation may name it elsewhere.
  Dims order;
  for (const int l : e.output) {
    if (l == kEllipsis)
      for (size_t k = 0; k < p.ellipsis_dims; ++k) order.push_back(static_cast<int64_t>(k));
    else
      order.push_back(p.place[static_cast<size_t>(l)]);
  }
  return result.permute(order);
}

}  // namespace

extern constinit const OpDef einsum_op = {
    .schema = "einsum(str equation, Tensor[] tensors) -> Tensor",
    .doc = "The sum of products that an equation such as 'bij,bjk->bik' describes.",
    .kind = OpKind::Contraction,
    .compose = [](const Call& c) -> Tensors { return {compose_einsum(c)}; },
    .onnx = {"Einsum", 12},
    .samples =
        [](Samples& s) {
          const auto add = [&](const char* equation, const std::vector<Tensor>& t) {
            s.add({equation, Value::tensors(t)});
          };
          const auto fail = [&](const char* equation, const std::vector<Tensor>& t,
                                const char* message) {
            s.error({equation, Value::tensors(t)}, message);
          };
          add("ij,jk->ik", {sample_randn({2, 3}), sample_randn({3, 2})});
          add("ij,jk", {sample_randn({2, 3}), sample_randn({3, 2})});
          add("bij,bjk->bik", {sample_randn({2, 2, 3}), sample_randn({2, 3, 2})});
          add("...ij,...jk->...ik", {sample_randn({2, 1, 2, 3}), sample_randn({2, 3, 2})});
          add("bthd,bshd->bhts", {sample_randn({1, 2, 2, 3}), sample_randn({1, 3, 2, 3})});
          add("ii->i", {sample_randn({3, 3})});
          add("ii", {sample_randn({3, 3})});
          add("iij->ji", {sample_randn({2, 2, 3})});
          add("ij->ji", {sample_randn({2, 3})});
          add("ij->", {sample_randn({2, 3})});
          add("ba", {sample_randn({2, 3})});
          add("i,j->ij", {sample_randn({2}), sample_randn({3})});
          add("i,i->", {sample_randn({3}), sample_randn({3})});
          add("ij,ij->ij", {sample_randn({2, 3}), sample_randn({2, 3})});
          add("i,ij,j->", {sample_randn({2}), sample_randn({2, 3}), sample_randn({3})});
          add("bn,anm,bm->ba",
              {sample_randn({2, 3}), sample_randn({2, 3, 2}), sample_randn({2, 2})});
          add("ij...->...i", {sample_randn({2, 2, 3})});
          add("...->", {sample_randn({2, 3})});
          add("i...,i->...", {sample_randn({2, 3}), sample_randn({2})});
          add("ij,kj->ik", {sample_randn({2, 3}), sample_randn({2, 1})});
          add(" i j , j -> i ", {sample_randn({2, 3}), sample_randn({3})});
          add("ij,jk->ik", {sample_randn({0, 3}), sample_randn({3, 2})});
          add("ij,jk->ik", {sample_randn({2, 0}), sample_randn({0, 2})});
          fail("ij,jk->ik", {sample_randn({2, 3}), sample_randn({4, 2})},
               "operand 1 has size 4 at dimension 0 (index 'j'), but an earlier one has 3 there");
          fail("ij->ik", {sample_randn({2, 3})}, "the result's index 'k' occurs in no operand");
          fail("ij->ii", {sample_randn({2, 3})},
               "the index 'i' appears more than once in the result");
          fail("i1->i", {sample_randn({2, 3})}, "'1' at position 1");
          fail("ij", {sample_randn({2, 3}), sample_randn({2})},
               "describes 1 operands but 2 were given");
          fail("ijk->i", {sample_randn({2, 3})},
               "operand 0 has 2 dimensions (sizes [2, 3]) but 'ijk->i' gives it 3");
          fail("ii->i", {sample_randn({2, 3})}, "has size 3 at dimension 1");
          fail("i..j->ij", {sample_randn({2, 3})}, "not part of '...'");
          fail("......i->i", {sample_randn({2, 3})}, "'...' appears more than once");
          fail("ij-ji", {sample_randn({2, 3})}, "the result is written after '->'");
          s.large([] {
            return Values{"bthd,bshd->bhts",
                          Value::tensors({randn({4, 256, 12, 64}), randn({4, 256, 12, 64})})};
          });
        }};

}  // namespace pellucid
