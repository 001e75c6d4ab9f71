// The command `plimsoll data inspect` for examples: shows which tokens carry loss.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/data_commands.h"
#include "base/amounts.h"
#include "base/error.h"
#include "data/texts/encode_examples.h"
#include "data/texts/examples.h"
#include "data/texts/open_texts.h"
#include "data/tokenizers/unicode.h"

namespace plimsoll::data {
namespace {

// Consecutive tokens that all carry loss, or that all carry no loss.
struct TokenRun {
  std::vector<int32_t> ids;
  bool carries_loss = false;
};

// The text of ids from the middle of a text, escaped so that a terminal shows it as it is.
std::string ShownText(std::span<const int32_t> ids, const Tokenizer& tokenizer) {
  std::string bytes;
  for (const int32_t id : ids) tokenizer.Decode(id, &bytes);
  Utf8Stream stream;
  std::string text = stream.Push(bytes);
  text += stream.Finish();
  std::string shown;
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    if ((byte < ' ' && c != '\n' && c != '\t') || byte == 0x7f) {
      shown += fmt::format("\\x{:02x}", byte);
    } else {
      shown += c;
    }
  }
  return shown;
}

std::string Marked(const std::vector<TokenRun>& runs, const Tokenizer& tokenizer, bool colored) {
  const std::string_view begin = colored ? "\033[32m" : "[", end = colored ? "\033[0m" : "]";
  std::string text;
  for (const TokenRun& run : runs) {
    if (run.carries_loss) text += begin;
    text += ShownText(run.ids, tokenizer);
    if (run.carries_loss) text += end;
  }
  if (!text.ends_with('\n')) text += '\n';
  return text;
}

struct TokenCounts {
  int64_t tokens = 0, targets = 0;
};

TokenCounts CountOf(const std::vector<TokenRun>& runs) {
  TokenCounts counts;
  for (const TokenRun& run : runs) {
    counts.tokens += std::ssize(run.ids);
    if (run.carries_loss) counts.targets += std::ssize(run.ids);
  }
  return counts;
}

std::string CountsText(const TokenCounts& counts) {
  return fmt::format("{}, {} carr{} loss", Counted(counts.tokens, "token"), counts.targets,
                     counts.targets == 1 ? "ies" : "y");
}

}  // namespace

std::string InspectExamples(const InspectExamplesOptions& options, const Say& say) {
  if (options.tokenizer.empty()) {
    throw UserError(
        "--tokenizer: examples are shown as tokens; name the tokenizer (a folder, a file, or "
        "byte)");
  }
  const std::unique_ptr<Tokenizer> tokenizer = LoadTokenizer(options.tokenizer);
  const Texts texts = OpenTexts(options.files, {}, "data inspect", say);
  if (!texts.examples) {
    throw UserError(fmt::format("data inspect: {} holds no examples; name token files or *.jsonl",
                                texts.files.front().path()));
  }
  const std::string begins = Apply(options.text_tokens, *tokenizer);
  ExampleReader reader(options.chats, *tokenizer);
  ExampleEncoder encoder(*tokenizer, options.separator);
  UnreadableExamples unreadable({.skip = true, .way = "data.unreadable: skip"});
  std::string shown;
  TokenCounts all;
  int64_t number = 0, without_targets = 0, longest = 0;
  for (const MappedFile& file : texts.files) {
    ForEachExample(file, [&](std::string_view object, const std::string& where) {
      std::vector<TokenRun> runs;
      ++number;
      const bool read = unreadable.Try([&] {
        encoder.Encode(reader.Read(object, where),
                       [&](std::span<const int32_t> ids, int64_t, bool carries_loss) {
                         if (ids.empty()) return;
                         if (runs.empty() || runs.back().carries_loss != carries_loss) {
                           runs.push_back({.ids = {}, .carries_loss = carries_loss});
                         }
                         runs.back().ids.insert(runs.back().ids.end(), ids.begin(), ids.end());
                       });
      });
      if (!read) return;
      const TokenCounts counts = CountOf(runs);
      all.tokens += counts.tokens;
      all.targets += counts.targets;
      without_targets += counts.targets == 0;
      longest = std::max(longest, counts.tokens);
      if (number > options.shown) return;
      shown += fmt::format("{}: {}\n{}\n", where, CountsText(counts),
                           Marked(runs, *tokenizer, options.colored));
    });
  }
  RequireExamples(texts.files, number);
  unreadable.Require(number);
  shown += fmt::format("{}: {}; the longest has {}\n", Counted(number, "example"), CountsText(all),
                       Counted(longest, "token"));
  if (without_targets > 0) {
    shown += fmt::format("{} of them have no token that carries loss\n", without_targets);
  }
  if (!begins.empty() && !reader.chats()) shown += begins + "\n";
  if (const std::string ends = WarningOfEnds(encoder, *tokenizer); !ends.empty()) {
    shown += ends + "\n";
  }
  if (unreadable.count() > 0) {
    shown += fmt::format("{} of them cannot be read; data.unreadable: skip leaves them out:{}\n",
                         unreadable.count(), unreadable.List());
  }
  return shown;
}

}  // namespace plimsoll::data
