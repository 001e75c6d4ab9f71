// The source "labelled_text", by the interface that training has; its rows are compared with those
// of transformers (tests/data/tokenizers/make_wordpiece.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "tests/support/allocation_counter.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/data/text_batches.h"
#include "trainer/data/held_out_batches.h"

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
                               int64_t classes = 0, int64_t vocab = 0) const {
    given.try_emplace("tokenizer", folder_ / "vocab.txt");
    given.try_emplace("train", Files{folder_ / "train.jsonl"});
    return MakeSource("labelled_text", given,
                      {.sequence = sequence, .vocab = vocab, .classes = classes}, kSeed);
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

TEST_F(LabelledSource, DescribesItself) {
  std::string lines;
  for (int i = 0; i < 7; ++i) {
    lines += "{\"text\": \"w1 w1 w1" + std::string(i == 0 ? " w2 w2 w2 w2" : "") +
             "\", \"label\": \"c" + std::to_string(i) + "\"}\n";
  }
  folder_.Write("train.jsonl", lines);
  EXPECT_EQ(Make({})->Describe({.samples_per_step = 2, .samples = 14}),
            "data: 7 texts in 7 classes (c0, c1, c2, c3, c4, …) to train on, 2 per step, 2 epochs\n"
            "  32.1 % of the positions are padding, 1 texts are cut off after 8 tokens\n");
}

TEST_F(LabelledSource, FillsWithoutAllocating) {
  folder_.Write("train.jsonl", "{\"text\": \"w1\", \"text_pair\": \"w2\", \"label\": \"a\"}\n");
  const auto source = Make({});
  const TextBatch batch(16, 8, kNames);
  EXPECT_EQ(CountAllocations([&] { source->Fill(5, batch.slots()); }), 0);
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
