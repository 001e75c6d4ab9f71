// BERT and ViT as users train them: a classifier that starts from a masked-language model, its
// scores and its report, the same scores by `plimsoll eval`, and what is refused.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "models/scores.h"
#include "tests/data/image_folders.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/run_plimsoll.h"

namespace plimsoll {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

// Of the rows of evaluations the last one.
json LastEvaluation(const std::string& run) {
  json last;
  for (const json& row : JsonLines(ReadFile(run + "/metrics.jsonl"))) {
    if (row.contains("eval_loss")) last = row;
  }
  return last;
}

// The views of a type in a run's page.
std::vector<json> Views(const std::string& run, const std::string& type) {
  const std::string page = ReadFile(run + "/report.html");
  const std::string mark = "id=\"data\">";
  const size_t begin = page.find(mark) + mark.size();
  const json data = json::parse(page.substr(begin, page.find("</script>", begin) - begin));
  std::vector<json> views;
  for (const json& view : data.at("views")) {
    if (view.at("type") == type) views.push_back(view);
  }
  return views;
}

void ExpectScoresOf(const json& confusion, int64_t samples, double f1, double mcc) {
  std::vector<double> counts;
  for (const json& row : confusion) {
    for (const json& count : row) counts.push_back(count.get<double>());
  }
  double sum = 0;
  for (const double count : counts) sum += count;
  EXPECT_EQ(sum, samples);
  EXPECT_DOUBLE_EQ(models::F1(counts), f1);
  EXPECT_DOUBLE_EQ(models::Mcc(counts), mcc);
}

class EncoderCommand : public testing::Test {
 protected:
  static std::string Training(const std::string& what, int steps = 120) {
    return "train: {steps: " + std::to_string(steps) +
           ", micro_batch: 4, log_every: 40, threads: 1, " + what +
           "}\noptimizer: {lr: 1e-2}\nschedule: {name: constant}\nmemory: {summary: false, "
           "calibrate: false}\n";
  }
  Outcome Train(const std::string& run, const std::string& yaml) const {
    const std::string file = folder_.Write(run + ".yaml", yaml);
    return RunPlimsoll({"train", file, "--set", "run.dir=" + folder_ / run});
  }
  void ExpectRefused(const std::string& yaml, const std::vector<std::string>& parts) const {
    ExpectRefusal(Train("refused", yaml), parts);
  }

  const TempFolder folder_;
};

class TextCommand : public EncoderCommand {
 protected:
  TextCommand() {
    std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
    for (char c = 'a'; c <= 'z'; ++c) vocabulary += std::string(1, c) + "\n##" + c + "\n";
    folder_.Write("vocab.txt", vocabulary);
    std::string lines;
    for (int i = 0; i < 30; ++i) {
      lines += json({{"text", std::string(3, static_cast<char>('a' + i % 3)) + " text"},
                     {"label", i % 3}})
                   .dump() +
               "\n";
    }
    folder_.Write("texts.jsonl", lines);
    std::string text;
    for (int i = 0; i < 200; ++i) text += i % 20 == 19 ? "text\n%\n" : "some more words of ";
    folder_.Write("texts.txt", text);
  }
  std::string Masked(const std::string& more = "") const {
    return "data: {source: masked_text, train: " + folder_ / "texts.txt" +
           ", document_separator: \"%\", tokenizer: " + folder_ / "vocab.txt" + more + "}\n";
  }
  std::string Labelled() const {
    return "data: {source: labelled_text, train: " + folder_ / "texts.jsonl" +
           ", eval_fraction: 0.4, tokenizer: " + folder_ / "vocab.txt" + "}\n";
  }

  const std::string bert_ = "family: bert, layers: 1, width: 8, heads: 2, sequence: 12";
};

TEST_F(TextCommand, AClassifierStartsFromAMaskedLanguageModel) {
  const Outcome masked =
      ExpectExit(0, Train("masked", "model: {" + bert_ + "}\n" + Masked() + Training("")));
  EXPECT_THAT(masked.out, HasSubstr("tokens/s"));
  const std::string yaml = "model: {init_from: " + folder_ / "masked/model" +
                           ", task: classification, classes: 3, sequence: 12, "
                           "label_smoothing: 0.1}\n" +
                           Labelled() + Training("eval_every: 60, eval_sequences: 0, monitor: mcc");
  const Outcome classifier = ExpectExit(0, Train("classifier", yaml));
  EXPECT_THAT(classifier.out, HasSubstr("model.init_from: pooler.dense.weight, pooler.dense.bias, "
                                        "classifier.weight, classifier.bias start afresh: "));

  const std::string run = folder_ / "classifier";
  const json row = LastEvaluation(run);
  const double f1 = row.at("eval_f1"), mcc = row.at("eval_mcc");
  EXPECT_THAT(classifier.out, HasSubstr(", f1 "));
  ExpectScoresOf(row.at("eval_confusion").at("sum"), 12, f1, mcc);
  EXPECT_GT(mcc, 0.5);  // the first letter says it
  const std::string columns = ReadFile(run + "/metrics.csv");
  EXPECT_THAT(columns, HasSubstr("eval_confusion,eval_f1,eval_mcc"));
  EXPECT_THAT(columns, Not(HasSubstr(",f1")));  // a step has none
  const std::vector<json> matrices = Views(run, "matrix");
  ASSERT_EQ(matrices.size(), 1u);
  EXPECT_EQ(matrices[0].at("counts"), row.at("eval_confusion").at("sum"));
  EXPECT_EQ(matrices[0].at("rows"), "label");
  EXPECT_EQ(matrices[0].at("names"), (json{"0", "1", "2"}));  // the texts' own labels
  EXPECT_TRUE(Views(run, "images").empty());
  EXPECT_EQ(Views(run, "tiles").at(0).at("tiles").at(2).at("label"), "best held-out mcc");

  // The same again, of the run, and of a folder with the data of a run file.
  for (const std::vector<std::string>& of :
       {std::vector{run}, {run + "/model", "--run-file", folder_ / "classifier.yaml"}}) {
    std::vector<std::string> arguments = {"eval", "--json"};
    arguments.insert(arguments.end(), of.begin(), of.end());
    const Outcome eval = ExpectExit(0, RunPlimsoll(arguments));
    const json scores = json::parse(eval.out);
    EXPECT_EQ(scores.at("loss"), row.at("eval_loss"));
    EXPECT_EQ(scores.at("f1"), f1);
    EXPECT_EQ(scores.at("mcc"), mcc);
    EXPECT_EQ(scores.at("confusion"), row.at("eval_confusion"));
    EXPECT_EQ(scores.at("class_names"), matrices[0].at("names"));
  }
  EXPECT_THAT(RunPlimsoll({"eval", run + "/model"}).err, HasSubstr("--run-file"));
  for (const std::string& exported : {run, folder_ / "masked"}) {
    ExpectExit(0, RunPlimsoll({"export", exported, "--to", exported + "-bf16", "--dtype", "bf16"}));
    EXPECT_EQ(ReadFile(exported + "-bf16/vocab.txt"), ReadFile(folder_ / "vocab.txt"));
    const json config = json::parse(ReadFile(exported + "-bf16/tokenizer_config.json"));
    EXPECT_EQ(config.at("tokenizer_class"), "BertTokenizer");
    EXPECT_EQ(config.at("do_lower_case"), true);
    EXPECT_EQ(config.at("mask_token"), "[MASK]");
  }
  EXPECT_THAT(RunPlimsoll({"generate", run}).err,
              HasSubstr("model.family: bert: these models continue no texts"));
  const std::string texts = folder_ / "vocab.txt";
  EXPECT_THAT(RunPlimsoll({"eval", run, "--data", texts}).err,
              HasSubstr("models of family bert continue none; leave it out to evaluate on what the "
                        "run held out, or name " +
                        run + "/model"));
  EXPECT_THAT(RunPlimsoll({"eval", run + "/model", "--data", texts}).err,
              HasSubstr("with --run-file"));
}

// Three texts: of none of the classes, of the first, of both. Then what eval and predict say, in
// batches of any size.
TEST_F(TextCommand, ATextMayHaveSeveralLabels) {
  const json labels[] = {json::array(), {"loud"}, {"short", "loud"}};
  std::string lines;
  for (int i = 0; i < 33; ++i) {
    lines +=
        json({{"text", std::string(3, static_cast<char>('a' + i % 3))}, {"label", labels[i % 3]}})
            .dump() +
        "\n";
  }
  folder_.Write("texts.jsonl", lines);
  const std::string model = ", task: classification, classes: 2, problem_type: ";
  const std::string training =
      Training("eval_every: 240, eval_sequences: 0, monitor: f1_micro", 240) +
      "save: {every: 60}\n";
  const Outcome trained =
      ExpectExit(0, Train("run", "model: {" + bert_ + model + "multi_label_classification}\n" +
                                     Labelled() + training));
  EXPECT_THAT(trained.out, HasSubstr("20 texts with any of 2 classes (loud, short)"));
  const std::string run = folder_ / "run";
  const json row = LastEvaluation(run);
  EXPECT_EQ(row.at("eval_accuracy"), 1);
  const json config = json::parse(ReadFile(run + "/model/config.json"));
  EXPECT_EQ(config.at("problem_type"), "multi_label_classification");
  EXPECT_EQ(config.at("id2label"), json({{"0", "loud"}, {"1", "short"}}));

  for (const char* batch : {"1", "2", "5", "8"}) {
    const Outcome eval = ExpectExit(0, RunPlimsoll({"eval", run, "--batch", batch, "--json"}));
    const json told = json::parse(eval.out);
    EXPECT_EQ(told.at("targets"), 13);
    EXPECT_NEAR(told.at("loss"), row.at("eval_loss"), 1e-6) << batch;
    for (const char* metric :
         {"accuracy", "f1_micro", "f1_macro", "label_accuracy", "label_counts"}) {
      EXPECT_EQ(told.at(metric), row.at(std::string("eval_") + metric)) << metric;
    }
    double counted = 0;
    for (const json& of_label : told.at("label_counts").at("sum")) {
      for (const json& count : of_label) counted += count.get<double>();
    }
    EXPECT_EQ(counted, 2 * 13);
  }
  const Outcome told = RunPlimsoll({"eval", run});
  EXPECT_THAT(told.out, HasSubstr("\naccuracy 1.0000, f1_micro 1.0000, f1_macro 1.0000, "
                                  "label_accuracy 1.0000\n"));
  EXPECT_THAT(told.out, Not(HasSubstr("label_counts")));

  const Outcome predicted = ExpectExit(0, RunPlimsoll({"predict", run, "--text", "aaa", "--text",
                                                       "bbb", "--text", "ccc", "--json"}));
  std::istringstream answers(predicted.out);
  const std::vector<std::vector<std::string>> wanted = {{}, {"loud"}, {"loud", "short"}};
  for (const std::vector<std::string>& names : wanted) {
    std::string line;
    std::getline(answers, line);
    const json answer = json::parse(line);
    std::vector<std::string> said;
    for (const json& label : answer.at("labels")) {
      said.push_back(label.at("name"));
      EXPECT_GT(label.at("probability"), 0.5);
    }
    std::ranges::sort(said);
    EXPECT_EQ(said, names);
    EXPECT_EQ(answer.at("candidates").size(), 2u);
  }
  const Outcome of_nothing = RunPlimsoll({"predict", run + "/model", "--text", "aaa"});
  EXPECT_THAT(of_nothing.out, HasSubstr(": none; then "));

  // Another problem isn't what the snapshot has learnt.
  const std::string other =
      folder_.Write("other.yaml", "model: {" + bert_ + model + "single_label_classification}\n" +
                                      Labelled() + training);
  folder_.Write("texts.jsonl", json({{"text", "a"}, {"label", "loud"}}).dump() + "\n" +
                                   json({{"text", "b"}, {"label", "short"}}).dump() + "\n");
  ExpectExit(2,
             RunPlimsoll({"train", other, "--resume", "auto", "--set", "run.dir=" + run, "--set",
                          "data.eval_fraction=0", "--set", "train.eval_every=0", "--set",
                          "train.monitor=loss"}),
             {"model.problem_type: single_label_classification, in the "
              "snapshot multi_label_classification"});
}

TEST_F(TextCommand, ATextMayHaveANumber) {
  std::string lines;
  for (int i = 0; i < 33; ++i) {
    lines += json({{"text", std::string(3, static_cast<char>('a' + i % 3))},
                   {"label", 1.5 * (i % 3) - 1}})
                 .dump() +
             "\n";
  }
  folder_.Write("texts.jsonl", lines);
  ExpectExit(
      0, Train("run", "model: {" + bert_ + ", task: classification, classes: 1}\n" + Labelled() +
                          Training("eval_every: 240, eval_sequences: 0, monitor: r2", 240)));
  const std::string run = folder_ / "run";
  const json row = LastEvaluation(run);
  EXPECT_GT(row.at("eval_r2"), 0.9);
  EXPECT_GT(row.at("eval_pearson"), 0.95);
  EXPECT_NEAR(row.at("eval_mse"), row.at("eval_loss"), 1e-6);
  const json config = json::parse(ReadFile(run + "/model/config.json"));
  EXPECT_EQ(config.at("problem_type"), "regression");
  EXPECT_EQ(config.at("id2label"), json({{"0", "LABEL_0"}}));
  for (const char* batch : {"1", "2", "5", "8"}) {
    const Outcome eval = ExpectExit(0, RunPlimsoll({"eval", run, "--batch", batch, "--json"}));
    const json told = json::parse(eval.out);
    EXPECT_EQ(told.at("moments").at("sum")[0][0], 13);
    EXPECT_NEAR(told.at("loss"), row.at("eval_loss"), 1e-6) << batch;
    for (const char* metric : {"mse", "mae", "r2", "pearson"}) {
      EXPECT_NEAR(told.at(metric), row.at(std::string("eval_") + metric), 1e-5) << metric;
    }
  }
  const Outcome predicted = ExpectExit(
      0, RunPlimsoll({"predict", run + "/model", "--text", "aaa", "--text", "ccc", "--json"}));
  std::istringstream answers(predicted.out);
  for (const double wanted : {-1.0, 2.0}) {
    std::string line;
    std::getline(answers, line);
    EXPECT_NEAR(json::parse(line).at("value"), wanted, 0.5);
  }
}

// The loss is finite and so is the norm, but not the squares of gradients.
TEST_F(TextCommand, ASecondMomentThatWouldOverflowEndsTheRun) {
  std::string lines;
  for (int i = 0; i < 8; ++i) lines += json({{"text", "a"}, {"label", 1.5e19}}).dump() + "\n";
  folder_.Write("texts.jsonl", lines);
  const std::string yaml =
      folder_.Write("run.yaml", "model: {" + bert_ + ", task: classification, classes: 1}\n" +
                                    Labelled() + Training("eval_every: 0", 3));
  const auto train = [&](const std::string& clip) {
    return RunPlimsoll(WithSets({"train", yaml}, {"data.eval_fraction=0", "run.overwrite=true",
                                                  "run.dir=" + folder_ / "run", clip}));
  };
  ExpectExit(1, train("optimizer.clip_grad_norm=0"),
             {"step 0: gradient norm ", " is beyond 9.223e+18, where the squares of gradients",
              "stopped"});
  ExpectExit(0, train("optimizer.clip_grad_norm=1"));
}

TEST_F(TextCommand, TheLossOfPairsIsTheSameInBatchesOfAnySize) {
  const std::string yaml = "model: {" + bert_ + ", task: pretraining}\n" +
                           Masked(", pairs: true, eval_fraction: 0.3") +
                           Training("eval_every: 120, eval_sequences: 10");
  ExpectExit(0, Train("pairs", yaml));
  const double loss = LastEvaluation(folder_ / "pairs").at("eval_loss");
  for (const char* batch : {"1", "2", "4", "10"}) {
    const Outcome eval =
        ExpectExit(0, RunPlimsoll({"eval", folder_ / "pairs", "--batch", batch, "--json"}));
    EXPECT_NEAR(json::parse(eval.out).at("loss").get<double>(), loss, 1e-5) << batch;
  }
}

TEST_F(TextCommand, DataThatDoesNotSuitNamesWhatDoes) {
  const std::string training = Training("");
  ExpectRefused("model: {" + bert_ + ", task: classification, classes: 3}\n" + Masked() + training,
                {"data.source", "masked_text has nothing for the model's input 'labels'",
                 "this model reads data.source: labelled_text"});
  ExpectRefused("model: {" + bert_ + "}\n" + Labelled() + training,
                {"data.source", "'targets'", "this model reads data.source: masked_text"});
  ExpectRefused("model: {" + bert_ + ", vocab: 40}\ndata: {source: synthetic_images}\n" + training,
                {"data.source", "'tokens'", "this model reads data.source: masked_text"});
  ExpectRefused("model: {" + bert_ + ", vocab: 40}\ndata: {synthetic: true}\n" + training,
                {"data.source", "tokens is for models that continue texts", "masked_text"});
  ExpectRefused("model: {" + bert_ + ", task: pretraining}\n" + Masked() + training,
                {"data.source", "'next_sentence'", "data.pairs: true"});
  // Padding that a model would read.
  ExpectRefused("model: {" + bert_ + "}\n" + Masked(", pairs: true") + training,
                {"data.source", "'lengths'", "model.padded: true"});
  ExpectRefused("model: {" + bert_ + ", task: classification, classes: 3, padded: false}\n" +
                    Labelled() + training,
                {"data.source", "'lengths'", "model.padded: true"});
  // A label beyond the classes, by its line.
  ExpectRefused(
      "model: {" + bert_ + ", task: classification, classes: 2}\n" + Labelled() + training,
      {"texts.jsonl:3", "model.classes to 3"});
}

class ImageCommand : public EncoderCommand {
 protected:
  ImageCommand() { data::WriteIdxFolder(folder_, 40, 30, 8, 8); }
  std::string Images(const std::string& more = "") const {
    return "data: {source: images, folder: " + folder_.path() + more + "}\n";
  }

  const std::string vit_ =
      "family: vit, layers: 1, width: 8, heads: 2, patch: 4, channels: 1, classes: 10";
};

TEST_F(ImageCommand, ShowsWhatIsMistakenForWhat) {
  const Outcome outcome =
      ExpectExit(0, Train("run", "model: {" + vit_ + ", image_size: 8, label_smoothing: 0.2}\n" +
                                     Images() + Training("eval_every: 120, eval_sequences: 0")));
  EXPECT_THAT(outcome.out, HasSubstr("samples/s"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("tokens")));
  const std::string run = folder_ / "run";
  const json row = LastEvaluation(run);
  ExpectScoresOf(row.at("eval_confusion").at("sum"), 30, row.at("eval_f1"), row.at("eval_mcc"));

  // The surest mistakes, in order; no more than there are.
  const std::vector<json> views = Views(run, "images");
  ASSERT_EQ(views.size(), 1u);
  const json images = views[0].at("images");
  const auto wrong =
      static_cast<size_t>(std::lround(30 * (1 - row.at("eval_accuracy").get<double>())));
  EXPECT_EQ(images.size(), std::min<size_t>(wrong, 24));
  double before = 1;
  for (const json& image : images) {
    EXPECT_NE(image.at("label"), image.at("prediction"));
    EXPECT_LE(image.at("share"), before);
    EXPECT_GE(image.at("share"), 0.1);
    before = image.at("share");
    EXPECT_EQ(image.at("width"), 8);
    EXPECT_EQ(image.at("pixels").get<std::string>().size(), 8u * 8 * 3 / 3 * 4);
  }
  EXPECT_FALSE(views[0].contains("names"));
  EXPECT_FALSE(Views(run, "matrix").at(0).contains("names"));
  const Outcome eval = ExpectExit(0, RunPlimsoll({"eval", run, "--json"}));
  EXPECT_EQ(json::parse(eval.out).at("loss"), row.at("eval_loss"));
  folder_.Write("vocab.txt", "[PAD]\n[UNK]\n");
  ExpectExit(2,
             RunPlimsoll({"export", run, "--to", folder_ / "exported", "--tokenizer",
                          folder_ / "vocab.txt"}),
             {"--tokenizer: models of family vit read no texts"});
  const Outcome plan = RunPlimsoll({"plan", folder_ / "run.yaml"});
  EXPECT_THAT(plan.out, HasSubstr("4 samples per micro-step"));
}

TEST_F(ImageCommand, ClassesHaveTheNamesThatAreGiven) {
  const std::string names = ", class_names: [a, b, c, d, e, f, g, h, i, \"j, the last\"]";
  const std::string model = "model: {" + vit_ + ", image_size: 8}\n";
  const std::string training =
      Training("eval_every: 120, eval_sequences: 0") + "save: {every: 60}\n";
  ExpectExit(0, Train("run", model + Images(names) + training));
  const std::string run = folder_ / "run";
  const json expected = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j, the last"};
  EXPECT_EQ(Views(run, "matrix").at(0).at("names"), expected);
  EXPECT_EQ(Views(run, "images").at(0).at("names"), expected);
  const Outcome eval = ExpectExit(0, RunPlimsoll({"eval", run, "--json"}));
  const json scores = json::parse(eval.out);
  EXPECT_EQ(scores.at("class_names"), expected);
  // transformers finds them in config.json, of the run's end and of a snapshot, and so does a model
  // that starts from it and is exported again.
  ExpectExit(0, RunPlimsoll({"export", run, "--step", "60", "--to", folder_ / "at-60"}));
  ExpectExit(0, RunPlimsoll({"export", run, "--to", folder_ / "low", "--dtype", "bf16"}));
  for (const std::string& of : {run + "/model", folder_ / "at-60", folder_ / "low"}) {
    const json config = json::parse(ReadFile(of + "/config.json"));
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(config.at("id2label").at(std::to_string(i)), expected[i]) << of;
      EXPECT_EQ(config.at("label2id").at(expected[i].get<std::string>()), i) << of;
    }
  }
  // For people: rounded numbers on a line, and a table.
  const Outcome told = ExpectExit(0, RunPlimsoll({"eval", run}));
  const std::string accuracy = fmt::format("accuracy {:.4f}", scores.at("accuracy").get<double>());
  ExpectText(told.out,
             {"\n" + accuracy + ", top5 ", "\nhow often each label (row)", "\n  9 j, the last "});
  EXPECT_THAT(told.out, Not(HasSubstr("{")));
  ExpectRefused(model + Images(", class_names: [a, b]") + training,
                {"refused.yaml:2: data.class_names: 2 names for a model that distinguishes 10"});
}

// They load and predict; no source of images has their labels.
TEST_F(ImageCommand, ImagesHaveOneClassEach) {
  ExpectRefused("model: {" + vit_ + ", image_size: 8, problem_type: multi_label_classification}\n" +
                    Images() + Training(""),
                {"data.source", "images are of one class each",
                 "set model.problem_type: single_label_classification"});
  ExpectRefused("model: {" + vit_ + ", image_size: 8, problem_type: multi_label_classification}\n" +
                    Images(", mixup: 0.2") + Training(""),
                {"model.mixed_labels", "needs model.problem_type: single_label_classification",
                 "leave out data.mixup and data.cutmix"});
}

TEST_F(ImageCommand, ImagesOfAnotherSizeAreRefused) {
  ExpectRefused("model: {" + vit_ + ", image_size: 12}\n" + Images() + Training(""),
                {"data.source", "f32[4,12,12,1]", "8 × 8 × 1", "data.pad_to: 12"});
  ExpectRefused("model: {" + vit_ + ", image_size: 4}\n" + Images() + Training(""),
                {"data.source", "f32[4,4,4,1]", "give the model their height and width"});
}

}  // namespace
}  // namespace plimsoll
