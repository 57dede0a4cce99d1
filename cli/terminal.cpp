// See terminal.h.
#include "cli/terminal.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/escape.h"

namespace pellucid::cli {
namespace {

SafeStream* g_streams = nullptr;  // few, made and ended by the main thread

/// How many bytes the colour code has that the text begins with: 0 where it begins with none,
/// npos where it may be one that is not whole yet.
size_t color_length(std::string_view text) {
  const std::string tail = ";" + color_code() + "m";
  std::string_view rest = text.substr(1);
  if (rest.empty()) return std::string_view::npos;
  if (rest[0] != '[') return 0;
  rest.remove_prefix(1);
  size_t digits = 0;
  while (digits < rest.size() && digits < 3 && rest[digits] >= '0' && rest[digits] <= '9') ++digits;
  rest.remove_prefix(digits);
  if (rest.starts_with(tail)) return text.size() - rest.size() + tail.size();
  return std::string_view(tail).starts_with(rest) ? std::string_view::npos : 0;
}

/// Whether the text is the beginning of a character of UTF-8, without its end.
bool is_beginning(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const size_t length = first < 0xc2   ? 1
                        : first < 0xe0 ? 2
                        : first < 0xf0 ? 3
                        : first < 0xf5 ? 4
                                       : 1;
  if (text.size() >= length) return false;
  return std::all_of(text.begin() + 1, text.end(),
                     [](char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; });
}

}  // namespace

const std::string& color_code() {
  static const std::string code = [] {
    uint64_t number = 0;
    if (getrandom(&number, sizeof number, 0) != sizeof number)
      number = static_cast<uint64_t>(getpid()) * 0x9e3779b97f4a7c15u;
    return fmt::format("{}", number);
  }();
  return code;
}

SafeStream::SafeStream(std::FILE* target) : target_(target), next_(g_streams) {
  stream_ =
      fopencookie(this, "w", {.read = nullptr, .write = write, .seek = nullptr, .close = nullptr});
  if (!stream_) {
    stream_ = target;
    return;
  }
  g_streams = this;
  const int descriptor = fileno(target);
  if (target == stderr)
    setvbuf(stream_, nullptr, _IONBF, 0);
  else if (descriptor >= 0 && isatty(descriptor) == 1)
    setvbuf(stream_, nullptr, _IOLBF, BUFSIZ);
}

SafeStream::~SafeStream() {
  if (stream_ == target_) return;
  std::fclose(stream_);
  const std::string rest = filter("", true);
  std::fwrite(rest.data(), 1, rest.size(), target_);
  std::fflush(target_);
  g_streams = next_;
}

ssize_t SafeStream::write(void* self, const char* bytes, size_t count) {
  auto* stream = static_cast<SafeStream*>(self);
  const std::string safe = stream->filter({bytes, count});
  const bool written = std::fwrite(safe.data(), 1, safe.size(), stream->target_) == safe.size() &&
                       std::fflush(stream->target_) == 0;
  return written ? static_cast<ssize_t>(count) : 0;
}

std::string SafeStream::filter(std::string_view bytes, bool last) {
  held_ += bytes;
  std::string_view text = held_;
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const char c = text[0];
    if (c == kEscape) {
      const size_t length = color_length(text);
      if (length == std::string_view::npos && !last) break;
      if (length != 0 && length != std::string_view::npos) {
        out += text.substr(0, text.find(';'));
        out += 'm';
        text.remove_prefix(length);
        continue;
      }
    }
    if (c == '\r' && text.size() == 1 && !last) break;  // the end of a line has two characters
    if (c == '\r' && text.starts_with("\r\n")) text.remove_prefix(1);
    if (!last && is_beginning(text)) break;
    const char32_t character = text::next_character(text);
    if (character == '\n' || character == '\t')
      out += static_cast<char>(character);
    else
      text::append_visible(out, character);
  }
  held_ = std::string(text);
  return out;
}

std::FILE* target_of(std::FILE* stream) {
  for (const SafeStream* s = g_streams; s; s = s->next_)
    if (s->stream_ == stream) return s->target_;
  return stream;
}

void control(std::FILE* stream, std::string_view sequence) {
  std::fflush(stream);
  std::FILE* target = target_of(stream);
  std::fwrite(sequence.data(), 1, sequence.size(), target);
  std::fflush(target);
}

}  // namespace pellucid::cli
