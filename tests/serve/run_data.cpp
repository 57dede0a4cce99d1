// Run folders: what their lines say, what is added later, and what is not read.
#include "serve/run_data.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "pellucid/error.h"
#include "serve/decode.h"
#include "temporary.h"

using namespace pellucid;
using serve::RunPosition;
using test::TemporaryFolder;
using Json = nlohmann::json;

namespace {

void append(const std::string& file, const std::string& text) {
  std::ofstream(file, std::ios::app | std::ios::binary) << text;
}

}  // namespace

TEST_CASE("view run: curves by name, with what is no number") {
  const TemporaryFolder folder;
  CHECK(!serve::is_run_folder(folder.path()));
  CHECK_THROWS_AS(serve::run_data(folder.path(), "r"), IoError);
  test::write_bytes(folder / "metrics.jsonl",
                    "{\"step\":1,\"epoch\":0,\"loss\":2.5}\n"
                    "no JSON\n[1]\n7\n{\"loss\":9}\n{\"step\":\"x\",\"loss\":9}\n\n"
                    "{\"step\":2,\"loss\":\"nan\",\"more\":[1]}\n"
                    "{\"step\":3,\"loss\":1.5,\"acc");  // half a line
  test::write_bytes(folder / "layers.jsonl", "{\"step\":1,\"layers\":[]}\n");
  const std::string bytes = serve::run_data(folder.path(), "r");
  const test::ViewData data(bytes);
  CHECK(data.header.at("kind") == "run");
  const Json& series = data.header.at("metrics").at("series");
  REQUIRE(series.size() == 2);
  CHECK(series[0].at("name") == "epoch");
  CHECK(series[1] ==
        Json({{"run", "r"}, {"name", "loss"}, {"steps", {1, 2}}, {"values", {2.5, "nan"}}}));
  CHECK(data.header.at("layers").size() == 1);
  CHECK(data.header.at("live").empty());
  CHECK(data.header.at("position").at("metrics").get<uint64_t>() <
        std::filesystem::file_size(folder / "metrics.jsonl"));
}

TEST_CASE("view run: what is added while it runs") {
  const TemporaryFolder folder;
  const std::string metrics = folder / "metrics.jsonl";
  append(metrics, "{\"step\":1}\n");
  RunPosition position{};
  Json news = Json::parse(serve::run_news(folder.path(), position));
  CHECK(news.at("metrics").size() == 1);
  CHECK(news.at("restarted") == false);
  CHECK(serve::run_news(folder.path(), position).empty());
  append(metrics, "{\"step\":2");
  CHECK(serve::run_news(folder.path(), position).empty());  // not whole yet
  append(metrics, "}\n{\"step\":3}\n");
  append(folder / "live.jsonl", "{\"time\":1}\n");
  news = Json::parse(serve::run_news(folder.path(), position));
  CHECK(news.at("metrics") == Json({{{"step", 2}}, {{"step", 3}}}));
  CHECK(news.at("live").size() == 1);
  CHECK(!news.contains("layers"));
  CHECK(news.at("position").at("metrics") == std::filesystem::file_size(metrics));
  // A run that goes on from its checkpoint cuts off what the checkpoint does not know.
  test::write_bytes(metrics, "{\"step\":1}\n");
  news = Json::parse(serve::run_news(folder.path(), position));
  CHECK(news.at("restarted") == true);
  CHECK(news.at("metrics").size() == 1);
  std::filesystem::remove(metrics);
  CHECK(serve::run_news(folder.path(), position).empty());
}

TEST_CASE("view run: links and what is no file are not followed") {
  const TemporaryFolder folder, elsewhere;
  test::write_bytes(elsewhere / "secret", "{\"step\":1,\"secret\":1}\n");
  std::filesystem::create_symlink(elsewhere / "secret", folder / "metrics.jsonl");
  CHECK(!serve::is_run_folder(folder.path()));
  std::filesystem::remove(folder / "metrics.jsonl");
  test::write_bytes(folder / "metrics.jsonl", "{\"step\":1}\n");
  std::filesystem::create_symlink(elsewhere / "secret", folder / "layers.jsonl");
  REQUIRE(mkfifo((folder / "live.jsonl").c_str(), 0600) == 0);
  CHECK(serve::run_data(folder.path(), "r").find("secret") == std::string::npos);
  RunPosition position{};
  CHECK(serve::run_news(folder.path(), position).find("secret") == std::string::npos);
}
