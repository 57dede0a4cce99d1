// The program `pellucid`: its commands under its name, and nothing else.
#include <csignal>
#include <string>
#include <vector>

#include "cli/commands/commands.h"

int main(int argc, char** argv) {
  // A reader that closes the pipe ends us without a message, as other filters do; a parent may have
  // changed that.
  std::signal(SIGPIPE, SIG_DFL);
  const pellucid::cli::AppInfo app{.name = "pellucid",
                                   .version = pellucid::cli::program_version(),
                                   .summary = "a deep-learning framework that you can see through",
                                   .examples =
                                       "pellucid graph 'exp(sin(x**2))*x' x=2\n"
                                       "pellucid step 'd = a + b*c' a=2 b=3 c=4\n"
                                       "pellucid time -s 'x = rand(1000, 1000)' 'x @ x'",
                                   .commands = pellucid::cli::command_table()};
  return pellucid::cli::run_app(
      app, std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc), stdout, stderr);
}
