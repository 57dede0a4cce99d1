// pellucid view: profiles on the page of the viewer, from a server on this machine or as one file.
#include <fmt/format.h>

#include "base/atomic_file.h"
#include "cli/commands/commands.h"
#include "cli/output.h"
#include "cli/view/open.h"
#include "cli/view/serve.h"
#include "profile/recording_file.h"
#include "serve/page.h"

namespace pellucid::cli {
namespace {

struct ViewFlags {
  std::vector<std::string> files, to;
  std::string html, data;
  bool no_source = false;
  view::ServeFlags serve;
};

void check_target(const std::string& option, const std::string& target, const ViewFlags& o) {
  std::vector<std::string> inputs;
  for (const auto* files : {&o.files, &o.to})
    for (const std::string& file : *files) {
      inputs.push_back(file);
      inputs.push_back(file + ".raw");
    }
  check_output(option, target, inputs);
  if (profile::is_profile(target))
    throw UsageError(fmt::format("{}: '{}' is a profile; name another file, or remove it first",
                                 option, target));
}

void write_html(const ViewFlags& o, const view::Opened& opened) {
  const serve::Page page =
      make_page(serve::load_assets(), serve::PageMode::File, opened.items, opened.data);
  io::write_file("view", o.html, page.html);
}

int run_view(const Args& args) {
  ViewFlags o;
  CommandLine line(args);
  line.add_option("FILE", o.files,
                  "Profiles that `pellucid profile` wrote, and folders of `pellucid train`")
      ->required();
  line.add_option("--to", o.to, "The runs to compare with the baseline")
      ->type_name("FILE")
      ->expected(1, -1);
  line.add_option("--html", o.html, "Write the page with its data to this file instead of serving")
      ->type_name("FILE");
  line.add_option("--data", o.data, "Write the data that the page is given to this file")
      ->type_name("FILE");
  line.add_flag("--no-source", o.no_source, "Leave out the text of the program's source files");
  o.serve.add_to(line);
  line.read();
  if (!o.html.empty() && !o.data.empty()) throw UsageError("--html and --data: choose one of them");
  if (!o.data.empty() && (o.files.size() != 1 || !o.to.empty()))
    throw UsageError("--data: writes the data of one file");
  check_target("--html", o.html, o);
  check_target("--data", o.data, o);
  view::Opened opened;
  try {
    opened = view::open_files(o.files, o.to,
                              o.no_source ? serve::Sources::Without : serve::Sources::With);
  } catch (const ValueError& e) { throw UsageError(e.what()); }
  if (!o.data.empty())
    io::write_file("view", o.data, opened.data[0]);
  else if (!o.html.empty())
    write_html(o, opened);
  else
    return serve_until_signal(args, o.serve, opened);
  return 0;
}

}  // namespace

const Command kView{
    .name = "view",
    .summary = "Look at profiles in a browser",
    .description =
        "Opens a page that shows one or more profiles: where time and memory go, each call, line, "
        "layer and block of memory. With --to, every view compares the two sides.\n"
        "The page comes from a server on this machine, which answers nobody without the token in "
        "the printed address, and runs until Ctrl-C. With --html, it is one file with its data "
        "inside, which needs no server and no network. With --data, the data alone is written, as "
        "docs/view-format.md describes it.",
    .examples =
        "pellucid view profile.pellucid\n"
        "pellucid view before-*.pellucid --to after-*.pellucid\n"
        "pellucid view --html run.html profile.pellucid\n"
        "pellucid view --no-browser --port 9000 profile.pellucid",
    .run = run_view};

}  // namespace pellucid::cli
