// The server of the viewer: the page, the data of numbered items, and what the page may ask it to
// do. It is linked into programs that serve (the command, the tests) and not into libpellucid,
// which would otherwise load an HTTP library into every program.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pellucid/error.h"

namespace pellucid::serve {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 8765;  ///< the first to try; a taken one gives the next free one, 0 any
};

/// Gives the next message for a page that watches an item, or "" where there is none yet.
using Feed = std::function<std::string()>;
/// A number of the request's address, 0 where it has none of that name.
using Numbers = std::function<uint64_t(std::string_view name)>;

/// What is served. Nothing of it is found by a path of the request.
struct Content {
  std::string page;                                       ///< the HTML of "/"
  std::string policy;                                     ///< its Content-Security-Policy
  std::vector<std::shared_ptr<const std::string>> items;  ///< /data/0, /data/1…
  /// By item: makes the feed of a page that watches it (GET /live/N, server-sent events).
  std::map<size_t, std::function<Feed(const Numbers& from)>> live;
  /// Answers POST /api/NAME with JSON. An Error thrown becomes status 400 with its message.
  std::map<std::string, std::function<std::string(const std::string& body)>> api;
};

class HttpServer {
 public:
  /// Binds the port; throws IoError where none of a hundred is free or the host is not ours.
  HttpServer(const ServerOptions& options, Content content);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  int port() const;
  const std::string& token() const;
  /// "http://127.0.0.1:8765/?token=…"
  std::string address() const;
  /// Answers until stop(), which any thread may call.
  void run();
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pellucid::serve
