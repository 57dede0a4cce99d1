// Who is let in: every rule of the server's guard by itself.
#include "serve/guard.h"

#include <doctest/doctest.h>

#include <set>

using namespace pellucid::serve;

namespace {

const std::string kToken = "00112233445566778899aabbccddeeff";
const std::string kCookie = "pellucid-8765=" + kToken;

Guard guard() { return Guard({"localhost", "127.0.0.1"}, 8765, kToken); }

// A request that is answered; the tests change one thing of it.
RequestFacts get() {
  return {.method = "GET",
          .path = "/data/0",
          .host = "127.0.0.1:8765",
          .cookie = kCookie,
          .fetch_site = "same-origin"};
}
RequestFacts post() {
  RequestFacts r = get();
  r.method = "POST", r.path = "/api/playground";
  r.origin = "http://127.0.0.1:8765";
  r.content_type = "application/json";
  return r;
}
RequestFacts first() {
  return {.method = "GET", .path = "/", .token = kToken, .host = "localhost:8765"};
}
int status(const RequestFacts& r) {
  const Verdict v = guard().check(r);
  CHECK((v.kind == Verdict::Kind::Refuse) == !v.why.empty());
  return v.status;
}

}  // namespace

TEST_CASE("view guard: what is let in") {
  CHECK(status(get()) == 200);
  CHECK(status(post()) == 200);
  CHECK(status(first()) == 303);
  RequestFacts r = get();
  r.fetch_site = "";  // a program that is no browser
  CHECK(status(r) == 200);
  r.host = "LOCALHOST:8765";
  CHECK(status(r) == 200);
  r.method = "HEAD";
  CHECK(status(r) == 200);
}

TEST_CASE("view guard: no token, no answer") {
  const std::string almost = kToken.substr(0, 31) + "0", other_port = "pellucid-8766=" + kToken,
                    bare = kToken, quoted = "pellucid-8765=\"" + kToken + "\"",
                    longer = kCookie + "0";
  for (const std::string& cookie :
       {std::string(), "pellucid-8765=" + almost, other_port, bare, quoted, longer,
        std::string("pellucid-8765="), std::string(";;=;")}) {
    CAPTURE(cookie);
    for (RequestFacts r : {get(), post()}) {
      r.cookie = cookie;
      CHECK(status(r) == 403);
    }
  }
  for (const std::string& cookie : {"a=b; " + kCookie, kCookie + "; c=d", "x=1;" + kCookie + ";"}) {
    RequestFacts r = get();
    r.cookie = cookie;
    CHECK(status(r) == 200);
  }
  RequestFacts r = first();
  r.token = almost;
  CHECK(status(r) == 403);
  r = get();  // the token opens the page alone
  r.cookie = "", r.token = kToken;
  CHECK(status(r) == 403);
  r = post();
  r.path = "/", r.cookie = "", r.token = kToken;
  CHECK(status(r) == 403);
}

TEST_CASE("view guard: the host must be this server") {
  for (const char* host :
       {"", "evil.example", "evil.example:8765", "127.0.0.1", "127.0.0.1:80", "localhost",
        "127.0.0.1:8765.evil.example", "evil.example@127.0.0.1:8765", "127.0.0.2:8765",
        "[::1]:8765", "localhost:87650"}) {
    CAPTURE(host);
    for (RequestFacts r : {get(), post(), first()}) {
      r.host = host;
      CHECK(status(r) == 403);
    }
  }
  const Guard http({"localhost"}, 80, kToken);
  RequestFacts r = first();
  r.host = "localhost";
  CHECK(http.check(r).status == 303);
}

TEST_CASE("view guard: other pages are refused") {
  for (const char* origin :
       {"http://evil.example", "null", "https://127.0.0.1:8765", "http://127.0.0.1:8766",
        "http://127.0.0.1", "file://", "http://localhost:8765.evil.example"}) {
    CAPTURE(origin);
    for (RequestFacts r : {get(), post(), first()}) {
      r.origin = origin;
      CHECK(status(r) == 403);
    }
  }
  for (const char* site : {"cross-site", "same-site", "something-new"}) {
    CAPTURE(site);
    for (RequestFacts r : {get(), post()}) {
      r.fetch_site = site;
      CHECK(status(r) == 403);
      r.fetch_mode = "navigate", r.fetch_dest = "document";
      CHECK(status(r) == 403);  // a link without the token
    }
    // A link with the token may be followed, but neither framed nor fetched.
    RequestFacts r = first();
    r.fetch_site = site, r.fetch_mode = "navigate", r.fetch_dest = "document";
    CHECK(status(r) == 303);
    r.fetch_dest = "iframe";
    CHECK(status(r) == 403);
    r.fetch_dest = "empty", r.fetch_mode = "cors";
    CHECK(status(r) == 403);
    r.fetch_mode = "no-cors", r.fetch_dest = "image";
    CHECK(status(r) == 403);
  }
}

TEST_CASE("view guard: methods and bodies") {
  for (const char* method : {"PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "get", ""}) {
    RequestFacts r = get();
    r.method = method;
    CHECK(status(r) == 405);
  }
  RequestFacts r = post();
  r.transfer_encoding = "chunked";
  CHECK(status(r) == 411);
  for (const char* type :
       {"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data",
        "application/jsonp", "text/plain; application/json"}) {
    r = post();
    r.content_type = type;
    CHECK(status(r) == 415);
  }
  r.content_type = "Application/JSON; charset=utf-8";
  CHECK(status(r) == 200);
}

TEST_CASE("view guard: cookie and tokens") {
  CHECK(guard().cookie() == kCookie + "; HttpOnly; SameSite=Strict; Path=/");
  std::set<std::string> tokens;
  for (int i = 0; i < 100; ++i) {
    const std::string token = new_token();
    CHECK(token.size() == 32);  // 128 bits
    CHECK(token.find_first_not_of("0123456789abcdef") == std::string::npos);
    tokens.insert(token);
  }
  CHECK(tokens.size() == 100);
}
