// Who may ask the server what. It decides from the request's line and headers alone, before a body
// is read; it knows no socket.
//
// Programs of other users can reach a port of this machine, and so can any page in the user's
// browser. So every request needs a secret: the token of the printed address, which the browser
// then keeps as a cookie that no other page can send, read or overwrite.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pellucid/api.h"

namespace pellucid::serve {

/// What the guard reads of a request. Absent headers are empty.
struct RequestFacts {
  std::string_view method, path;
  std::string_view token;  ///< of the address
  std::string_view host, origin, cookie;
  std::string_view fetch_site, fetch_mode, fetch_dest;  ///< Sec-Fetch-Site and so on
  std::string_view content_type, transfer_encoding;
};

/// What is done with it.
struct Verdict {
  enum class Kind : uint8_t {
    Allow,
    Welcome,  ///< the first address: set the cookie and lead on to "/"
    Refuse,
  };
  Kind kind = Kind::Allow;
  int status = 200;
  std::string why;  ///< of a refusal, a sentence
};

class PELLUCID_API Guard {
 public:
  /// `hosts` are the names under which the server may be addressed, without a port.
  Guard(std::vector<std::string> hosts, int port, std::string token);
  Verdict check(const RequestFacts& r) const;
  const std::string& token() const { return token_; }
  /// Its name has the port in it, since cookies are shared by all ports of a host.
  std::string cookie_name() const;
  /// The header Set-Cookie of a welcome.
  std::string cookie() const;

 private:
  bool is_host(std::string_view host) const;
  bool has_cookie(std::string_view header) const;
  std::vector<std::string> hosts_;
  int port_;
  std::string token_;
};

/// 128 random bits as 32 hexadecimal digits.
PELLUCID_API std::string new_token();

}  // namespace pellucid::serve
