// Properties of the expression language on generated input: trees survive printing and parsing, any
// bytes give a tree or an ExprError, deep nesting is refused and long flat text is not.
// PELLUCID_TEST_LONG makes the loops long.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "cli/expr/compile.h"
#include "cli/expr/parser.h"
#include "tests/cli/dice.h"

using namespace pellucid::expr;

namespace {

int iterations() { return std::getenv("PELLUCID_TEST_LONG") != nullptr ? 200'000 : 200; }

// Trees such as the parser makes: no negative literals, callees that can be called, slices inside
// subscripts only.
class TreeMaker {
 public:
  TreeMaker(Ast& ast, Dice& dice) : ast_(ast), dice_(dice) {}

  NodeId statement() {
    switch (dice_.below(6)) {
      case 0:
        return ast_.add(Kind::Assign, {}, {target(), value()});
      case 1:
        return ast_.add(Kind::Assign, {},
                        {ast_.add(Kind::Tuple, {}, {target(), target()}), value()});
      case 2:
        return ast_.add(Kind::AugAssign, {}, {target(), value()},
                        static_cast<uint8_t>(dice_.below(kBinaryOpCount)));
      default:
        return value();
    }
  }

 private:
  NodeId value() { return expression(5); }
  NodeId target() {
    const NodeId name = ast_.add_text(Kind::Name, {}, word());
    return dice_.coin() ? name : ast_.add(Kind::Subscript, {}, {name, index(2)});
  }
  std::string word() {
    const std::vector<std::string> words = {"x", "y",      "sin",      "a_1",  "_",
                                            "T", "\u03b1", "infinite", "order"};
    return words[static_cast<size_t>(dice_.below(static_cast<int>(words.size())))];
  }

  NodeId leaf() {
    switch (dice_.below(9)) {
      case 0:
        return ast_.add(Kind::None, {});
      case 1:
        return ast_.add_integer(Kind::Bool, {}, dice_.below(2));
      case 2:
        return ast_.add_integer(Kind::Integer, {}, dice_.below(1000));
      case 3:
        return ast_.add_float({}, std::ldexp(dice_.below(1000), dice_.below(200) - 100));
      case 4:
        return ast_.add_float({}, dice_.coin() ? INFINITY : NAN);
      case 5:
        return ast_.add_text(
            Kind::String, {},
            std::string{"'\"\\\n\x01 \xce\xb1z"}.substr(static_cast<size_t>(dice_.below(6))));
      case 6:
        return ast_.add(Kind::Ellipsis, {});
      default:
        return ast_.add_text(Kind::Name, {}, word());
    }
  }

  std::vector<NodeId> several(int depth) {
    std::vector<NodeId> out;
    for (int n = dice_.below(4); n > 0; --n) out.push_back(expression(depth));
    return out;
  }

  NodeId expression(int depth) {
    if (depth == 0) return leaf();
    const int d = depth - 1;
    switch (dice_.below(12)) {
      case 0:
        return ast_.add(Kind::List, {}, several(d));
      case 1:
        return ast_.add(Kind::Tuple, {}, several(d));
      case 2:
        return ast_.add(Kind::Unary, {}, {expression(d)}, static_cast<uint8_t>(dice_.below(3)));
      case 3:
        return ast_.add(Kind::Compare, {}, {expression(d), expression(d)},
                        static_cast<uint8_t>(dice_.below(6)));
      case 4:
        return ast_.add_text(Kind::Attribute, {}, word(), {expression(d)});
      case 5: {
        const NodeId object = expression(d);
        return ast_.add(Kind::Subscript, {}, {object, index(d)});
      }
      case 6:
        return call(d);
      case 7:
        return leaf();
      default: {
        const NodeId left = expression(d);
        return ast_.add(Kind::Binary, {}, {left, expression(d)},
                        static_cast<uint8_t>(dice_.below(kBinaryOpCount)));
      }
    }
  }

  NodeId call(int depth) {
    std::vector<NodeId> parts = {
        dice_.coin() ? ast_.add_text(Kind::Name, {}, word())
                     : ast_.add_text(Kind::Attribute, {}, word(), {expression(depth)})};
    for (const NodeId argument : several(depth)) parts.push_back(argument);
    if (dice_.coin()) parts.push_back(ast_.add_text(Kind::Keyword, {}, "dim", {expression(depth)}));
    if (dice_.coin())
      parts.push_back(ast_.add_text(Kind::Keyword, {}, "keepdim", {expression(depth)}));
    return ast_.add(Kind::Call, {}, parts);
  }

  NodeId index(int depth) {
    if (dice_.coin()) return index_item(depth);
    std::vector<NodeId> items;
    for (int n = dice_.below(4); n > 0; --n) items.push_back(index_item(depth));
    return ast_.add(Kind::Tuple, {}, items);
  }

  NodeId index_item(int depth) {
    if (dice_.coin()) return expression(depth);
    const auto part = [&] { return dice_.coin() ? kAbsent : expression(depth); };
    const NodeId start = part(), stop = part(), step = part();
    return ast_.add(Kind::Slice, {}, {start, stop, step});
  }

  Ast& ast_;
  Dice& dice_;
};

bool same(const Ast& a, NodeId i, const Ast& b, NodeId j) {
  if (i == kAbsent || j == kAbsent) return i == j;
  const Node &x = a[i], &y = b[j];
  if (x.kind != y.kind || x.op != y.op || x.child_count != y.child_count ||
      (x.text < 0) != (y.text < 0))
    return false;
  if (x.text >= 0 && a.text(i) != b.text(j)) return false;
  if (x.kind == Kind::Float
          ? !(x.number == y.number || (std::isnan(x.number) && std::isnan(y.number)))
          : x.integer != y.integer)
    return false;
  for (int c = 0; c < x.child_count; ++c)
    if (!same(a, a.child(i, c), b, b.child(j, c))) return false;
  return true;
}

// The stack never runs dry, ends empty, and is never deeper than announced.
bool balanced(const Code& code) {
  int depth = 0, deepest = 0;
  for (const Instruction& i : code.instructions) {
    const StackUse use = stack_use(code, i);
    if (depth < use.pops) return false;
    depth += use.pushes - use.pops;
    deepest = std::max(deepest, depth);
  }
  return depth == 0 && deepest == code.max_stack &&
         code.instructions.back().op == Opcode::ReturnValue;
}

std::string mutate(std::string text, Dice& dice) {
  const std::vector<std::string> pieces = {
      "(",   ")",     "[",    "]",    ",",    ":",    "=",          "**", "-",
      "...", "'",     "\\",   "\n",   ";",    "#",    "1e",         "0x", "_",
      ".",   " and ", "None", "\xce", "\xb1", "\xff", "9999999999", "f(", "x["};
  for (int n = 1 + dice.below(4); n > 0; --n) {
    const auto at = static_cast<size_t>(dice.below(static_cast<int>(text.size()) + 1));
    switch (dice.below(4)) {
      case 0:
        text.insert(at, 1, static_cast<char>(dice.below(256)));
        break;
      case 1:
        text.insert(at, pieces[static_cast<size_t>(dice.below(static_cast<int>(pieces.size())))]);
        break;
      case 2:
        text.erase(at, static_cast<size_t>(1 + dice.below(4)));
        break;
      default:
        if (at < text.size()) text[at] = static_cast<char>(dice.below(256));
    }
  }
  return text;
}

}  // namespace

TEST_CASE("expr fuzz: a printed tree parses to the same tree") {
  const int count = iterations();
  Dice dice(1);
  for (int i = 0; i < count; ++i) {
    Ast ast;
    const NodeId id = TreeMaker(ast, dice).statement();
    const std::string text = print(ast, id);
    INFO(text);
    Ast again;
    REQUIRE_NOTHROW(again = parse(text));
    REQUIRE(again.statements().size() == 1);
    REQUIRE(same(ast, id, again, again.statements()[0]));
    REQUIRE(print(again) == text);
    REQUIRE(balanced(compile(again)));
  }
  MESSAGE("round trips of random trees: " << count);
}

TEST_CASE("expr fuzz: any bytes give a tree or an ExprError that points into them") {
  const std::vector<std::string> seeds = {
      "a = x**2; b = sin(a); c = exp(b); y = c*x",
      "x[1:, ::2, None, ..., mask] += sum(x.T, dim=-1, keepdim=True)",
      "layer_norm(gelu(x*100+10)+x, [1024], eps=1e-5)",
      "a, b = max(x.view([2, -1]) @ w, dim=1)\nwhere(a >= 0.5, 'mean', \"it's \\u00e9\\n\")",
      "(x@y+100)+(x@z+1000) # two products",
      "-x**-2**~y << 3 & 0xff | 1_000 ^ True",
      "\xce\xb1 = inf; \xce\xb2 = nan",
  };
  const int count = iterations();
  Dice dice(2);
  int parsed = 0;
  for (int i = 0; i < count; ++i) {
    const std::string source =
        mutate(seeds[static_cast<size_t>(dice.below(static_cast<int>(seeds.size())))], dice);
    INFO(source);
    try {
      const Ast ast = parse(source);
      const std::string text = print(ast);
      REQUIRE(print(parse(text)) == text);
      const Code code = compile(ast);
      REQUIRE(balanced(code));
      REQUIRE_FALSE(disassemble(code).empty());
      ++parsed;
    } catch (const ExprError& e) {
      REQUIRE(e.span().begin >= 0);
      REQUIRE(e.span().end <= static_cast<int32_t>(source.size()));
      REQUIRE(e.span().begin <= e.span().end);
      REQUIRE_FALSE(e.message().empty());
      REQUIRE(e.length() >= 1);
    }
  }
  CHECK(parsed > 0);
  CHECK(parsed < count);
  MESSAGE("mutated expressions: " << count << ", of which " << parsed << " parsed");
}

TEST_CASE("expr fuzz: nesting has a limit, and the error says so") {
  const auto repeat = [](std::string_view text, int n) {
    std::string out;
    for (int i = 0; i < n; ++i) out += text;
    return out;
  };
  CHECK_NOTHROW(parse(repeat("(", kMaxNesting - 1) + "x" + repeat(")", kMaxNesting - 1)));
  for (const int levels : {kMaxNesting + 1, 100'000}) {
    const std::vector<std::string> deep = {repeat("(", levels) + "x" + repeat(")", levels),
                                           repeat("[", levels) + repeat("]", levels),
                                           repeat("-", levels) + "x",
                                           repeat("x**", levels) + "x",
                                           repeat("f(", levels) + repeat(")", levels),
                                           repeat("x[", levels) + "0" + repeat("]", levels),
                                           repeat("f(k=", levels) + "x" + repeat(")", levels),
                                           repeat("x[:", levels) + "0" + repeat("]", levels)};
    for (const std::string& source : deep) {
      INFO(source.substr(0, 12));
      try {
        parse(source);
        FAIL_CHECK("no error");
      } catch (const ExprError& e) {
        CHECK(e.message() == "the expression is nested more than 200 levels deep");
      }
    }
  }
}

TEST_CASE("expr fuzz: a megabyte of flat text is parsed, printed and compiled") {
  // 200 kB are enough to overflow the stack of anything that recurses along a chain.
  const size_t bytes = std::getenv("PELLUCID_TEST_LONG") != nullptr ? 1'000'000 : 200'000;
  const auto flat = [](size_t size, std::string_view first, std::string_view more,
                       std::string_view last) {
    std::string out(first);
    while (out.size() < size) out += more;
    return out + std::string(last);
  };
  CHECK(parse(flat(1'000'000, "x", "+1", "")).size() > 900'000);
  for (const std::string& source :
       {flat(bytes, "x", "+1", ""), flat(bytes, "x", ".t()", ""), flat(bytes, "x", "[0]", ""),
        flat(bytes, "[", "1,", "]"), flat(bytes, "f(", "x,", ")"), flat(bytes, "", "a=1;", ""),
        flat(bytes, "x", "x", ""), flat(bytes, "'", "s", "'"), flat(bytes, "", "# c\n", ""),
        flat(bytes, "x", " ", ""), flat(bytes, "", "y\n", "")}) {
    INFO(source.substr(0, 12));
    const Ast ast = parse(source);
    const std::string text = print(ast);
    CHECK(print(parse(text)) == text);
    CHECK(balanced(compile(ast)));
  }
}
