// See http_server.h.
#include "serve/http_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <httplib.h>
#include <ifaddrs.h>
#include <netdb.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/escape.h"
#include "serve/guard.h"

namespace pellucid::serve {
namespace {

constexpr size_t kLargestRequest = 64 << 10;
constexpr int kPorts = 100;                       // that are tried
constexpr size_t kThreads = 16;                   // that answer at once
constexpr int kMostFeeds = 8;                     // each holds a thread
constexpr std::chrono::milliseconds kPause{250};  // between questions to a feed
constexpr int kPausesToBeat = 40;  // then a line is sent without need, to learn if anybody listens

// The numeric addresses of this machine's interfaces.
std::vector<std::string> own_addresses() {
  std::vector<std::string> found;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return found;
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr) continue;
    const int family = i->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    char text[NI_MAXHOST];
    const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (getnameinfo(i->ifa_addr, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0)
      found.emplace_back(family == AF_INET ? text : fmt::format("[{}]", text));
  }
  freeifaddrs(list);
  return found;
}

bool is_any(const std::string& host) { return host == "0.0.0.0" || host == "::"; }
std::string in_address(const std::string& host) {
  return host.find(':') == std::string::npos ? host : fmt::format("[{}]", host);
}

// The names under which the server may be addressed.
std::vector<std::string> names_of(const std::string& host) {
  std::vector<std::string> names = {"localhost"};
  if (is_any(host))
    for (std::string& address : own_addresses()) names.push_back(std::move(address));
  else
    names.push_back(in_address(host));
  return names;
}

std::string json_error(std::string_view why) {
  return fmt::format("{{\"error\": {}}}\n", text::json_string(why));
}

void put_error(httplib::Response& response, int status, std::string_view why) {
  response.status = status;
  response.set_content(json_error(why), "application/json");
}

// The rest of the text as a number below `limit`, or -1.
int number_below(std::string_view text, size_t limit) {
  int value = -1;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = status == std::errc() && end == text.data() + text.size();
  return whole && value >= 0 && static_cast<size_t>(value) < limit ? value : -1;
}

}  // namespace

struct HttpServer::Impl {
  httplib::Server http;
  Content content;
  std::string host;
  int port = 0;
  std::unique_ptr<Guard> guard;
  std::mutex mutex;
  std::condition_variable stops;
  bool stopped = false;  // guarded by the mutex
  int feeds = 0;         // likewise
  bool started = false;  // likewise
  std::atomic<bool> ended{false};

  void bind(int first) {
    // Without the library's SO_REUSEPORT, with which two servers would share one port.
    http.set_socket_options([](socket_t s) {
      const int yes = 1;
      setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    for (int p = first; first > 0 && p < first + kPorts && p <= 65535; ++p)
      if (http.bind_to_port(host, p)) {
        port = p;
        return;
      }
    if (first == 0 && (port = http.bind_to_any_port(host)) > 0) return;
    pellucid::detail::raise<IoError>(
        "view: no port of {} can be bound ({}). --host must be an address of this machine, and "
        "--port one that is free.",
        host,
        first == 0
            ? "any was tried"
            : fmt::format("{} to {} were tried", first, std::min(65535, first + kPorts - 1)));
  }

  void welcome(const httplib::Request& request, httplib::Response& response) const {
    response.set_header("Set-Cookie", guard->cookie());
    const std::string site = request.get_header_value("Sec-Fetch-Site");
    if (site.empty() || site == "none" || site == "same-origin") {
      response.set_redirect("/", 303);
      return;
    }
    // A redirect would still count as the other page's request, to which the browser adds no
    // strict cookie. Of this page's own request that is not so.
    response.status = 200;
    response.set_content(
        "<!doctype html><meta http-equiv=\"refresh\" content=\"0;url=/\"><title>pellucid</title>",
        "text/html; charset=utf-8");
  }

  httplib::Server::HandlerResponse admit(const httplib::Request& request,
                                         httplib::Response& response) const {
    using enum httplib::Server::HandlerResponse;
    const auto header = [&](const char* name) { return request.get_header_value(name); };
    const std::string token = request.get_param_value("token"), host_name = header("Host"),
                      origin = header("Origin"), cookie = header("Cookie"),
                      site = header("Sec-Fetch-Site"), mode = header("Sec-Fetch-Mode"),
                      dest = header("Sec-Fetch-Dest"), type = header("Content-Type"),
                      transfer = header("Transfer-Encoding");
    const Verdict v = guard->check({.method = request.method,
                                    .path = request.path,
                                    .token = token,
                                    .host = host_name,
                                    .origin = origin,
                                    .cookie = cookie,
                                    .fetch_site = site,
                                    .fetch_mode = mode,
                                    .fetch_dest = dest,
                                    .content_type = type,
                                    .transfer_encoding = transfer});
    if (v.kind == Verdict::Kind::Allow) return Unhandled;
    if (v.kind == Verdict::Kind::Welcome)
      welcome(request, response);
    else
      put_error(response, v.status, v.why);
    return Handled;
  }

  void serve_data(const httplib::Request& request, httplib::Response& response) const {
    const int n = number_below(request.matches[1].str(), content.items.size());
    if (n < 0) return put_error(response, 404, "There is no such item.");
    const std::shared_ptr<const std::string> item = content.items[static_cast<size_t>(n)];
    response.set_content_provider(item->size(), "application/octet-stream",
                                  [item](size_t offset, size_t length, httplib::DataSink& sink) {
                                    return sink.write(item->data() + offset, length);
                                  });
  }

  // Waits a little; false where the server stops.
  bool pause() {
    std::unique_lock lock(mutex);
    return !stops.wait_for(lock, kPause, [&] { return stopped; });
  }

  void serve_live(const httplib::Request& request, httplib::Response& response) {
    const int n = number_below(request.matches[1].str(), content.items.size());
    const auto found = n < 0 ? content.live.end() : content.live.find(static_cast<size_t>(n));
    if (found == content.live.end())
      return put_error(response, 404, "There is no item that changes.");
    {
      const std::lock_guard lock(mutex);
      if (feeds >= kMostFeeds)
        return put_error(response, 503, "Too many pages watch this server; close some.");
      ++feeds;
    }
    const Numbers from = [&](std::string_view name) {
      const std::string text = request.get_param_value(std::string(name));
      uint64_t value = 0;
      std::from_chars(text.data(), text.data() + text.size(), value);
      return value;
    };
    response.set_chunked_content_provider(
        "text/event-stream",
        [this, feed = found->second(from), idle = 0](size_t, httplib::DataSink& sink) mutable {
          std::string message = feed();
          if (!message.empty())
            message = "data: " + message + "\n\n";
          else if (++idle % kPausesToBeat == 1)
            message = ":\n\n";
          if (!message.empty() && !sink.write(message.data(), message.size())) return false;
          if (!pause()) sink.done();
          return true;
        },
        [this](bool) {
          const std::lock_guard lock(mutex);
          --feeds;
        });
  }

  void serve_api(const httplib::Request& request, httplib::Response& response) const {
    const auto found = content.api.find(request.matches[1].str());
    if (found == content.api.end()) return put_error(response, 404, "There is no such question.");
    try {
      response.set_content(found->second(request.body), "application/json");
    } catch (const Error& e) { put_error(response, 400, e.what()); }
  }

  void route() {
    http.Get("/", [this](const httplib::Request&, httplib::Response& response) {
      response.set_content(content.page, "text/html; charset=utf-8");
    });
    http.Get(R"(/data/(\d{1,9}))",
             [this](const auto& request, auto& response) { serve_data(request, response); });
    http.Get(R"(/live/(\d{1,9}))",
             [this](const auto& request, auto& response) { serve_live(request, response); });
    http.Post(R"(/api/([a-z]{1,20}))",
              [this](const httplib::Request& request, httplib::Response& response) {
                serve_api(request, response);
              });
    http.set_pre_routing_handler(
        [this](const auto& request, auto& response) { return admit(request, response); });
    http.set_error_handler([](const httplib::Request&, httplib::Response& response) {
      if (!response.body.empty()) return;
      put_error(response, response.status,
                response.status == 413   ? "The request is larger than 64 kB."
                : response.status == 404 ? "There is nothing at this address."
                                         : "The request could not be answered.");
    });
    http.set_exception_handler(
        [](const httplib::Request&, httplib::Response& response, const std::exception_ptr&) {
          put_error(response, 500, "The server failed to answer.");
        });
    http.set_payload_max_length(kLargestRequest);
    http.set_default_headers(
        {{"X-Content-Type-Options", "nosniff"},
         {"Referrer-Policy", "no-referrer"},
         {"Cache-Control", "no-store"},
         {"Cross-Origin-Resource-Policy", "same-origin"},
         {"Cross-Origin-Opener-Policy", "same-origin"},
         {"Content-Security-Policy", content.policy + "; frame-ancestors 'none'"}});
    http.set_keep_alive_timeout(1);  // an idle connection holds a thread, and stop() waits for it
    http.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
  }
};

HttpServer::HttpServer(const ServerOptions& options, Content content)
    : impl_(std::make_unique<Impl>()) {
  impl_->content = std::move(content);
  impl_->host = options.host;
  impl_->bind(options.port);
  impl_->guard = std::make_unique<Guard>(names_of(options.host), impl_->port, new_token());
  impl_->route();
}

HttpServer::~HttpServer() { stop(); }

int HttpServer::port() const { return impl_->port; }
const std::string& HttpServer::token() const { return impl_->guard->token(); }
std::string HttpServer::address() const {
  const std::string host = is_any(impl_->host) ? "localhost" : in_address(impl_->host);
  return fmt::format("http://{}:{}/?token={}", host, port(), token());
}
void HttpServer::run() {
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->stopped) return;
    impl_->started = true;
  }
  impl_->http.listen_after_bind();
  impl_->ended = true;
}
void HttpServer::stop() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stopped = true;
    if (!impl_->started) return;
  }
  impl_->stops.notify_all();
  // The library ignores a stop that comes before it listens.
  while (!impl_->ended && !impl_->http.is_running()) std::this_thread::yield();
  impl_->http.stop();
}

}  // namespace pellucid::serve
