// Text that is trained on directly becomes tokens on the disk: how long it is decides neither about
// the memory of the process nor about what is left behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/compress.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/run_plimsoll.h"

namespace plimsoll {
namespace {

using testing::HasSubstr;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

const std::string kTokenizer = "tests/data/tokenizers/gpt2_style.json";

// So many bytes of words, in documents.
std::string Words(size_t bytes) {
  std::mt19937 random(1);
  std::vector<std::string> words;
  for (int i = 0; i < 50'000; ++i) {
    std::string word(1 + random() % 9, ' ');
    for (char& letter : word) letter = static_cast<char>('a' + random() % 26);
    words.push_back(word);
  }
  std::string text;
  while (text.size() < bytes) {
    for (int i = 0; i < 40; ++i) text += words[random() % words.size()] + (i % 8 == 7 ? "\n" : " ");
    text += "%\n";
  }
  return text;
}

class TextMemory : public testing::Test {
 protected:
  std::string Yaml(const std::string& data, const std::string& run, int steps = 4) const {
    return folder_.Write(
        run + ".yaml",
        "model: {family: gpt2, layers: 1, width: 32, heads: 2, sequence: 64, vocab: 1024}\n"
        "data: {" +
            data +
            "}\n"
            "train: {steps: " +
            std::to_string(steps) +
            ", micro_batch: 4, eval_every: 2, log_every: 0, threads: 1}\n"
            "memory: {calibrate: false}\n"
            "save: {model: false}\n"
            "device: cpu\n"
            "run: {dir: " +
            folder_ / run + "}\n");
  }

  std::vector<std::string> Losses(const std::string& run) const {
    std::vector<std::string> losses;
    for (const nlohmann::json& row : JsonLines(ReadFile(folder_ / run + "/metrics.jsonl"))) {
      for (const char* key : {"loss", "eval_loss"}) {
        if (row.contains(key)) losses.push_back(row.at(key).dump());
      }
    }
    return losses;
  }

  const TempFolder folder_;
};

// With documents, and as a single text; from a compressed file.
TEST_F(TextMemory, DoesNotGrowWithTheText) {
  constexpr size_t kBytes = 16 << 20;
  constexpr int64_t kMostBesides = 32 << 20;
  const Outcome start = RunPlimsoll({"--version"});
  const std::string text = folder_.Write("text.zst", Zstd(Words(kBytes)));
  for (const std::string delimiter : {"%", ""}) {
    const std::string name = delimiter.empty() ? "whole" : "documents";
    const std::string run = "text_" + name, tokens = folder_ / ("tokens_" + name);
    const Outcome trained =
        ExpectExit(0, RunPlimsoll({"train", Yaml("train: " + text + ", tokenizer: " + kTokenizer +
                                                     ", eval_fraction: 0.1, document_separator: '" +
                                                     delimiter + "'",
                                                 run)}));
    EXPECT_THAT(trained.out, HasSubstr(" MiB on disk in " + folder_.path()));

    std::vector<std::string> tokenize = {"data",        "tokenize",        text,
                                         "--tokenizer", kTokenizer,        "--out",
                                         tokens,        "--eval-fraction", "0.1"};
    if (!delimiter.empty()) tokenize.insert(tokenize.end(), {"--separator", delimiter});
    const Outcome tokenized = ExpectExit(0, RunPlimsoll(tokenize));
    ExpectExit(0, RunPlimsoll({"train", Yaml("train: " + tokens + "/train_*.bin, eval: " + tokens +
                                                 "/val_*.bin",
                                             "tokens_run_" + name)}));
    EXPECT_EQ(Losses(run), Losses("tokens_run_" + name));

    if (kSanitized) continue;  // sanitizers keep shadow memory of their own
    const auto plan = nlohmann::json::parse(ReadFile(folder_ / run + "/plan.json"));
    const int64_t arena = plan.at("arena_bytes");
    EXPECT_LE(trained.peak_resident_bytes, start.peak_resident_bytes + arena + kMostBesides);
    EXPECT_LE(tokenized.peak_resident_bytes, start.peak_resident_bytes + kMostBesides);
  }
}

TEST_F(TextMemory, LeavesNothingBehindWhenItIsKilled) {
  std::filesystem::create_directory(folder_ / "out");
  const std::string text = folder_.Write("text.txt", Words(1 << 20));
  const pid_t child = StartPlimsoll(
      {"train", Yaml("train: " + text + ", tokenizer: " + kTokenizer, "run", 1'000'000)},
      folder_ / "out");
  const auto trains = [&] {
    std::error_code ignored;
    return std::filesystem::file_size(folder_ / "run/metrics.jsonl", ignored) + 1 > 1;
  };
  for (int i = 0; i < 600 && !trains(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_TRUE(trains()) << ReadFile(folder_ / "out/err");
  // Its tokens are there, in a file that has no name.
  bool unnamed = false;
  for (const auto& file :
       std::filesystem::directory_iterator("/proc/" + std::to_string(child) + "/fd")) {
    std::error_code ignored;
    const std::string target = std::filesystem::read_symlink(file.path(), ignored);
    unnamed |= target.starts_with(std::filesystem::canonical(folder_.path()).string()) &&
               target.ends_with(" (deleted)");
  }
  EXPECT_TRUE(unnamed);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder_.path())) {
    const std::string name = file.path().filename();
    EXPECT_FALSE(name.starts_with("plimsoll-") || name.starts_with("#")) << file.path();
    if (!file.is_regular_file()) continue;
    EXPECT_LE(file.file_size(), (1 << 20) + (1 << 17)) << file.path();
  }
}

TEST_F(TextMemory, FullDisksAreNamed) {
  const std::string text = folder_.Write("text.txt", Words(4 << 20));
  const std::string yaml = Yaml("train: " + text + ", tokenizer: " + kTokenizer, "run");
  const Outcome outcome =
      ExpectExit(2, RunShell("ulimit -f 1024; exec $PLIMSOLL train '" + yaml + "'"));
  EXPECT_THAT(
      outcome.err,
      testing::AllOf(HasSubstr("data.train: its tokens cannot be written into " + folder_.path()),
                     HasSubstr("1.00 MiB of about "), HasSubstr("let TMPDIR name"),
                     HasSubstr("plimsoll data tokenize")));
}

}  // namespace
}  // namespace plimsoll
