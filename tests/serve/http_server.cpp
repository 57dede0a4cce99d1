// The server over a real connection on 127.0.0.1: what is answered, with which headers, and what is
// refused. tests/serve/guard.cpp has the rules one by one.
#include "serve/http_server.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <httplib.h>
#include <unistd.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

using namespace pellucid;
using namespace pellucid::serve;

namespace {

Content content() {
  Content c{.page = "<!doctype html><title>page</title>", .policy = "default-src 'none'"};
  c.items = {std::make_shared<const std::string>("first"),
             std::make_shared<const std::string>(std::string(300'000, '\x07'))};
  c.live[1] = [](const Numbers& from) -> Feed {
    return [next = from("first")]() mutable -> std::string {
      return next < 3 ? "{\"n\": " + std::to_string(next++) + "}" : "";
    };
  };
  c.api["echo"] = [](const std::string& body) { return body; };
  c.api["fail"] = [](const std::string&) -> std::string {
    throw ValueError("the expression is \"wrong\"");
  };
  c.api["crash"] = [](const std::string&) -> std::string { throw 7; };
  return c;
}

/// A server that answers for the length of a test.
class Running {
 public:
  HttpServer server;
  explicit Running(const ServerOptions& options = {.port = 0})
      : server(options, content()), answers_([this] { server.run(); }) {}
  ~Running() {
    server.stop();
    answers_.join();
  }
  httplib::Client client() const { return httplib::Client("127.0.0.1", server.port()); }
  std::string cookie() const {
    return "pellucid-" + std::to_string(server.port()) + "=" + server.token();
  }
  httplib::Headers known() const { return {{"Cookie", cookie()}}; }

 private:
  std::thread answers_;
};

void check_headers(const httplib::Response& r) {
  CHECK(r.get_header_value("X-Content-Type-Options") == "nosniff");
  CHECK(r.get_header_value("Referrer-Policy") == "no-referrer");
  CHECK(r.get_header_value("Cache-Control") == "no-store");
  CHECK(r.get_header_value("Content-Security-Policy") ==
        "default-src 'none'; frame-ancestors 'none'");
  for (const auto& header : r.headers) {
    const std::string& name = header.first;
    CAPTURE(name);
    CHECK(!name.starts_with("Access-Control"));
  }
}

void check_error(const httplib::Result& r, int status) {
  REQUIRE(r);
  CHECK(r->status == status);
  CHECK(r->get_header_value("Content-Type") == "application/json");
  CHECK(!nlohmann::json::parse(r->body).at("error").get<std::string>().empty());
  CHECK(r->get_header_value("Set-Cookie").empty());
  check_headers(*r);
}

}  // namespace

TEST_CASE("view server: from the printed address to the data") {
  const Running r;
  httplib::Client client = r.client();
  const std::string address = r.server.address();
  const std::string origin = "http://127.0.0.1:" + std::to_string(r.server.port());
  REQUIRE(address == origin + "/?token=" + r.server.token());
  const auto first = client.Get(address.substr(origin.size()));
  REQUIRE(first);
  CHECK(first->status == 303);
  CHECK(first->get_header_value("Location") == "/");  // without the token
  const std::string cookie = first->get_header_value("Set-Cookie");
  CHECK(cookie == r.cookie() + "; HttpOnly; SameSite=Strict; Path=/");
  check_headers(*first);
  const auto page = client.Get("/", r.known());
  REQUIRE(page);
  CHECK(page->status == 200);
  CHECK(page->body == content().page);
  CHECK(page->get_header_value("Content-Type") == "text/html; charset=utf-8");
  check_headers(*page);
  const auto data = client.Get("/data/1", r.known());
  REQUIRE(data);
  CHECK(data->status == 200);
  CHECK(data->body == *content().items[1]);
  CHECK(data->get_header_value("Content-Type") == "application/octet-stream");
  check_headers(*data);
}

TEST_CASE("view server: a link in another page leads in") {
  const Running r;
  // The cookie of a redirect would not be sent here, so it is a page that leads on.
  const auto link = r.client().Get("/?token=" + r.server.token(), {{"Sec-Fetch-Site", "cross-site"},
                                                                   {"Sec-Fetch-Mode", "navigate"},
                                                                   {"Sec-Fetch-Dest", "document"}});
  REQUIRE(link);
  CHECK(link->status == 200);
  CHECK(link->body.find("content=\"0;url=/\"") != std::string::npos);
  CHECK(link->body.find(r.server.token()) == std::string::npos);
  CHECK(link->get_header_value("Set-Cookie").starts_with(r.cookie()));
  check_headers(*link);
}

TEST_CASE("view server: refusals") {
  const Running r;
  httplib::Client client = r.client();
  const std::string port = std::to_string(r.server.port());
  check_error(client.Get("/"), 403);
  check_error(client.Get("/data/0"), 403);
  check_error(client.Get("/?token=" + std::string(32, '0')), 403);
  check_error(client.Get("/data/0?token=" + r.server.token()), 403);
  check_error(client.Get("/?token=" + r.server.token(), {{"Host", "evil.example"}}), 403);
  const auto with = [&](const char* name, const std::string& value) {
    httplib::Headers headers = r.known();
    headers.emplace(name, value);
    return headers;
  };
  check_error(client.Get("/data/0", with("Host", "evil.example:" + port)), 403);
  check_error(client.Get("/data/0", with("Origin", "http://evil.example")), 403);
  check_error(client.Get("/data/0", with("Sec-Fetch-Site", "cross-site")), 403);
  check_error(client.Get("/data/0", with("Sec-Fetch-Site", "same-site")), 403);
  check_error(client.Delete("/data/0", r.known()), 405);
  check_error(client.Options("/data/0", r.known()), 405);
  check_error(client.Put("/data/0", r.known(), "x", "text/plain"), 405);
}

TEST_CASE("view server: no path comes from a request") {
  const Running r;
  httplib::Client client = r.client();
  for (const char* path :
       {"/data/2", "/data/-1", "/data/00000000000000000000000", "/data/", "/data", "/data/0/",
        "/data/../etc/passwd", "/../../etc/passwd", "/data/%2e%2e%2fetc%2fpasswd", "/etc/passwd",
        "//etc/passwd", "/data/0.pellucid", "/index.html", "/api/echo"})
    check_error(client.Get(path, r.known()), 404);
}

TEST_CASE("view server: questions are POST with the cookie") {
  const Running r;
  httplib::Client client = r.client();
  const auto ask = [&](const char* path, const std::string& body,
                       const char* type = "application/json") {
    return client.Post(path, r.known(), body, type);
  };
  const auto echo = ask("/api/echo", "{\"a\": 1}");
  REQUIRE(echo);
  CHECK(echo->status == 200);
  CHECK(echo->body == "{\"a\": 1}");
  check_headers(*echo);
  check_error(client.Post("/api/echo", "{}", "application/json"), 403);
  check_error(ask("/api/echo", "a=b", "application/x-www-form-urlencoded"), 415);
  check_error(ask("/api/nothing", "{}"), 404);
  check_error(ask("/data/0", "{}"), 404);
  const auto failed = ask("/api/fail", "{}");
  check_error(failed, 400);
  CHECK(nlohmann::json::parse(failed->body).at("error") == "the expression is \"wrong\"");
  check_error(ask("/api/crash", "{}"), 500);
  check_error(ask("/api/echo", std::string((64 << 10) + 1, ' ')), 413);
  const auto largest = ask("/api/echo", std::string(64 << 10, ' '));
  REQUIRE(largest);
  CHECK(largest->status == 200);
}

TEST_CASE("view server: pages that watch an item get what comes") {
  std::string got;
  {
    const Running r;
    httplib::Client client = r.client();
    client.set_read_timeout(60);
    check_error(client.Get("/live/0", r.known()), 404);
    check_error(client.Get("/live/7", r.known()), 404);
    check_error(client.Get("/live/1"), 403);
    const auto stream =
        client.Get("/live/1?first=1", r.known(), [&](const char* data, size_t size) {
          got.append(data, size);
          return got.find("\"n\": 2") == std::string::npos;
        });
    CHECK(!stream);  // ended by this side
    CHECK(got.starts_with("data: {\"n\": 1}\n\ndata: {\"n\": 2}\n\n"));
    // More than so many at once are refused, and the server stops though they listen.
    std::vector<std::thread> watchers;
    watchers.reserve(9);
    std::atomic<int> watching{0}, refused{0};
    for (int i = 0; i < 9; ++i)
      watchers.emplace_back([&] {
        httplib::Client own = r.client();
        own.set_read_timeout(60);
        bool counted = false;
        const auto answer = own.Get(
            "/live/1", r.known(),
            [&](const httplib::Response& response) {
              (response.status == 200 ? watching : refused)++;
              return counted = true;
            },
            [](const char*, size_t) { return true; });
      });
    while (watching + refused < 9) std::this_thread::yield();
    CHECK(refused >= 1);
    const_cast<HttpServer&>(r.server).stop();
    for (std::thread& t : watchers) t.join();
  }
}

TEST_CASE("view server: a taken port gives the next free one") {
  const Running a;
  const Running b({.port = a.server.port()});
  CHECK(b.server.port() > a.server.port());
  CHECK(b.server.port() < a.server.port() + 100);
  CHECK(a.server.token() != b.server.token());
  // The cookies of two servers of one host do not replace each other, nor open the other.
  CHECK(a.cookie().substr(0, 15) != b.cookie().substr(0, 15));
  check_error(a.client().Get("/", b.known()), 403);
  const auto own = a.client().Get("/", a.known());
  REQUIRE(own);
  CHECK(own->status == 200);
}

TEST_CASE("view server: it stops before, while and after it begins to answer") {
  for (int i = 0; i < 20; ++i) {
    HttpServer server({.port = 0}, content());
    if (i % 3 == 0) server.stop();
    std::thread answers([&] { server.run(); });
    if (i % 3 == 1) std::this_thread::yield();
    server.stop();
    answers.join();
  }
}

TEST_CASE("view server: an address that is not this machine's") {
  CHECK_THROWS_WITH_AS(HttpServer({.host = "192.0.2.1", .port = 9000}, content()),
                       doctest::Contains("no port of 192.0.2.1"), IoError);
}

TEST_CASE("view server: requests that are no HTTP") {
  const Running r;
  const auto send_raw = [&](const std::string& text) {
    const int s = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(r.server.port()));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(connect(s, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0);
    const timeval limit{.tv_sec = 10};
    setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    (void)!::send(s, text.data(), text.size(), MSG_NOSIGNAL);
    shutdown(s, SHUT_WR);
    std::string answer;
    char part[4096];
    for (ssize_t got; (got = recv(s, part, sizeof part, 0)) > 0;)
      answer.append(part, static_cast<size_t>(got));
    close(s);
    return answer;
  };
  const std::string host = "Host: 127.0.0.1:" + std::to_string(r.server.port()) + "\r\n";
  for (const std::string& text :
       {std::string("\r\n\r\n"), std::string("GET\r\n\r\n"), std::string(20'000, 'A'),
        std::string("GET / HTTP/1.1\r\n\r\n"), "GET / HTTP/9.9\r\n" + host + "\r\n",
        "GET /" + std::string(10'000, 'a') + " HTTP/1.1\r\n" + host + "\r\n",
        "POST /api/echo HTTP/1.1\r\n" + host + "Content-Length: -5\r\n\r\n",
        "POST /api/echo HTTP/1.1\r\n" + host + "Cookie: " + r.cookie() +
            "\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n",
        std::string("\x16\x03\x01\x02\x00\x01\x00", 7)}) {
    CAPTURE(text.substr(0, 60));
    CHECK(send_raw(text).find(" 200 ") == std::string::npos);
  }
  const auto after = r.client().Get("/", r.known());  // and it still answers
  REQUIRE(after);
  CHECK(after->status == 200);
}
