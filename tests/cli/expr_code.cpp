// Compilation of expressions to the stack machine, and the listing.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "cli/expr/compile.h"
#include "cli/expr/parser.h"

using namespace pellucid::expr;

namespace {

// "LOAD_NAME a; LOAD_CONST 1; BINARY_OP +"
std::string brief(const std::string& source) {
  const Code code = compile(source);
  std::string out;
  for (size_t i = 0; i < code.instructions.size(); ++i) {
    const ListingRow row = listing_row(code, i);
    if (!out.empty()) out += "; ";
    out += row.name;
    const std::string& detail = row.meaning.empty() ? row.argument : row.meaning;
    if (!detail.empty()) out += " " + detail;
  }
  return out;
}

}  // namespace

TEST_CASE("expr code: the listing has dis's layout") {
  CHECK(disassemble(compile("d = a + b*c")) ==
        "  1           0 LOAD_NAME                0 (a)\n"
        "              2 LOAD_NAME                1 (b)\n"
        "              4 LOAD_NAME                2 (c)\n"
        "              6 BINARY_OP                5 (*)\n"
        "              8 BINARY_OP                0 (+)\n"
        "             10 STORE_NAME               3 (d)\n"
        "             12 LOAD_NAME                3 (d)\n"
        "             14 RETURN_VALUE\n");
  CHECK(disassemble(compile("x\n\ny")) ==
        "  1           0 LOAD_NAME                0 (x)\n"
        "              2 POP_TOP\n"
        "\n"
        "  3           4 LOAD_NAME                1 (y)\n"
        "              6 RETURN_VALUE\n");
}

TEST_CASE("expr code: every form") {
  CHECK(brief("") == "LOAD_CONST None; RETURN_VALUE");
  CHECK(brief("x; 1") == "LOAD_NAME x; POP_TOP; LOAD_CONST 1; RETURN_VALUE");
  CHECK(brief("-x") == "LOAD_NAME x; UNARY_NEGATIVE; RETURN_VALUE");
  CHECK(brief("-2") == "LOAD_CONST -2; RETURN_VALUE");
  CHECK(brief("-2**2") == "LOAD_CONST 2; LOAD_CONST 2; BINARY_OP **; UNARY_NEGATIVE; RETURN_VALUE");
  CHECK(brief("-0.0") == "LOAD_CONST -0.0; RETURN_VALUE");
  CHECK(brief("~True") == "LOAD_CONST True; UNARY_INVERT; RETURN_VALUE");
  CHECK(brief("+x") == "LOAD_NAME x; UNARY_POSITIVE; RETURN_VALUE");
  CHECK(brief("a <= b") == "LOAD_NAME a; LOAD_NAME b; COMPARE_OP <=; RETURN_VALUE");
  CHECK(brief("[1, (2, 'x')]") ==
        "LOAD_CONST 1; LOAD_CONST 2; LOAD_CONST 'x'; BUILD_TUPLE 2; BUILD_LIST 2; RETURN_VALUE");
  CHECK(brief("sum(x, dim=1, keepdim=True)") ==
        "LOAD_NAME x; LOAD_CONST 1; LOAD_CONST True; CALL sum, dim=, keepdim=; RETURN_VALUE");
  CHECK(brief("x.sum(0, keepdim=True)") ==
        "LOAD_NAME x; LOAD_CONST 0; LOAD_CONST True; CALL_METHOD sum, keepdim=; RETURN_VALUE");
  CHECK(brief("x.T.shape") == "LOAD_NAME x; LOAD_ATTR T; LOAD_ATTR shape; RETURN_VALUE");
  CHECK(brief("x[1:, ::2, ...]") ==
        "LOAD_NAME x; LOAD_CONST 1; LOAD_CONST None; BUILD_SLICE 2; LOAD_CONST None; LOAD_CONST "
        "None; LOAD_CONST 2; "
        "BUILD_SLICE 3; LOAD_CONST Ellipsis; BUILD_TUPLE 3; BINARY_SUBSCR; RETURN_VALUE");
  CHECK(brief("x[0] = y") ==
        "LOAD_NAME y; LOAD_NAME x; LOAD_CONST 0; STORE_SUBSCR; LOAD_NAME x; RETURN_VALUE");
  CHECK(brief("x += 1; y") ==
        "LOAD_NAME x; LOAD_CONST 1; BINARY_OP +=; STORE_NAME x; LOAD_NAME y; RETURN_VALUE");
  CHECK(brief("x[i] *= 2") ==
        "LOAD_NAME x; LOAD_NAME i; COPY 2; COPY 2; BINARY_SUBSCR; LOAD_CONST 2; BINARY_OP *=; SWAP "
        "3; SWAP 2; STORE_SUBSCR; "
        "LOAD_NAME x; RETURN_VALUE");
  CHECK(brief("a, b = max(x, 1)") ==
        "LOAD_NAME x; LOAD_CONST 1; CALL max; UNPACK_SEQUENCE 2; STORE_NAME a; STORE_NAME b; "
        "LOAD_NAME a; LOAD_NAME b; "
        "BUILD_TUPLE 2; RETURN_VALUE");
}

TEST_CASE("expr code: tables hold each name and constant once, and different constants apart") {
  const Code code = compile("x + x + 1 + 1 + 1.0 + True + 0.0 + -0.0 + '1' + f(x, x=1)");
  CHECK(code.names == std::vector<std::string>{"x", "f"});
  CHECK(code.constants.size() == 6);
  CHECK(code.calls.size() == 1);
  CHECK(code.calls[0].positional == 1);
  CHECK(code.calls[0].keywords == std::vector<int32_t>{0});
}

TEST_CASE("expr code: free names are those read before they are bound") {
  const Code code = compile("a = x + w; x = a; b = a * x + y; y = w");
  std::vector<std::string> names;
  for (const int32_t n : code.free_names()) names.push_back(code.names[n]);
  CHECK(names == std::vector<std::string>{"x", "w", "y"});
}

TEST_CASE("expr code: the deepest stack, and where each instruction comes from") {
  CHECK(compile("a + b + c").max_stack == 2);
  CHECK(compile("a + (b + c)").max_stack == 3);
  CHECK(compile("[1, 2, 3, 4]").max_stack == 4);
  const Ast ast = parse("y = a\nz = sin(y) * 2");
  const Code code = compile(ast);
  std::vector<std::string> places;
  for (const Instruction& i : code.instructions)
    places.push_back(std::to_string(i.line) + ":" +
                     code.source.substr(i.span.begin, i.span.end - i.span.begin));
  CHECK(places == std::vector<std::string>{"1:a", "1:y", "2:y", "2:sin(y)", "2:2", "2:sin(y) * 2",
                                           "2:z", "2:z", "2:z = sin(y) * 2"});
  CHECK(print(ast, code.instructions[5].node) == "sin(y) * 2");
}
