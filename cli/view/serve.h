// The server of the viewer as a command runs it: one line with the address, until Ctrl-C.
#pragma once

#include "cli/app.h"
#include "cli/view/open.h"
#include "serve/http_server.h"

namespace pellucid::cli::view {

struct ServeFlags {
  serve::ServerOptions server;
  bool no_browser = false;
  /// Adds --port, --host and --no-browser.
  void add_to(CommandLine& line);
};

/// Serves the page with these items and the playground until SIGINT or SIGTERM.
int serve_until_signal(const Args& args, const ServeFlags& flags, const Opened& opened);

}  // namespace pellucid::cli::view
