// See guard.h.
#include "serve/guard.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>

#include "pellucid/error.h"

namespace pellucid::serve {
namespace {

Verdict refuse(int status, std::string why) {
  return {Verdict::Kind::Refuse, status, std::move(why)};
}

// Takes the same time wherever the texts differ.
bool same_secret(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  return difference == 0;
}

bool same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

}  // namespace

Guard::Guard(std::vector<std::string> hosts, int port, std::string token)
    : hosts_(std::move(hosts)), port_(port), token_(std::move(token)) {}

std::string Guard::cookie_name() const { return fmt::format("pellucid-{}", port_); }

std::string Guard::cookie() const {
  return fmt::format("{}={}; HttpOnly; SameSite=Strict; Path=/", cookie_name(), token_);
}

bool Guard::is_host(std::string_view host) const {
  return std::any_of(hosts_.begin(), hosts_.end(), [&](const std::string& h) {
    return same_word(host, fmt::format("{}:{}", h, port_)) || (port_ == 80 && same_word(host, h));
  });
}

bool Guard::has_cookie(std::string_view header) const {
  while (!header.empty()) {
    const size_t end = std::min(header.find(';'), header.size());
    const std::string_view pair = trimmed(header.substr(0, end));
    header.remove_prefix(std::min(end + 1, header.size()));
    const size_t equals = pair.find('=');
    if (equals != std::string_view::npos && pair.substr(0, equals) == cookie_name() &&
        same_secret(pair.substr(equals + 1), token_))
      return true;
  }
  return false;
}

Verdict Guard::check(const RequestFacts& r) const {
  const bool get = r.method == "GET" || r.method == "HEAD", post = r.method == "POST";
  if (!get && !post) return refuse(405, "Only GET and POST are answered here.");
  // A page elsewhere whose name was made to lead here (DNS rebinding) names itself as the host.
  if (!is_host(r.host)) return refuse(403, "This server is not called by that host name.");
  const bool welcome = get && r.path == "/" && same_secret(r.token, token_);
  const bool own_site =
      r.fetch_site.empty() || r.fetch_site == "none" || r.fetch_site == "same-origin";
  const bool navigation =
      r.fetch_mode == "navigate" && (r.fetch_dest.empty() || r.fetch_dest == "document");
  if (!own_site && !(welcome && navigation))
    return refuse(403, "Other pages may not ask this server.");
  if (!r.origin.empty()) {
    constexpr std::string_view kScheme = "http://";
    if (!r.origin.starts_with(kScheme) || !is_host(r.origin.substr(kScheme.size())))
      return refuse(403, "Other pages may not ask this server.");
  }
  if (welcome) return {Verdict::Kind::Welcome, 303, ""};
  if (!has_cookie(r.cookie))
    return refuse(403,
                  "Open the address that `pellucid view` printed: it has the token without which "
                  "this server answers nobody.");
  if (!post) return {};
  // The length of a body must be known before it is read. And no form of a page elsewhere can send
  // JSON.
  if (!r.transfer_encoding.empty()) return refuse(411, "A request must say how long its body is.");
  if (!same_word(trimmed(r.content_type.substr(0, r.content_type.find(';'))), "application/json"))
    return refuse(415, "A request must be JSON (Content-Type: application/json).");
  return {};
}

std::string new_token() {
  std::array<unsigned char, 16> bytes{};
  for (size_t filled = 0; filled < bytes.size();) {
    const ssize_t got = getrandom(bytes.data() + filled, bytes.size() - filled, 0);
    PELLUCID_CHECK(got > 0 || errno == EINTR, IoError,
                   "view: the system gives no random bytes: {}.", std::strerror(errno));
    if (got > 0) filled += static_cast<size_t>(got);
  }
  std::string token;
  for (const unsigned char byte : bytes) token += fmt::format("{:02x}", byte);
  return token;
}

}  // namespace pellucid::serve
