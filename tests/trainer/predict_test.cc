// `plimsoll predict` of pictures and texts as users run it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "formats/npy.h"
#include "formats/safetensors.h"
#include "tests/data/image_folders.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/run_plimsoll.h"

namespace plimsoll {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;
using Arguments = std::vector<std::string>;

constexpr const char* kTraining =
    "schedule: {name: constant}\n"
    "memory: {summary: false, calibrate: false}\n";

class PredictCommand : public testing::Test {
 protected:
  void Train(const std::string& run, const std::string& yaml) const {
    const std::string file = folder_.Write(run + ".yaml", yaml + kTraining);
    ExpectExit(0, RunPlimsoll({"train", file, "--set", "run.dir=" + folder_ / run}));
  }
  std::string Predict(const std::string& model, const Arguments& more) const {
    Arguments arguments = {"predict", folder_ / model};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = ExpectExit(0, RunPlimsoll(arguments));
    return outcome.out;
  }
  std::vector<json> PredictJson(const std::string& model, Arguments more) const {
    more.emplace_back("--json");
    return JsonLines(Predict(model, more));
  }
  json Confusion(const std::string& run) const {
    const Outcome eval = ExpectExit(0, RunPlimsoll({"eval", folder_ / run, "--json"}));
    return json::parse(eval.out).at("confusion").at("sum");
  }
  void ExpectRefused(Arguments arguments, const std::vector<std::string>& parts) const {
    arguments.insert(arguments.begin(), "predict");
    ExpectRefusal(RunPlimsoll(arguments), parts);
  }

  const TempFolder folder_;
};

// How often each label was predicted as each class.
json Tally(const std::vector<json>& lines, size_t classes, const std::vector<int>& labels) {
  std::vector<std::vector<double>> counts(classes, std::vector<double>(classes));
  for (size_t i = 0; i < lines.size(); ++i) {
    ++counts[static_cast<size_t>(labels[i])][lines[i].at("class").get<size_t>()];
  }
  return counts;
}

class PredictPictures : public PredictCommand {
 protected:
  PredictPictures() { data::WriteIdxFolder(folder_, 40, 30, 8, 8); }
  std::string Yaml(int image_size, const std::string& more) const {
    return "model: {family: vit, layers: 1, width: 8, heads: 2, patch: 4, channels: 1, classes: "
           "10, "
           "image_size: " +
           std::to_string(image_size) + "}\ndata: {source: images, folder: " + folder_.path() +
           ", class_names: [a, b, c, d, e, f, g, h, i, j]" + more +
           "}\ntrain: {steps: 60, micro_batch: 4, threads: 1, eval_every: 60, eval_sequences: 0}\n"
           "save: {every: 30}\noptimizer: {lr: 1e-2}\n";
  }
  std::string images() const { return folder_ / "t10k-images-idx3-ubyte"; }
};

TEST_F(PredictPictures, AreWhatTheEvaluationCounts) {
  std::vector<int> labels;
  for (int i = 0; i < 30; ++i) labels.push_back(i % 10);
  for (const auto& [size, more] : {std::pair(8, ""), std::pair(12, ", pad_to: 12")}) {
    const std::string run = "run" + std::to_string(size);
    Train(run, Yaml(size, more));
    const std::vector<json> lines = PredictJson(run, {images()});
    ASSERT_EQ(lines.size(), 30u);
    EXPECT_EQ(Tally(lines, 10, labels), Confusion(run));
    EXPECT_EQ(lines[7].at("file"), images());
    EXPECT_EQ(lines[7].at("index"), 7);
    EXPECT_EQ(lines[7].at("candidates").size(), 3u);
    EXPECT_EQ(lines[7].at("candidates")[0].at("name"), lines[7].at("name"));
    for (const char* batch : {"1", "7", "64"}) {
      EXPECT_EQ(Predict(run, {images(), "--batch", batch}), Predict(run, {images()})) << batch;
    }

    // The same of a snapshot alone, of a folder with the run's file, and of a picture in a file of
    // its own, of the folder that holds it.
    const std::string snapshot = run + "/snapshots/step-000000030";
    EXPECT_EQ(Predict(snapshot, {images()}), Predict(run, {images(), "--step", "30"}));
    EXPECT_NE(Predict(snapshot, {images()}), Predict(run, {images()}));
    EXPECT_EQ(Predict(run + "/model", {images(), "--run-file", folder_ / (run + ".yaml")}),
              Predict(run, {images()}));
    const std::string picture = ReadFile(images()).substr(16 + 7 * 64, 64);
    const TempFolder pictures;
    const std::string pgm = pictures.Write("seventh.pgm", "P5 8 8 255\n" + picture);
    const std::vector<json> alone = PredictJson(run, {pictures.path(), "--top", "10"});
    ASSERT_EQ(alone.size(), 1u);
    EXPECT_EQ(alone[0].at("file"), pgm);
    EXPECT_FALSE(alone[0].contains("index"));
    EXPECT_EQ(alone[0].at("class"), lines[7].at("class"));
    EXPECT_NEAR(alone[0].at("probability"), lines[7].at("probability"), 1e-6);
    double sum = 0;
    for (const json& candidate : alone[0].at("candidates")) {
      sum += candidate.at("probability").get<double>();
    }
    EXPECT_NEAR(sum, 1, 1e-9);
    // Another size, in colour: it is made to fit.
    pictures.Write("seventh.pgm", "P6 3 5 255\n" + picture.substr(0, 45));
    EXPECT_THAT(Predict(run, {pgm}), StartsWith(pgm + ": "));
  }
}

TEST_F(PredictPictures, AFolderOfTransformersSaysHowTheyArePrepared) {
  Train("run", Yaml(8, ", mean: 0.25, std: 0.5"));
  const std::string file = folder_ / "run/model/preprocessor_config.json";
  const std::string predicted = Predict("run", {images()});
  for (const char* text :
       {R"({"size": {"height": 8, "width": 8}, "image_mean": [0.25], "image_std": [0.5]})",
        R"({"size": 8, "image_mean": [0.25], "image_std": [0.5]})",
        R"({"size": {"shortest_edge": 8}, "do_center_crop": true, "crop_size": 8,
            "image_mean": [0.25], "image_std": [0.5]})"}) {
    WriteFile(file, text);
    EXPECT_EQ(Predict("run/model", {images()}), predicted) << text;
  }
  const std::string sized = R"({"size": {"height": 9, "width": 8})";
  const std::string edge = R"({"size": {"shortest_edge": 7})";
  for (const auto& [text, problem] :
       {std::pair(sized + "}", "size: is not that of the model's images"),
        std::pair(std::string(R"({"resample": 6, "image_mean": [0.25], "image_std": [0.5]})"),
                  "resample: "),
        std::pair(std::string(R"({"do_resize": false})"), "do_resize: is false"),
        std::pair(sized + R"(, "do_center_crop": true, "crop_size": 9})",
                  "crop_size: is not that of the model's images"),
        std::pair(edge + "}", "size: keeps the ratio of the sides"),
        std::pair(edge + R"(, "do_center_crop": true, "crop_size": 8})",
                  "crop_size: is larger than a picture")}) {
    WriteFile(file, text);
    ExpectRefused({folder_ / "run/model", images()}, {problem});
  }
  std::filesystem::remove(file);
  ExpectRefused({folder_ / "run/model", images()}, {"preprocessor_config.json", "--run-file"});

  const std::string jpeg = folder_.Write("x.jpg", "\xff\xd8\xff\xe0");
  ExpectRefused({folder_ / "run", jpeg}, {"x.jpg: is truncated"});
  ExpectRefused({folder_ / "run", "--text", "a"}, {"--text: the model reads pictures"});
  ExpectRefused({folder_ / "run", images(), "--tokenizer", "byte"},
                {"--tokenizer: the model reads pictures"});
  ExpectRefused({folder_ / "run"}, {"nothing to predict"});
}

// Training from a folder, evaluations of it and predictions take its preparation where the run file
// doesn't say another one, and what a run leaves has it.
TEST_F(PredictPictures, TrainingTakesThePreparationOfItsFolder) {
  Train("run", Yaml(8, ", mean: 0.25, std: 0.5"));
  const std::string base = folder_ / "run/model";
  WriteFile(base + "/preprocessor_config.json",
            R"({"image_processor_type": "ViTImageProcessor", "size": {"height": 8, "width": 8},
                "do_rescale": false, "resample": 3, "image_mean": [40], "image_std": [60]})");
  const auto yaml = [&](const std::string& more) {
    return "model: {init_from: " + base + "}\ndata: {source: images, folder: " + folder_.path() +
           more +
           "}\ntrain: {steps: 2, micro_batch: 4, threads: 1, eval_every: 2, eval_sequences: 0}\n";
  };
  const std::string own = folder_.Write("own.yaml", yaml("") + kTraining);
  const Outcome trained =
      ExpectExit(0, RunPlimsoll({"train", own, "--set", "run.dir=" + folder_ / "own"}));
  ExpectText(trained.err,
             {"pictures as " + base + "/preprocessor_config.json says: ", "data.mean [40]"});
  EXPECT_THAT(trained.out, HasSubstr("  mean 40, std 60 of bytes times 1\n"));
  Train("told", yaml(", mean: 40, std: 60, rescale: 1, interpolation: bicubic"));
  EXPECT_TRUE(ReadFile(folder_ / "own/model/model.safetensors") ==
              ReadFile(folder_ / "told/model/model.safetensors"));
  const json left = json::parse(ReadFile(folder_ / "own/model/preprocessor_config.json"));
  EXPECT_EQ(left.at("resample"), 3);
  EXPECT_EQ(left.at("do_rescale"), false);
  EXPECT_EQ(left.at("image_mean"), json({40}));

  // The run goes by what it was trained with, whatever becomes of the folder.
  const std::string predicted = Predict("own", {images()});
  const json counted = Confusion("own");
  EXPECT_EQ(Predict("own/model", {images(), "--run-file", own}), predicted);
  WriteFile(base + "/preprocessor_config.json", R"({"image_mean": [0.1], "image_std": [0.5]})");
  EXPECT_EQ(Predict("own", {images()}), predicted);
  EXPECT_EQ(Confusion("own"), counted);

  // eval --run-file, of the folder: its preparation, unless the run file says another.
  const auto evaluate = [&](const std::string& more) {
    const std::string file = folder_.Write("eval.yaml", yaml(more) + kTraining);
    const Outcome outcome =
        ExpectExit(0, RunPlimsoll({"eval", base, "--run-file", file, "--json"}));
    return json::parse(outcome.out).at("loss").get<double>();
  };
  const double by_folder = evaluate("");
  EXPECT_EQ(by_folder, evaluate(", mean: 0.1, std: 0.5"));
  EXPECT_NE(by_folder, evaluate(", mean: 0.3, std: 0.5"));
  // What cannot be done is refused by name.
  WriteFile(base + "/preprocessor_config.json", R"({"do_pad": true, "image_mean": [0.1]})");
  ExpectExit(2, RunPlimsoll({"train", own, "--set", "run.dir=" + folder_ / "refused"}),
             {"preprocessor_config.json: do_pad: is true", "data.mean"});
}

// A run leaves the file beside its weights, and exports have it: how pictures are prepared is known
// without the data.
TEST_F(PredictPictures, ArePreparedAsTheWeightsSay) {
  for (const int size : {8, 12}) {
    const std::string run = "run" + std::to_string(size), to = folder_ / "to";
    Train(run, Yaml(size, size > 8 ? ", pad_to: 12" : ""));
    const TempFolder elsewhere;
    const std::string copy = elsewhere.Write("pictures-idx3-ubyte", ReadFile(images()));
    const std::string predicted = Predict(run, {copy}), halfway = Predict(run, {copy, "--step=30"});
    const std::string text = ReadFile(folder_ / (run + "/model/preprocessor_config.json"));
    const json file = json::parse(text);
    EXPECT_EQ(file.at("image_processor_type"),
              size > 8 ? "BitImageProcessor" : "ViTImageProcessor");
    EXPECT_EQ(file.at("size"), json::parse(R"({"height": 8, "width": 8})"));
    EXPECT_EQ(file.at("do_center_crop"), size > 8);
    EXPECT_EQ(file.at("image_mean").size(), 1u);
    const auto export_it = [&](const Arguments& more) {
      Arguments all = {"export", folder_ / run, "--to", to, "--overwrite"};
      all.insert(all.end(), more.begin(), more.end());
      const Outcome outcome = ExpectExit(0, RunPlimsoll(all));
      return outcome;
    };
    EXPECT_THAT(export_it({"--step", "30"}).out, HasSubstr("preprocessor_config.json"));
    EXPECT_EQ(ReadFile(to + "/preprocessor_config.json"), text);
    EXPECT_EQ(Predict("to", {copy}), halfway);

    // Without the data: a snapshot's export has no file, and says so.
    const std::string moved = folder_.path() + ".moved";
    std::filesystem::create_directory(moved);
    for (const std::string& name : folder_.Names(".")) {
      if (name.ends_with("-ubyte")) {
        std::filesystem::rename(folder_ / name, moved + "/" + name);
      }
    }
    EXPECT_EQ(Predict(run, {copy}), predicted);
    export_it({});
    EXPECT_EQ(ReadFile(to + "/preprocessor_config.json"), text);
    EXPECT_EQ(Predict("to", {copy}), predicted);
    EXPECT_THAT(export_it({"--step", "30"}).err, HasSubstr("warning: no preprocessor_config.json"));
    EXPECT_FALSE(std::filesystem::exists(to + "/preprocessor_config.json"));
    for (const auto& entry : std::filesystem::directory_iterator(moved)) {
      std::filesystem::rename(entry.path(), folder_ / entry.path().filename().string());
    }
    std::filesystem::remove(moved);
  }
}

// All by commands: images become files in folders of their classes, which a run reads, and predict
// reads the same files.
TEST_F(PredictPictures, OfAFolderByClassAreWhatTheEvaluationCounts) {
  Arguments write = {"data", "images", folder_ / "by_class", "--from", folder_.path(), "--classes"};
  for (char name = 'a'; name <= 'j'; ++name) write.emplace_back(1, name);
  const Outcome written = ExpectExit(0, RunPlimsoll(write));
  EXPECT_THAT(written.out, HasSubstr("40 images to train on and 30 to test with"));
  const std::string damaged = folder_ / "by_class/train/c/00002.png";
  WriteFile(damaged, ReadFile(damaged).substr(0, 50));

  const std::string file = folder_.Write(
      "by_class.yaml",
      "model: {family: vit, layers: 1, width: 8, heads: 2, patch: 4, channels: 1, classes: 10, "
      "image_size: 8}\ndata: {source: images, folder: " +
          folder_ / "by_class" +
          ", unreadable: skip, resize: 9, flip: true, brightness: 0.2, workers: 2}\n"
          "train: {steps: 60, micro_batch: 4, threads: 1, eval_every: 60, eval_sequences: 0}\n"
          "optimizer: {lr: 1e-2}\n" +
          kTraining);
  const Outcome trained =
      ExpectExit(0, RunPlimsoll({"train", file, "--set", "run.dir=" + folder_ / "run"}));
  EXPECT_THAT(trained.out,
              HasSubstr("data: 40 JPEG or PNG files in 10 classes (a, b, c, d, e, …)"));
  ExpectText(trained.err, {"warning: data: 1 image could not be read",
                           damaged + ": is a truncated or damaged PNG file"});
  ExpectText(trained.out, {"data: 1 image could not be read", "data: 2 workers can prepare"});
  EXPECT_THAT(folder_.Read("run/report.html"), HasSubstr("1 image could not be read"));

  const json preparation = json::parse(ReadFile(folder_ / "run/model/preprocessor_config.json"));
  EXPECT_EQ(preparation.at("size"), json::parse(R"({"shortest_edge": 9})"));
  EXPECT_EQ(preparation.at("crop_size"), json::parse(R"({"height": 8, "width": 8})"));
  EXPECT_EQ(preparation.at("do_center_crop"), true);

  const std::vector<json> lines = PredictJson("run", {folder_ / "by_class/test"});
  ASSERT_EQ(lines.size(), 30u);
  std::vector<int> labels;
  for (const json& line : lines) {
    const std::string path = line.at("file");
    labels.push_back(path[path.rfind('/') - 1] - 'a');
    EXPECT_EQ(line.at("name"),
              std::string(1, static_cast<char>('a' + line.at("class").get<int>())));
  }
  EXPECT_EQ(Tally(lines, 10, labels), Confusion("run"));

  const Outcome refused =
      ExpectExit(1, RunPlimsoll({"train", file, "--set", "data.unreadable=error", "--set",
                                 "run.dir=" + folder_ / "refused"}));  // found while it ran
  EXPECT_THAT(refused.err, HasSubstr("data.folder: " + damaged));
}

TEST_F(PredictPictures, ThatCannotBeReadLeaveTheOthers) {
  Train("run", Yaml(8, ""));
  const TempFolder pictures;
  const std::string pixels(64, '\x40');
  const std::string first = pictures.Write("a.pgm", "P5 8 8 255\n" + pixels),
                    last = pictures.Write("d.pgm", "P5 8 8 255\n" + pixels);
  const std::string alone = Predict("run", {first, last, "--batch", "2"});
  pictures.Write("b.pgm", "P5 8 8 255\n" + pixels.substr(1));
  pictures.Write("c.jpg", "\xff\xd8\xff\xe0");
  for (const Arguments& named :
       {Arguments{pictures.path()},
        Arguments{first, pictures / "b.pgm", pictures / "missing.pgm", last}}) {
    for (const char* batch : {"1", "2", "64"}) {
      Arguments arguments = {"predict", folder_ / "run", "--batch", batch};
      arguments.insert(arguments.end(), named.begin(), named.end());
      const Outcome outcome = ExpectExit(2, RunPlimsoll(arguments));
      EXPECT_EQ(outcome.out, alone);
      ExpectText(outcome.err,
                 {"warning: " + pictures / "b.pgm" + ": has 63 bytes",
                  named.size() == 1 ? "c.jpg: is truncated" : "missing.pgm: cannot be opened",
                  "\n2 inputs in "});
      EXPECT_THAT(outcome.err, testing::EndsWith("2 of 4 files could not be read; the warnings "
                                                 "above name them\n"));
    }
  }
  // What fails in a prediction is no file's fault.
  const std::string weights = folder_ / "run/model/model.safetensors";
  std::string damaged = ReadFile(weights);
  std::fill(damaged.end() - 400, damaged.end(), '\xff');
  WriteFile(weights, damaged);
  const Outcome outcome =
      ExpectExit(1, RunPlimsoll({"predict", folder_ / "run", first, last, "--batch", "1"}));
  EXPECT_THAT(outcome.err, testing::Not(HasSubstr("could not be read")));
}

// The last picture's place is after those of files that cannot be read; these have no row.
TEST_F(PredictPictures, LeaveTheFeaturesOfTheirClasses) {
  Train("run", Yaml(8, ""));
  const std::string run = folder_ / "run", file = folder_ / "features.npy";
  const auto features_of = [&](const Arguments& more, int64_t rows) {
    Arguments arguments = {"predict", run, "--features", file};
    arguments.insert(arguments.end(), more.begin(), more.end());
    RunPlimsoll(arguments);
    const std::string bytes = folder_.Read("features.npy"),
                      header = formats::NpyHeader(std::vector<int64_t>{rows, 8});
    EXPECT_THAT(bytes, StartsWith(header));
    std::vector<float> features(static_cast<size_t>(rows * 8));
    EXPECT_EQ(bytes.size(), header.size() + features.size() * sizeof(float));
    std::memcpy(features.data(), bytes.data() + header.size(),
                std::min(bytes.size() - header.size(), features.size() * sizeof(float)));
    std::filesystem::remove(file);
    return features;
  };
  const std::vector<float> features = features_of({images()}, 30);
  EXPECT_FALSE(std::ranges::equal(std::span(features).first(8), std::span(features).last(8)));
  EXPECT_EQ(Predict("run", {images(), "--features", file}), Predict("run", {images()}));
  for (const char* batch : {"1", "7", "64"}) {
    const std::vector<float> other = features_of({images(), "--batch", batch}, 30);
    for (size_t i = 0; i < features.size(); ++i) EXPECT_NEAR(other[i], features[i], 1e-5);
  }

  // The head's logits of a row give the probabilities of its line.
  const formats::SafetensorsReader model(run + "/model/model.safetensors");
  std::vector<float> weight(80), bias(10);
  std::memcpy(weight.data(), model.Raw("classifier.weight").data(), 80 * sizeof(float));
  std::memcpy(bias.data(), model.Raw("classifier.bias").data(), 10 * sizeof(float));
  const std::vector<json> lines = PredictJson("run", {images(), "--top", "10"});
  for (size_t row = 0; row < 30; ++row) {
    std::vector<double> powers(10);
    for (size_t k = 0; k < 10; ++k) {
      double logit = bias[k];
      for (size_t d = 0; d < 8; ++d) {
        logit += static_cast<double>(weight[8 * k + d]) * features[8 * row + d];
      }
      powers[k] = std::exp(logit);
    }
    const double sum = std::accumulate(powers.begin(), powers.end(), 0.0);
    for (const json& candidate : lines[row].at("candidates")) {
      EXPECT_NEAR(candidate.at("probability"), powers[candidate.at("class").get<size_t>()] / sum,
                  1e-5);
    }
  }

  const TempFolder pictures;
  for (const char* name : {"a.pgm", "c.pgm"}) {
    const size_t number = name[0] == 'a' ? 3 : 28;
    pictures.Write(name, "P5 8 8 255\n" + ReadFile(images()).substr(16 + number * 64, 64));
  }
  pictures.Write("b.pgm", "P5 8 8 255\n");
  const std::vector<float> two = features_of({pictures.path()}, 2);
  for (size_t d = 0; d < 8; ++d) {
    EXPECT_NEAR(two[d], features[3 * 8 + d], 1e-5);
    EXPECT_NEAR(two[8 + d], features[28 * 8 + d], 1e-5);
  }

  const std::string picture = pictures / "a.pgm", bytes = ReadFile(picture);
  ExpectExit(2, RunPlimsoll({"predict", run, picture, "--features", picture}),
             {"--features: " + picture + " is one of the files that are read"});
  EXPECT_EQ(ReadFile(picture), bytes);
  ExpectRefused({run, picture, "--features", folder_ / "missing/x.npy"}, {"missing/x.npy"});
}

TEST_F(PredictPictures, OfSeveralEndWithTheClassesShares) {
  // Classes of a brightness each, so that some are learnt.
  for (const auto& [name, count] : {std::pair("train", 40u), std::pair("t10k", 30u)}) {
    std::string values;
    for (uint32_t i = 0; i < count; ++i) values.append(64, static_cast<char>(i % 10 * 25));
    folder_.Write(std::string(name) + "-images-idx3-ubyte", data::Idx({count, 8, 8}, values));
  }
  Train("run", Yaml(8, ""));
  std::map<std::string, int> counts;  // names are in the order of their classes
  for (const json& line : PredictJson("run", {images()})) ++counts[line.at("name")];
  ASSERT_GT(counts.size(), 1u);
  std::string shares;
  for (const auto& [name, count] : counts) {
    shares += fmt::format("{}{} {:.1f} %", shares.empty() ? "" : ", ", name, count / 0.3);
  }
  const std::string out = Predict("run", {images()});
  EXPECT_EQ(std::ranges::count(out, '\n'), 31);
  EXPECT_THAT(out, testing::EndsWith("\n30 pictures: " + shares + "\n"));
  const std::string one =
      folder_.Write("one.pgm", "P5 8 8 255\n" + ReadFile(images()).substr(16, 64));
  EXPECT_THAT(Predict("run", {one}), testing::Not(HasSubstr("pictures")));
}

class PredictTexts : public PredictCommand {
 protected:
  PredictTexts() {
    std::string vocabulary =
        "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nsome\nmore\nwords\nof\ntext\n##s\n";
    for (char c = 'a'; c <= 'z'; ++c) vocabulary += std::string(1, c) + "\n##" + c + "\n";
    folder_.Write("vocab.txt", vocabulary);
  }
  const std::string bert_ = "family: bert, layers: 1, width: 32, heads: 2, sequence: 12";
};

TEST_F(PredictTexts, ClassesAreWhatTheEvaluationCounts) {
  const char* const names[] = {"amber", "blue", "cyan"};
  std::string lines, plain, held_out;
  std::vector<int> labels;
  for (int i = 0; i < 60; ++i) {
    const std::string first(3, static_cast<char>('a' + i % 3)),
        second = "text " + std::to_string(i);
    const json line = {{"text", first}, {"text_pair", second}, {"label", names[i % 3]}};
    (i % 4 == 0 ? held_out : lines) += line.dump() + "\n";
    if (i % 4 != 0) continue;
    plain += first + "\t" + second + "\r\n\n";
    labels.push_back(i % 3);
  }
  folder_.Write("train.jsonl", lines);
  folder_.Write("eval.jsonl", held_out);
  const std::string texts = folder_.Write("plain.txt", plain);
  Train("run", "model: {" + bert_ + ", task: classification, classes: 3}\n" +
                   "data: {source: labelled_text, train: " + folder_ / "train.jsonl" +
                   ", eval: " + folder_ / "eval.jsonl" + ", tokenizer: " + folder_ / "vocab.txt" +
                   "}\ntrain: {steps: 6, micro_batch: 4, threads: 1, eval_sequences: 0}\n"
                   "save: {every: 3}\noptimizer: {lr: 1e-2}\n");
  const std::vector<json> predicted = PredictJson("run", {folder_ / "eval.jsonl"});
  ASSERT_EQ(predicted.size(), labels.size());
  EXPECT_EQ(Tally(predicted, 3, labels), Confusion("run"));
  for (const json& line : predicted) {
    EXPECT_EQ(line.at("name"), names[line.at("class").get<size_t>()]);
  }
  // Lines with tabs are the same pairs; the model's folder has names and vocabulary.
  const std::vector<json> of_lines = PredictJson("run/model", {texts, "--batch", "5"});
  ASSERT_EQ(of_lines.size(), predicted.size());
  for (size_t i = 0; i < predicted.size(); ++i) {
    EXPECT_EQ(of_lines[i].at("line"), 2 * i + 1);
    EXPECT_EQ(of_lines[i].at("name"), predicted[i].at("name"));
    EXPECT_NEAR(of_lines[i].at("probability"), predicted[i].at("probability"), 1e-6);
  }
  EXPECT_THAT(Predict("run/snapshots/step-000000003", {"--text", "aaa\ttext", "--text", "b"}),
              testing::MatchesRegex("--text:1: [a-z]+ [0-9.]+ %; then [a-z]+ [0-9.]+ %, [a-z]+ "
                                    "[0-9.]+ %\n--text:2: .*\n"));
  ExpectRefused({folder_ / "run", folder_ / "missing"}, {"missing"});
  ExpectRefused({folder_ / "run", "--text", "a", "--features", folder_ / "features.npy"},
                {"--features: is for models that tell pictures apart", "bert do not"});
}

TEST_F(PredictTexts, MasksAreFilled) {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "some more words of text\n%\n";
  // So many masks that texts with two of them are learnt, from any initial weights.
  const std::string data =
      "data: {source: masked_text, mask_fraction: 0.4, train: " + folder_.Write("texts.txt", text) +
      ", document_separator: \"%\", tokenizer: " + folder_ / "vocab.txt";
  const std::string train =
      "train: {steps: 600, micro_batch: 16, threads: 1}\noptimizer: {lr: 3e-3}\nsave: {every: "
      "600}\n";
  Train("run", "model: {" + bert_ + "}\n" + data + "}\n" + train);
  Train("pairs", "model: {" + bert_ + ", task: pretraining}\n" + data + ", pairs: true}\n" + train);
  const std::string file =
      folder_.Write("lines.txt", "some more [MASK] of text\n\n[MASK] more words [MASK] text\n");
  for (const char* run : {"run", "run/model", "run/snapshots/step-000000600"}) {
    const std::string out = Predict(run, {file});
    EXPECT_THAT(out, StartsWith(file + ":1: some more words of text\n  words "));
    EXPECT_THAT(out, HasSubstr("\n" + file + ":3: some more words of text\n  some "));
    EXPECT_EQ(std::ranges::count(out, '\n'), 5) << out;
    for (const char* batch : {"1", "2", "3"}) {
      EXPECT_EQ(Predict(run, {file, "--batch", batch}), out) << run << ", " << batch;
    }
  }
  const std::vector<json> lines = PredictJson("run", {file, "--top", "1000"});
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1].at("filled"), "some more words of text");
  ASSERT_EQ(lines[1].at("masks").size(), 2u);
  EXPECT_EQ(lines[1].at("masks")[1].at("position"), 4);
  double sum = 0;
  for (const json& candidate : lines[1].at("masks")[1].at("candidates")) {
    sum += candidate.at("probability").get<double>();
  }
  EXPECT_NEAR(sum, 1, 1e-9);
  EXPECT_EQ(lines[1].at("masks")[1].at("candidates")[0].at("token"), "of");
  // The heads of next sentences are of no use here, also in a snapshot.
  for (const char* run : {"pairs", "pairs/snapshots/step-000000600"}) {
    EXPECT_THAT(Predict(run, {"--text", "some more\t[MASK] of text"}),
                StartsWith("--text:1: some more | words of text\n"));
  }

  const std::string run = folder_ / "run";
  ExpectRefused({run, "--text", "some words"}, {"--text:1: has no [MASK]"});
  ExpectRefused({run, "--text", "a b c d e f g h i j k l m [MASK]"},
                {"a [MASK] stands behind the 12 tokens"});
  const std::string words = folder_.Write("other.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n");
  ExpectRefused({run, "--text", "a", "--tokenizer", words}, {"--tokenizer", "has no token [MASK]"});
}

TEST_F(PredictTexts, LanguageModelsGenerate) {
  Train("run",
        "model: {family: gpt2, layers: 1, width: 16, heads: 2, vocab: 256, sequence: 8}\n"
        "data: {synthetic: true}\ntrain: {steps: 1, micro_batch: 1, threads: 1}\n");
  ExpectRefused({folder_ / "run", "--text", "a"},
                {"gpt2 continue texts", "plimsoll generate " + folder_ / "run"});
}

}  // namespace
}  // namespace plimsoll
