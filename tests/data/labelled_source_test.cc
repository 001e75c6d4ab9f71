// The source "labelled_text", by the interface that training has; its rows are compared with those
// of transformers (tests/data/tokenizers/make_wordpiece.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "data/held_out_batches.h"
#include "tests/data/text_batches.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::data {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using Files = std::vector<std::string>;
using Ids = std::vector<int32_t>;

constexpr uint64_t kSeed = 11;
const std::vector<std::string> kNames = {"tokens", "token_types", "lengths", "labels"};
const std::string kFixtures = "tests/data/tokenizers/";

class LabelledSource : public testing::Test {
 protected:
  LabelledSource() { folder_.Write("vocab.txt", SmallVocab()); }

  std::unique_ptr<Source> Make(std::map<std::string, SettingValue> given, int64_t sequence = 8,
                               int64_t classes = 0, int64_t vocab = 0,
                               graph::Shape label_values = {}) const {
    given.try_emplace("tokenizer", folder_ / "vocab.txt");
    given.try_emplace("train", Files{folder_ / "train.jsonl"});
    return MakeSource(
        "labelled_text", given,
        {.sequence = sequence, .vocab = vocab, .classes = classes, .label_values = label_values},
        kSeed);
  }
  // Of a model of several labels.
  std::unique_ptr<Source> MakeLabels(int64_t classes,
                                     const std::map<std::string, SettingValue>& given = {}) const {
    return Make(given, 8, classes, 0, {1, classes});
  }
  // Of a model that predicts a number.
  std::unique_ptr<Source> MakeNumbers(const std::map<std::string, SettingValue>& given = {}) const {
    return Make(given, 8, 1, 0, {1});
  }
  // The label values of rows, by the first word of their text; -1 for padding.
  static std::map<int32_t, std::vector<float>> LabelValues(const Source& source, int64_t rows,
                                                           const graph::Shape& shape) {
    const TextBatch batch(rows, 8, {"tokens", "token_types", "lengths"});
    std::vector<float> values(static_cast<size_t>(shape.elements()), -7);
    std::vector<graph::Slot> slots = batch.slots();
    slots.push_back({"label_values",
                     {graph::DType::kFloat32, shape},
                     std::as_writable_bytes(std::span(values))});
    source.Fill(0, slots);
    std::map<int32_t, std::vector<float>> of_words;
    const auto each = static_cast<int64_t>(values.size()) / rows;
    for (int64_t row = 0; row < rows; ++row) {
      const bool text = batch.Value("lengths", row) > 1;
      of_words[text ? batch.Row("tokens", row)[1] - 6 : -1] = {values.begin() + row * each,
                                                               values.begin() + (row + 1) * each};
    }
    return of_words;
  }
  static TextBatch Fill(const Source& source, int64_t first, int64_t rows, int64_t sequence = 8) {
    TextBatch batch(rows, sequence, kNames);
    source.Fill(first, batch.slots());
    return batch;
  }

  const TempFolder folder_;
};

TEST_F(LabelledSource, FillsRowsAsTransformersDoes) {
  const json examples = json::parse(ReadFile(kFixtures + "wordpiece_pairs.json"));
  ASSERT_GT(examples.size(), 100u);
  for (const json& example : examples) {
    SCOPED_TRACE(example.dump());
    json line = {{"text", example["text"]}, {"label", 0}};
    if (!example["text_pair"].is_null()) line["text_pair"] = example["text_pair"];
    folder_.Write("train.jsonl", line.dump());
    const auto ids = example["input_ids"].get<Ids>();
    const auto sequence = std::ssize(ids);
    const auto source = Make({{"tokenizer", kFixtures + "wordpiece_vocab.txt"}}, sequence);
    const TextBatch batch = Fill(*source, 0, 1, sequence);
    EXPECT_EQ(batch.Row("tokens", 0), ids);
    EXPECT_EQ(batch.Row("token_types", 0), example["token_type_ids"].get<Ids>());
    const auto mask = example["attention_mask"].get<Ids>();
    EXPECT_EQ(batch.Value("lengths", 0), std::reduce(mask.begin(), mask.end()));
  }
}

TEST_F(LabelledSource, CutsAndPadsOnTheSideThatTheTokenizersFilesSay) {
  folder_.Write("train.jsonl",
                R"({"text": "w1 w2 w1 w1 w2", "text_pair": "w1 w1 w2 w2 w2", "label": "a"})");
  folder_.Write("tokenizer_config.json", R"({"truncation_side": "right"})");
  EXPECT_EQ(Fill(*Make({}), 0, 1).Row("tokens", 0), (Ids{2, 7, 8, 3, 7, 7, 8, 3}));
  folder_.Write("tokenizer_config.json", R"({"truncation_side": "left"})");
  EXPECT_EQ(Fill(*Make({}), 0, 1).Row("tokens", 0), (Ids{2, 7, 8, 3, 8, 8, 8, 3}));
  folder_.Write("tokenizer_config.json", R"({"padding_side": "left"})");
  EXPECT_THAT([&] { Make({}); },
              testing::ThrowsMessage<SettingError>(HasSubstr("padding_side: left")));
}

TEST_F(LabelledSource, TakesTheMarkersThatTheTokenizersFilesName) {
  folder_.Write("train.jsonl", R"({"text": "w1", "label": "a"})");
  folder_.Write("tokenizer_config.json", R"({"cls_token": "w8", "sep_token": "w9"})");
  EXPECT_EQ(Fill(*Make({}), 0, 1).Row("tokens", 0), (Ids{14, 7, 15, 0, 0, 0, 0, 0}));
}

TEST_F(LabelledSource, ReadsEachTextOnceAnEpochWithItsClass) {
  folder_.Write("train.jsonl",
                "{\"text\": \"w0\", \"label\": \"b\"}\n\n"
                "{\"text\": \"w1 w2\", \"label\": \"a\", \"more\": 1}\n"
                "{\"text\": \"w3\", \"label\": \"c\"}\n");
  const auto source = Make({});
  std::set<std::vector<Ids>> orders;
  for (int64_t epoch = 0; epoch < 8; ++epoch) {
    const TextBatch batch = Fill(*source, 3 * epoch, 3);
    std::vector<Ids> rows;
    for (int64_t row = 0; row < 3; ++row) {
      Ids all = batch.Row("tokens", row);
      all.push_back(batch.Value("labels", row));
      rows.push_back(all);
    }
    EXPECT_THAT(rows, testing::UnorderedElementsAre(Ids{2, 6, 3, 0, 0, 0, 0, 0, 1},
                                                    Ids{2, 7, 8, 3, 0, 0, 0, 0, 0},
                                                    Ids{2, 9, 3, 0, 0, 0, 0, 0, 2}));
    orders.insert(rows);
  }
  EXPECT_GT(orders.size(), 1u);
  EXPECT_EQ(source->sizes(), std::vector<int64_t>{3});
  EXPECT_EQ(source->HeldOut(0), nullptr);
  // By another order of names, and by number.
  const auto named = Make({{"label_names", Files{"c", "b", "a", "d"}}}, 8, 4);
  std::set<std::pair<int32_t, int32_t>> pairs;
  for (int64_t i = 0; i < 3; ++i) {
    const TextBatch batch = Fill(*named, i, 1);
    pairs.insert({batch.Row("tokens", 0)[1], batch.Value("labels", 0)});
  }
  EXPECT_EQ(pairs, (std::set<std::pair<int32_t, int32_t>>{{6, 1}, {7, 2}, {9, 0}}));
  EXPECT_EQ(source->class_names(), (Files{"a", "b", "c"}));
  EXPECT_EQ(named->class_names(), (Files{"c", "b", "a", "d"}));
  folder_.Write("train.jsonl", "{\"text\": \"w0\", \"label\": 4}\n");
  EXPECT_EQ(Fill(*Make({}, 8, 5), 0, 1).Value("labels", 0), 4);
}

TEST_F(LabelledSource, NamesTheFileADocumentComesFrom) {
  folder_.Write("dogs.txt", "w0\n%\nw1\n%\n \n%\nw2\n");
  folder_.Write("cats", "w3 w4\n");
  const auto source = Make({{"train", Files{folder_ / "dogs.txt", folder_ / "cats"}},
                            {"label_from", std::string("file")},
                            {"document_separator", std::string("%")}});
  const TextBatch batch = Fill(*source, 0, 4);
  std::map<int32_t, int> labels;
  for (int64_t row = 0; row < 4; ++row) {
    ++labels[batch.Value("labels", row)];
    EXPECT_EQ(batch.Value("labels", row), batch.Row("tokens", row)[1] == 9 ? 0 : 1);
  }
  EXPECT_EQ(labels, (std::map<int32_t, int>{{0, 1}, {1, 3}}));
  EXPECT_THAT(source->Describe({}), HasSubstr("4 texts in 2 classes (cats, dogs)"));
}

TEST_F(LabelledSource, HoldsOutAShareOfEachClass) {
  std::string lines;
  for (int i = 0; i < 100; ++i) {
    const char* const label = i < 80 ? "many" : i < 99 ? "some" : "one";
    lines += "{\"text\": \"w" + std::to_string(i % 10) + "\", \"label\": \"" + label + "\"}\n";
  }
  folder_.Write("train.jsonl", lines);
  const auto source = Make({{"eval_fraction", 0.1}});
  const auto held_out = source->HeldOut(0);
  EXPECT_EQ(held_out->samples(), 10);
  EXPECT_EQ(source->sizes(), std::vector<int64_t>{90});
  const TextBatch batch = Fill(*held_out, 0, 12);
  std::map<int32_t, int> labels;
  for (int64_t row = 0; row < 12; ++row) ++labels[batch.Value("labels", row)];
  EXPECT_EQ(labels, (std::map<int32_t, int>{{-1, 2}, {0, 8}, {2, 2}}));
  EXPECT_EQ(batch.Row("tokens", 11), Ids(8, 0));
  EXPECT_EQ(batch.Value("lengths", 11), 1);
  EXPECT_EQ(held_out->CountTargets("", 8, 4), 2);
  EXPECT_EQ(HeldOutBatches(source->HeldOut(0), 4, 1, 2).CountTargets(), 10);
  EXPECT_EQ(Fill(*source->HeldOut(3), 0, 4).Value("labels", 3), -1);
  EXPECT_TRUE(Fill(*Make({{"eval_fraction", 0.1}})->HeldOut(0), 0, 12) == batch);

  folder_.Write("eval.jsonl", "{\"text\": \"w1\", \"label\": \"some\"}");
  const auto by_file = Make({{"eval", Files{folder_ / "eval.jsonl"}}});
  EXPECT_EQ(Fill(*by_file->HeldOut(0), 0, 1).Value("labels", 0), 2);
}

using Labels = std::map<int32_t, std::vector<float>>;

TEST_F(LabelledSource, GivesSeveralLabelsOfAText) {
  folder_.Write("train.jsonl",
                "{\"text\": \"w0\", \"label\": [\"b\", \"a\"]}\n"
                "{\"text\": \"w1\", \"labels\": [\"c\"]}\n"
                "{\"text\": \"w2\", \"label\": []}\n"
                "{\"text\": \"w3\", \"label\": \"c\"}\n");
  const auto named = MakeLabels(3);
  EXPECT_EQ(LabelValues(*named, 4, {4, 3}),
            (Labels{{0, {1, 1, 0}}, {1, {0, 0, 1}}, {2, {0, 0, 0}}, {3, {0, 0, 1}}}));
  EXPECT_EQ(named->class_names(), (Files{"a", "b", "c"}));
  EXPECT_THAT(named->Describe({}), HasSubstr("4 texts with any of 3 classes (a, b, c)"));
  const auto ordered = MakeLabels(4, {{"label_names", Files{"c", "b", "a", "d"}}});
  EXPECT_EQ(LabelValues(*ordered, 4, {4, 4}).at(0), (std::vector<float>{0, 1, 1, 0}));

  // By numbers, and by values of all classes.
  folder_.Write("train.jsonl",
                "{\"text\": \"w0\", \"label\": [2, 0]}\n"
                "{\"text\": \"w1\", \"label\": 1}\n"
                "{\"text\": \"w2\", \"labels\": [0.0, 1.0, 0.25]}\n"
                "{\"text\": \"w3\", \"label\": [true, false, true]}\n");
  EXPECT_EQ(LabelValues(*MakeLabels(3), 4, {4, 3}),
            (Labels{{0, {1, 0, 1}}, {1, {0, 1, 0}}, {2, {0, 1, 0.25}}, {3, {1, 0, 1}}}));
}

TEST_F(LabelledSource, GivesNumbers) {
  folder_.Write("train.jsonl",
                "{\"text\": \"w0\", \"label\": 2.5}\n{\"text\": \"w1\", \"label\": -3}\n"
                "{\"text\": \"w2\", \"label\": 0}\n");
  const auto source = MakeNumbers();
  EXPECT_EQ(LabelValues(*source, 3, {3}), (Labels{{0, {2.5}}, {1, {-3}}, {2, {0}}}));
  EXPECT_EQ(source->class_names(), Files());
  EXPECT_THAT(source->Describe({}), HasSubstr("3 texts with a number each to train on"));
}

// Labels are of many kinds then: of all texts a share is held out. Padding is no label.
TEST_F(LabelledSource, HoldsOutAShareOfTextsWithSeveralLabelsOrNumbers) {
  std::string labels, numbers;
  for (int i = 0; i < 10; ++i) {
    const std::string text = "{\"text\": \"w" + std::to_string(i) + "\", \"label\": ";
    labels += text + "[" + std::to_string(i % 3) + "]}\n";
    numbers += text + std::to_string(i) + "}\n";
  }
  folder_.Write("train.jsonl", labels);
  const auto source = MakeLabels(3, {{"eval_fraction", 0.2}});
  const auto held_out = source->HeldOut(0);
  EXPECT_EQ(held_out->samples(), 2);
  EXPECT_EQ(source->sizes(), std::vector<int64_t>{8});
  for (const auto& [word, values] : LabelValues(*held_out, 3, {3, 3})) {
    for (int32_t i = 0; i < 3; ++i) {
      const float value = values[static_cast<size_t>(i)];
      if (word < 0) {
        EXPECT_TRUE(std::isnan(value));
      } else {
        EXPECT_EQ(value, i == word % 3 ? 1 : 0) << word;
      }
    }
  }
  folder_.Write("train.jsonl", numbers);
  const auto held_out_numbers = MakeNumbers({{"eval_fraction", 0.2}})->HeldOut(0);
  for (const auto& [word, values] : LabelValues(*held_out_numbers, 3, {3})) {
    EXPECT_TRUE(word < 0 ? std::isnan(values[0]) : values[0] == static_cast<float>(word));
  }
}

TEST_F(LabelledSource, NamesThePlaceOfALabelOfAnotherKind) {
  const auto expect = [&](const auto& make, const std::string& label,
                          std::initializer_list<std::string_view> parts) {
    folder_.Write("train.jsonl", "{\"text\": \"w0\", " + label + "}");
    ExpectUserError(make, parts);
  };
  const auto one = [&] { Make({}, 8, 3); };
  expect(one, "\"label\": [\"a\", \"b\"]",
         {"train.jsonl:1", "is a list", "model.problem_type: multi_label_classification"});
  expect(one, "\"label\": 1.5", {"train.jsonl:1", "model.problem_type: regression"});
  const auto several = [&] { MakeLabels(3); };
  expect(several, "\"text_pair\": \"w1\"", {"train.jsonl:1", "label", "missing"});
  expect(several, "\"label\": [0, 1, 0]", {"train.jsonl:1", "class 0 twice", "0.0 and 1.0"});
  expect(several, "\"label\": [\"a\", \"a\"]", {"train.jsonl:1", "class a twice"});
  expect(several, "\"label\": [\"a\", 1]", {"train.jsonl:1", "is no list of classes"});
  expect(several, "\"label\": 0.5", {"train.jsonl:1", "is no list of classes"});
  expect(several, "\"label\": {\"a\": 1}", {"train.jsonl:1", "is no list of classes"});
  expect(several, "\"label\": [0.0, 1.5, 0.0]", {"train.jsonl:1", "1.5 is not within [0, 1]"});
  expect(several, "\"label\": [1.0, 0.0]", {"train.jsonl:1", "2 values for the model's 3 classes"});
  expect(several, "\"label\": [3]", {"train.jsonl:1", "class 3", "model.classes to 4"});
  expect(several, "\"label\": [-1]", {"train.jsonl:1", "label", "-1"});
  expect(several, "\"label\": [\"\"]", {"train.jsonl:1", "label", "empty"});
  // Of two classes it could be both, or the second.
  expect([&] { MakeLabels(2); }, "\"label\": [0, 1]",
         {"train.jsonl:1", "label [0, 1] may be two classes", "0.0 and 1.0"});
  expect(several, "\"label\": [\"a\"]}\n{\"text\": \"w1\", \"label\": [1.0, 0.0, 0.0]",
         {"train.jsonl:2", "is a number", "train.jsonl:1 is a name"});
  const auto number = [&] { MakeNumbers(); };
  expect(number, "\"label\": \"3\"", {"train.jsonl:1", "is no number", "problem_type"});
  expect(number, "\"label\": [3]", {"train.jsonl:1", "is no number"});
  expect(number, "\"label\": 1e300", {"train.jsonl:1", "1e+300 is not within"});
  expect(number, "\"text_pair\": \"w1\"", {"train.jsonl:1", "label", "missing", "number"});
  for (const std::map<std::string, SettingValue>& given :
       {std::map<std::string, SettingValue>{{"label_from", std::string("file")}},
        std::map<std::string, SettingValue>{{"label_names", Files{"a"}}}}) {
    const auto message = MessageOf<SettingError>([&] { MakeNumbers(given); });
    EXPECT_THAT(message.value_or(""), HasSubstr("model.problem_type: regression"));
  }
}

TEST_F(LabelledSource, DescribesItself) {
  std::string lines;
  for (int i = 0; i < 7; ++i) {
    lines += "{\"text\": \"w1 w1 w1" + std::string(i == 0 ? " w2 w2 w2 w2" : "") +
             "\", \"label\": \"c" + std::to_string(i) + "\"}\n";
  }
  folder_.Write("train.jsonl", lines);
  EXPECT_EQ(Make({})->Describe({.samples_per_step = 2, .samples = 14}),
            "data: 7 texts in 7 classes (c0, c1, c2, c3, c4, …) to train on, 2 per step, 2 epochs\n"
            "  32.1 % of the positions are padding, 1 text is cut off after 8 tokens\n");
}

TEST_F(LabelledSource, FillsWithoutAllocating) {
  folder_.Write("train.jsonl", "{\"text\": \"w1\", \"text_pair\": \"w2\", \"label\": \"a\"}\n");
  const auto source = Make({});
  const TextBatch batch(16, 8, kNames);
  EXPECT_EQ(CountAllocations([&] { source->Fill(5, batch.slots()); }), 0);

  folder_.Write("train.jsonl", "{\"text\": \"w1\", \"label\": 1.5}\n");
  const auto numbers = MakeNumbers();
  std::vector<float> values(16);
  std::vector<graph::Slot> slots = batch.slots();
  slots.back() = {
      "label_values", {graph::DType::kFloat32, {16}}, std::as_writable_bytes(std::span(values))};
  EXPECT_EQ(CountAllocations([&] { numbers->Fill(5, slots); }), 0);
  EXPECT_EQ(values, std::vector<float>(16, 1.5f));
}

TEST_F(LabelledSource, NamesThePlaceOfAMistake) {
  const auto expect = [&](const std::string& lines, std::initializer_list<std::string_view> parts,
                          int64_t classes = 0) {
    folder_.Write("train.jsonl", lines);
    ExpectUserError([&] { Make({}, 8, classes); }, parts);
  };
  const std::string good = "{\"text\": \"w1\", \"label\": \"a\"}\n";
  expect(good + "{\"text\": \"w1\"}\n", {"train.jsonl:2", "label", "missing"});
  expect(good + "{\"label\": \"a\"}\n", {"train.jsonl:2", "text"});
  expect(good + "\n{\"text\": \n", {"train.jsonl:3", "JSON"});
  expect(good + "[1]\n", {"train.jsonl:2"});
  expect(good + "{\"text\": 3, \"label\": \"a\"}", {"train.jsonl:2", "text"});
  expect("{\"text\": \"a\", \"label\": 1.5}", {"train.jsonl:1", "label", "neither"});
  expect("{\"text\": \"a\", \"label\": -1}", {"train.jsonl:1", "label", "-1"});
  expect("{\"text\": \"a\", \"label\": 5000000}", {"train.jsonl:1", "label"});
  expect("{\"text\": \"a\", \"label\": \"\"}", {"train.jsonl:1", "label", "empty"});
  expect(good + "{\"text\": \"w1\", \"label\": 1}\n", {"train.jsonl:2", "number", "train.jsonl:1"});
  expect("{\"text\": \"a\", \"label\": 2}\n", {"train.jsonl:1", "class 2", "model.classes to 3"},
         2);
  expect(good + "{\"text\": \"w1\", \"label\": \"b\"}\n",
         {"train.jsonl:2", "'b'", "class 1", "model.classes to 2"}, 1);
  expect("\n \n", {"train.jsonl", "empty"});
  expect("", {"train.jsonl", "empty"});
  folder_.Write("train.jsonl", good);
  folder_.Write("eval.jsonl", "{\"text\": \"w1\", \"label\": \"z\"}");
  folder_.Write("none", "%\n%\n");
  const auto refuse = [&](const std::map<std::string, SettingValue>& given,
                          std::initializer_list<std::string_view> parts) {
    ExpectUserError([&] { Make(given); }, parts);
  };
  refuse({{"eval", Files{folder_ / "eval.jsonl"}}}, {"eval.jsonl:1", "'z'", "none of the 1"});
  refuse({{"label_names", Files{"x", "y"}}}, {"train.jsonl:1", "'a'", "data.label_names"});
  refuse({{"eval_fraction", 0.3}}, {"data.eval_fraction", "holds out none"});
  refuse({{"train", Files{folder_ / "vocab.txt"}}}, {"data.train", "*.jsonl", "label_from: file"});
  refuse({{"train", Files{folder_ / "none"}},
          {"label_from", std::string("file")},
          {"document_separator", std::string("%")}},
         {"none", "no text"});
  refuse({{"tokenizer", folder_ / "nowhere"}}, {"data.tokenizer", "nowhere"});
  ExpectUserError([&] { Make({}, 4); }, {"model.sequence: 4"});
  ExpectUserError([&] { Make({}, 8, 0, 10); }, {"data.tokenizer", "model.vocab 10"});
  folder_.Write("less.txt", "[UNK]\n[CLS]\n[PAD]\na\n");
  EXPECT_THROW(Make({{"tokenizer", folder_ / "less.txt"}}), SettingError);
  EXPECT_THROW(Make({{"tokenizer", std::string()}}), MissingSetting);
  TextBatch batch(1, 8, {"tokens", "targets"});
  ExpectUserError([&] { Make({})->Fill(0, batch.slots()); }, {"'targets'", "labels"});
}

}  // namespace
}  // namespace plimsoll::data
