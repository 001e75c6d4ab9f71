// The files that `plimsoll train` writes for people: report.html, metrics.csv, TensorBoard's
// events.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/run_plimsoll.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

std::vector<std::string> LinesOf(const std::string& path) {
  std::vector<std::string> lines;
  std::istringstream text(ReadFile(path));
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> CellsOf(const std::string& line) {
  std::vector<std::string> cells(1);
  for (char c : line) {
    if (c == ',') {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  return cells;
}

class RunReports : public testing::Test {
 protected:
  Outcome Train(std::vector<std::string> sets = {}) {
    return RunPlimsoll(WithSets({"train", yaml_}, sets));
  }

  void SetUp() override {
    WriteFile(yaml_,
              "model: {family: gpt2, layers: 2, width: 32, heads: 2, sequence: 32, vocab: 64}\n"
              "data: {synthetic: true}\n"
              "train: {steps: 6, micro_batch: 2, eval_every: 3, log_every: 0, threads: 1}\n"
              "memory: {budget: 4MiB, calibrate: false}\n"
              "run: {overwrite: true, dir: \"" +
                  run_ + "\"}\n");
  }

  std::map<std::string, json> Views() { return ViewsOf(run_ + "/report.html"); }

  // The views of a page, by title.
  std::map<std::string, json> ViewsOf(const std::string& file) {
    const std::string html = ReadFile(file), begin = "id=\"data\">";
    const size_t from = html.find(begin) + begin.size();
    const json data = json::parse(html.substr(from, html.find("</script>", from) - from));
    std::map<std::string, json> views;
    for (const json& view : data.at("views")) views[view.value("title", "")] = view;
    return views;
  }

  int EventFiles() {
    int count = 0;
    for (const auto& file : fs::directory_iterator(run_)) {
      count += file.path().filename().string().starts_with("events.out.tfevents.");
    }
    return count;
  }

  const TempFolder folder_;
  const std::string yaml_ = folder_ / "run.yaml";
  const std::string run_ = folder_ / "run </script> & co";
};

TEST_F(RunReports, ShowTheRun) {
  ExpectExit(0, Train());
  std::map<std::string, json> views = Views();

  std::vector<json> losses, steps, held_out;
  for (const std::string& line : LinesOf(run_ + "/metrics.jsonl")) {
    const json row = json::parse(line);
    if (row.contains("eval_loss")) {
      held_out.push_back(row.at("eval_loss"));
    } else {
      losses.push_back(row.at("loss"));
      steps.push_back(row.at("step"));
    }
  }
  ASSERT_EQ(losses.size(), 6u);
  EXPECT_EQ(views["Loss"].at("series").at(0).at("y"), json(losses));
  EXPECT_EQ(views["Loss"].at("series").at(0).at("x"), json(steps));
  EXPECT_EQ(views["Loss"].at("series").at(1).at("y"), json(held_out));
  EXPECT_EQ(views["Loss"].at("series").at(1).at("x"), json({0, 3, 6}));
  EXPECT_EQ(views[""].at("tiles").at(0),
            json({{"label", "done"}, {"value", "6 of 6"}, {"unit", "text"}}));
  EXPECT_EQ(views.count("Loss scale"), 0u);

  const json plan = json::parse(ReadFile(run_ + "/plan.json"));
  const json& memory = views["Memory over a step"];
  EXPECT_EQ(memory.at("variants").at(0).at("line").at("value"), 4 << 20);
  const json& timeline = memory.at("variants").at(0).at("timeline");
  EXPECT_EQ(timeline.at("arena_bytes"), plan.at("arena_bytes"));
  EXPECT_EQ(timeline.at("programs").at(0).at("peak").at("bytes"), plan.at("max_live_bytes"));
  // For both ways to split the peak, its parts add up to it.
  for (const char* title : {"The peak by role", "The peak by block"}) {
    int64_t sum = 0;
    for (const json& bar : views[title].at("bars")) {
      for (const json& bytes : bar.at("parts")) sum += bytes.get<int64_t>();
    }
    EXPECT_EQ(sum, plan.at("max_live_bytes")) << title;
  }
  EXPECT_EQ(views["Configuration"].at("text"), ReadFile(run_ + "/config.yaml"));
}

TEST_F(RunReports, ShowTheLossScaleWhereThereIsOne) {
  ExpectExit(1, Train({"amp.dtype=fp16", "amp.init_scale=1e15", "log.csv=false",
                       "log.tensorboard=false"}));  // all steps were skipped
  std::map<std::string, json> views = Views();
  EXPECT_GT(views["Skipped steps so far"].at("series").at(0).at("y").back(), 0);
  EXPECT_LT(views["Loss scale"].at("series").at(0).at("y").back(), 1e15);
  EXPECT_FALSE(fs::exists(run_ + "/metrics.csv"));
  EXPECT_EQ(EventFiles(), 0);
}

// A resumed run keeps the energy of its earlier part, even if this machine cannot measure any.
TEST_F(RunReports, ShowEnergyWhereItWasMeasured) {
  ExpectExit(0, Train({"save.every=3", "train.stop_after=3"}));
  const json without = json::parse(ReadFile(run_ + "/summary.json"));
  EXPECT_TRUE(without.at("joules_per_step").is_null());
  EXPECT_FALSE(without.at("energy_problem").get<std::string>().empty()) << "less than two seconds";
  EXPECT_FALSE(Views().contains("Energy of a token"));

  std::string lines;
  for (const std::string& line : LinesOf(run_ + "/metrics.jsonl")) {
    json row = json::parse(line);
    if (row.contains("loss")) {
      const double step = row.at("step");
      row.update({{"joules_per_step", 3 + step}, {"joules_per_token", 0.5}, {"watts", 9}});
    }
    lines += row.dump() + "\n";
  }
  WriteFile(run_ + "/metrics.jsonl", lines);
  const Outcome outcome =
      ExpectExit(0, RunPlimsoll({"train", yaml_, "--resume", "auto", "--set", "save.every=3"}));
  EXPECT_THAT(outcome.out, HasSubstr(", 4 J a step"));
  const json summary = json::parse(ReadFile(run_ + "/summary.json"));
  EXPECT_EQ(summary.at("joules_per_step"), 4);
  EXPECT_EQ(summary.at("joules_per_token"), 0.5);
  EXPECT_EQ(summary.at("watts"), 9);
  EXPECT_TRUE(summary.at("energy_problem").is_null());
  const json series = Views().at("Energy of a token").at("series").at(0);
  EXPECT_EQ(series.at("x"), json({0, 1, 2}));
  EXPECT_EQ(series.at("y"), json({0.5, 0.5, 0.5}));
}

TEST_F(RunReports, TheTableHasTheRowsOfMetrics) {
  ExpectExit(0, Train({"memory.allocator=caching"}));
  const std::vector<std::string> rows = LinesOf(run_ + "/metrics.jsonl"),
                                 lines = LinesOf(run_ + "/metrics.csv");
  ASSERT_EQ(lines.size(), rows.size() + 1);
  const std::vector<std::string> columns = CellsOf(lines[0]);
  for (size_t i = 0; i < rows.size(); ++i) {
    const json row = json::parse(rows[i]);
    const std::vector<std::string> cells = CellsOf(lines[i + 1]);
    ASSERT_EQ(cells.size(), columns.size());
    size_t found = 0;
    for (size_t c = 0; c < columns.size(); ++c) {
      if (!row.contains(columns[c])) {
        EXPECT_EQ(cells[c], "");
        continue;
      }
      ++found;
      const json& value = row.at(columns[c]);
      EXPECT_EQ(cells[c], value.is_null()     ? ""
                          : value.is_string() ? value.get<std::string>()
                                              : value.dump());
    }
    EXPECT_EQ(found, row.size());
  }
}

TEST_F(RunReports, ReplaceThoseOfAnEarlierRun) {
  ExpectExit(0, Train());
  ExpectExit(0, Train({"train.steps=2"}));
  EXPECT_EQ(EventFiles(), 1);
  EXPECT_EQ(LinesOf(run_ + "/metrics.csv").size(), 5u);  // two steps, two evaluations
  EXPECT_EQ(Views()["Loss"].at("series").at(0).at("x"), json({0, 1}));
}

TEST_F(RunReports, AreNoReasonToEndARun) {
  // Folders are in the places of the files.
  fs::create_directories(run_ + "/report.html/in the way");
  fs::create_directories(run_ + "/metrics.csv");
  const Outcome outcome = ExpectExit(0, Train());
  for (const char* file : {"report.html", "metrics.csv"}) {
    EXPECT_THAT(outcome.err, HasSubstr(run_ + "/" + file));
  }
  EXPECT_EQ(LinesOf(run_ + "/metrics.jsonl").size(), 9u);
  EXPECT_EQ(EventFiles(), 1);
  for (const auto& file : fs::directory_iterator(run_)) {
    EXPECT_THAT(file.path().filename().string(), testing::Not(HasSubstr(".tmp.")));
  }
}

TEST_F(RunReports, SayThatARunEndedByAnError) {
  ExpectExit(1,
             Train({"optimizer.name=sgd", "optimizer.lr=1000", "optimizer.clip_grad_norm=0",
                    "train.steps=200"}),
             {"not finite"});
  EXPECT_EQ(Views()[""].at("tiles").at(0).at("label"), "ended by an error");
}

// MLflow's run of a run directory.
class MlflowReports : public RunReports {
 protected:
  MlflowReports() { setenv("MLFLOW_TRACKING_URI", ("file://" + store_).c_str(), 1); }
  ~MlflowReports() override { unsetenv("MLFLOW_TRACKING_URI"); }

  std::string Place() const {
    return store_ + "/" + json::parse(ReadFile(run_ + "/mlflow.json")).at("run").get<std::string>();
  }
  // The steps of a curve.
  std::vector<int> Steps(const std::string& name) const {
    std::vector<int> steps;
    for (const std::string& line : LinesOf(Place() + "/metrics/" + name)) {
      steps.push_back(std::stoi(line.substr(line.rfind(' '))));
    }
    return steps;
  }
  std::string Meta() const { return ReadFile(Place() + "/meta.yaml"); }

  const std::string store_ = folder_ / "mlruns";
};

TEST_F(MlflowReports, AreARunOfMlflow) {
  ExpectExit(0, Train({"log.mlflow=true", "run.name=wider", "run.tags=[width]",
                       "run.notes=does it pay?", "save.every=3", "train.stop_after=3"}));
  const std::string place = Place();
  EXPECT_EQ(Steps("train/loss"), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(Steps("eval/loss"), (std::vector<int>{0, 3}));
  EXPECT_EQ(ReadFile(place + "/params/train.micro_batch"), "2");
  EXPECT_EQ(ReadFile(place + "/params/model.family"), "gpt2");
  EXPECT_EQ(ReadFile(place + "/tags/width"), "true");
  EXPECT_EQ(ReadFile(place + "/tags/mlflow.note.content"), "does it pay?");
  ExpectText(Meta(), {"\nrun_name: \"wider\"\n", "\nstatus: 3\n"});

  // It continues as the same run, without a step twice.
  ExpectExit(0, RunPlimsoll({"train", yaml_, "--resume", "auto", "--set", "save.every=3", "--set",
                             "log.mlflow=true"}));
  EXPECT_EQ(Place(), place);
  EXPECT_EQ(Steps("train/loss"), (std::vector<int>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(Steps("eval/loss"), (std::vector<int>{0, 3, 6}));
  // A new run in the directory is another one.
  ExpectExit(0, Train({"log.mlflow=true"}));
  EXPECT_NE(Place(), place);
}

TEST_F(MlflowReports, BeginWhereARunGoesOn) {
  ExpectExit(0, Train({"save.every=3", "train.stop_after=3"}));
  EXPECT_FALSE(fs::exists(store_));
  ExpectExit(0, RunPlimsoll({"train", yaml_, "--resume", "auto", "--set", "save.every=3", "--set",
                             "log.mlflow=true"}));
  EXPECT_EQ(Steps("train/loss"), (std::vector<int>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(Steps("eval/loss"), (std::vector<int>{0, 3, 6}));
}

TEST_F(MlflowReports, SayHowARunEnded) {
  ExpectExit(1, Train({"optimizer.name=sgd", "optimizer.lr=1000", "optimizer.clip_grad_norm=0",
                       "train.steps=200", "log.mlflow=true"}));
  EXPECT_THAT(Meta(), HasSubstr("\nstatus: 4\n"));
  EXPECT_THAT(ReadFile(Place() + "/tags/plimsoll.reason"), HasSubstr("not finite"));
}

TEST_F(MlflowReports, AreNoReasonToEndARun) {
  WriteFile(store_, "in the way");
  const Outcome outcome = ExpectExit(0, Train({"log.mlflow=true"}));
  ExpectText(outcome.err, {store_, "the run continues without it"});
}

TEST_F(MlflowReports, RefuseAServer) {
  setenv("MLFLOW_TRACKING_URI", "http://localhost:5000", 1);
  ExpectExit(2, Train({"log.mlflow=true"}),
             {"log.mlflow: MLFLOW_TRACKING_URI is 'http://localhost:5000', and Plimsoll "
              "writes MLflow's files, not to a server"});
  EXPECT_FALSE(fs::exists(run_));
  ExpectExit(2, Train({"log.mlflow=sqlite:///mlflow.db"}));
  // The folder that the key names comes first.
  const std::string other = folder_ / "other";
  ExpectExit(0, Train({"log.mlflow=" + other, "train.steps=1"}));
  EXPECT_TRUE(fs::is_directory(other));
}

// No two tensors share a byte at the same node.
TEST_F(RunReports, ThePlanIsDrawnAsItIs) {
  const std::string file = folder_ / "plan.html";
  const Outcome outcome = ExpectExit(0, RunPlimsoll({"plan", yaml_, "--json", "--html", file}));
  const json plan = json::parse(outcome.out);
  const json drawn = ViewsOf(file)["The arena"];
  EXPECT_EQ(drawn.at("arena_bytes"), plan.at("arena_bytes"));
  EXPECT_EQ(drawn.at("line").at("value"), 4 << 20);
  int64_t top = 0;
  for (const json& program : drawn.at("programs")) {
    const json& tensors = program.at("tensors");
    EXPECT_GT(tensors.size(), 10u);
    for (size_t i = 0; i < tensors.size(); ++i) {
      const auto from = [](const json& tensor) { return tensor.at("offset").get<int64_t>(); };
      const auto to = [&](const json& tensor) {
        return from(tensor) + tensor.at("bytes").get<int64_t>();
      };
      top = std::max(top, to(tensors[i]));
      for (const json& persistent : drawn.at("persistent")) {
        EXPECT_LE(to(persistent), from(tensors[i]));
      }
      for (size_t j = 0; j < i; ++j) {
        const bool apart_in_time = tensors[i].at("death") < tensors[j].at("birth") ||
                                   tensors[j].at("death") < tensors[i].at("birth");
        const bool apart_in_place =
            to(tensors[i]) <= from(tensors[j]) || to(tensors[j]) <= from(tensors[i]);
        EXPECT_TRUE(apart_in_time || apart_in_place) << tensors[i] << " and " << tensors[j];
      }
    }
  }
  EXPECT_EQ(top, plan.at("arena_bytes"));

  ExpectExit(2, RunPlimsoll({"plan", yaml_, "--sweep", "3", "--html", file}), {"--html"});
  ExpectExit(2, RunPlimsoll({"plan", yaml_, "--html", folder_ / "no such folder/plan.html"}));
}

}  // namespace
}  // namespace plimsoll
