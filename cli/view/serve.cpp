// See serve.h.
#include "cli/view/serve.h"

#include <fmt/format.h>

#include <csignal>
#include <optional>
#include <thread>

#include "cli/validators.h"
#include "cli/view/browser.h"
#include "cli/view/playground.h"
#include "recorder/recorder.h"
#include "serve/run_data.h"

namespace pellucid::cli::view {
namespace {

// SIGINT and SIGTERM of the whole process, for the length of a scope: they wait until asked for, so
// that no handler runs while a request is answered.
class SignalsHeld {
 public:
  SignalsHeld() {
    sigemptyset(&held_);
    sigaddset(&held_, SIGINT);
    sigaddset(&held_, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &held_, &before_);
  }
  ~SignalsHeld() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsHeld(const SignalsHeld&) = delete;
  void wait() const {
    int which = 0;
    sigwait(&held_, &which);
  }

 private:
  sigset_t held_{}, before_{};
};

bool is_local(const std::string& host) {
  return host.starts_with("127.") || host == "localhost" || host == "::1";
}

}  // namespace

void ServeFlags::add_to(CommandLine& line) {
  line.add_option("--port", server.port,
                  "The port to serve at; a taken one gives the next free one, 0 any")
      ->type_name("N")
      ->check(in_range(0, 65535))
      ->capture_default_str();
  line.add_option("--host", server.host, "The address of this machine to serve at")
      ->type_name("ADDRESS")
      ->capture_default_str();
  line.add_flag("--no-browser", no_browser, "Print the address without opening a browser");
}

int serve_until_signal(const Args& args, const ServeFlags& flags, const Opened& opened) {
  serve::Page page = make_page(serve::load_assets(), serve::PageMode::Server, opened.items, {});
  serve::Content content{.page = std::move(page.html), .policy = std::move(page.policy)};
  for (const std::string& data : opened.data)
    content.items.push_back(std::make_shared<const std::string>(data));
  const Playground playground(profile::own_program());
  content.api["playground"] = [&](const std::string& body) { return playground.answer(body); };
  content.api["layout"] = [&](const std::string& body) { return answer_layout(opened, body); };
  for (size_t i = 0; i < opened.folders.size(); ++i)
    if (!opened.folders[i].empty())
      content.live[i] = [folder = opened.folders[i]](const serve::Numbers& from) -> serve::Feed {
        serve::RunPosition position{};
        for (size_t f = 0; f < position.size(); ++f) position[f] = from(serve::kRunFiles[f]);
        return [folder, position]() mutable { return serve::run_news(folder, position); };
      };
  const SignalsHeld signals;  // before any thread is made: they inherit it
  serve::HttpServer server(flags.server, std::move(content));
  if (!is_local(flags.server.host))
    fmt::print(args.err,
               "warning: --host {} lets other machines reach this server; they need the token, but "
               "what is sent is not encrypted\n",
               flags.server.host);
  fmt::print(args.out, "viewing at {} (Ctrl-C stops)\n", server.address());
  std::fflush(args.out);
  std::thread answers([&] { server.run(); });
  std::optional<Browser> browser;
  if (!flags.no_browser) browser.emplace(server.address());
  signals.wait();
  server.stop();
  answers.join();
  return 0;
}

}  // namespace pellucid::cli::view
