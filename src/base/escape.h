// Text that came from elsewhere (names and paths of a profile), made safe for where it is shown.
// Bytes that are not UTF-8 become U+FFFD everywhere.
#pragma once

#include <string>
#include <string_view>

#include "pellucid/api.h"

namespace pellucid::text {

/// The same text as valid UTF-8.
PELLUCID_API std::string utf8(std::string_view text);
/// For a terminal: control characters and those that reorder text are shown as \x1b or \u202e.
PELLUCID_API std::string visible(std::string_view text);
/// The same for text of several lines: newlines and tabs stay, and "\r\n" ends a line as "\n".
PELLUCID_API std::string printable(std::string_view text);
/// Takes the first character off the text; U+FFFD for a byte that begins none (overlong forms,
/// surrogates and what lies beyond U+10FFFF among them).
PELLUCID_API char32_t next_character(std::string_view& text);
/// Appends a character as a terminal may get it.
PELLUCID_API void append_visible(std::string& out, char32_t c);
/// For the text and the attributes of HTML and SVG; what XML cannot hold becomes U+FFFD.
PELLUCID_API std::string xml(std::string_view text);
/// A cell of CSV: quoted where it must be; an apostrophe goes before what a spreadsheet would take
/// for a formula.
PELLUCID_API std::string csv_cell(std::string_view text);
/// A string of JSON with its quotation marks. "<" is written \u003c, so that the string may stand
/// in a script of a page.
PELLUCID_API std::string json_string(std::string_view text);

}  // namespace pellucid::text
