// Bytes as a page holds them.
#pragma once

#include <string>
#include <string_view>

namespace pellucid::serve {

/// The alphabet of RFC 4648 with padding.
std::string base64(std::string_view bytes);
/// DEFLATE (RFC 1951) without a header around it, which browsers call "deflate-raw".
std::string deflate_raw(std::string_view bytes);
/// The same with gzip's header and checksum, as HTTP's Content-Encoding: gzip.
std::string gzip(std::string_view bytes);
/// The source expression of a Content-Security-Policy that allows exactly this text: 'sha256-…'.
std::string policy_hash(std::string_view text);

}  // namespace pellucid::serve
