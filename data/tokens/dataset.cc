#include "data/tokens/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/function_ref.h"
#include "data/texts/examples.h"
#include "data/texts/open_texts.h"
#include "data/tokens/scratch_tokens.h"

namespace plimsoll::data {
namespace {

// Practically endless, and small enough that positions never overflow.
constexpr int64_t kSyntheticTokens = int64_t{1} << 40;
// Enough for any evaluation, and small enough to be evaluated in full.
constexpr int64_t kSyntheticEvalTokens = int64_t{1} << 16;

SourceList OpenShards(const std::vector<std::string>& patterns, const DataOptions& options,
                      const std::string& key, const TokenFileOptions& reading = {}) {
  TokenFileOptions file_options = reading;
  file_options.format = options.format;
  file_options.vocab = options.vocab;
  std::vector<std::string> exclude = options.exclude;
  exclude.push_back("*.mask");
  SourceList sources;
  for (const std::string& path : ExpandFiles(patterns, exclude, key)) {
    if (HoldsExamples(path)) {
      throw UserError(fmt::format("{}: {} holds examples as text; set data.tokenizer", key, path));
    }
    RequireReadableKind(path, key);
    sources.push_back(OpenTokenFile(path, file_options));
  }
  return sources;
}

void CheckTexts(const std::vector<std::string>& patterns, const DataOptions& options,
                const std::string& key) {
  for (const std::string& path : TextPaths(patterns, options.exclude, key)) {
    const std::string start = StartOfText(path);
    if (HoldsExamples(path)) CheckFirstExample(start, path);
  }
}

// Their headers and first tokens.
void CheckShards(const std::vector<std::string>& patterns, const DataOptions& options,
                 const std::string& key) {
  constexpr int64_t kFirst = int64_t{1} << 16;
  std::vector<int32_t> ids(kFirst);
  for (const auto& source : OpenShards(patterns, options, key, {.scan_limit_bytes = 0})) {
    source->Read(0, std::min(source->size(), kFirst), ids.data());
  }
}

// Joins the documents, or the examples, into one source.
SourceList Encode(const Texts& texts, const DocumentSplit& split, const DocumentList& part,
                  const Tokenizer& tokenizer, const DataOptions& options, const std::string& name) {
  if (part.empty()) return {};
  ScratchTokenWriter writer({.name = name,
                             .vocab = tokenizer.vocab_size(),
                             .masked = texts.examples,
                             .text_bytes = part.bytes()});
  EncodeTexts(texts, split, part, tokenizer, {.delimiter = options.split.delimiter, .name = name},
              [&](std::span<const int32_t> ids, int64_t text_bytes, bool carries_loss) {
                writer.Append(ids, text_bytes, carries_loss);
              });
  return {writer.Finish()};
}

// Opens text files without holding out a part.
SourceList OpenWholeText(const DataOptions& options, const std::vector<std::string>& files,
                         const Tokenizer& tokenizer, const std::string& key) {
  const Texts texts = OpenTexts(files, options.exclude, key);
  SplitOptions split_options = options.split;
  split_options.eval_fraction = 0;
  if (texts.examples) {
    // In the order of the files.
    const auto index = FindExamples(texts.files);
    return Encode(texts, {}, DocumentList(index, 0, index->size()), tokenizer, options, key);
  }
  const DocumentSplit split = SplitTexts(texts, split_options);
  return Encode(texts, split, split.train, tokenizer, options, key);
}

// The key of a part of data.train, for messages.
std::string KeyOf(const DataOptions& options, size_t part) {
  return options.train.size() == 1 ? "data.train" : fmt::format("data.train[{}]", part);
}

// UserError for options that contradict one another, whatever the files hold.
void CheckOptions(const DataOptions& options) {
  if (options.synthetic && (!options.train.empty() || !options.eval.empty())) {
    throw UserError(
        "data.synthetic: true takes the place of files; remove data.train and "
        "data.eval, or data.synthetic");
  }
  if (options.synthetic) return;
  if (options.train.empty()) {
    throw UserError(
        "data.train: nothing to train on; name token files, or text files with "
        "data.tokenizer, or set data.synthetic: true");
  }
  if (options.tokenizer.empty() && options.split.eval_fraction != 0) {
    throw UserError(
        "data.eval_fraction: token files are not split; name held-out files in "
        "data.eval, or set data.tokenizer if data.train names text");
  }
}

// Calls visit(files, key) for each list of files.
void ForEachList(
    const DataOptions& options,
    FunctionRef<void(const std::vector<std::string>& files, const std::string& key)> visit) {
  for (size_t i = 0; i < options.train.size(); ++i) {
    visit(options.train[i].files, KeyOf(options, i));
  }
  if (!options.eval.empty()) visit(options.eval, "data.eval");
}

// The training part and the held-out part of a list of text files.
struct TextSplit {
  SourceList train, eval;
  std::string note = {};  // NoteOfEnds
};
TextSplit OpenSplitText(const DataOptions& options, const std::vector<std::string>& files,
                        const Tokenizer& tokenizer, const std::string& key) {
  const Texts texts = OpenTexts(files, options.exclude, key);
  SplitOptions split_options = options.split;
  if (!options.eval.empty()) split_options.eval_fraction = 0;
  const DocumentSplit split = SplitTexts(texts, split_options);
  return {Encode(texts, split, split.train, tokenizer, options, key),
          Encode(texts, split, split.eval, tokenizer, options, key + " (held-out part)"),
          NoteOfEnds(texts, tokenizer, options.split.delimiter)};
}

}  // namespace

std::unique_ptr<Tokenizer> LoadTokenizerFor(const DataOptions& options) {
  std::unique_ptr<Tokenizer> tokenizer;
  try {
    tokenizer = LoadTokenizer(options.tokenizer);
  } catch (const UserError& error) {
    throw UserError(fmt::format("data.tokenizer: {}", error.what()));
  }
  if (options.vocab != 0 && options.vocab < tokenizer->vocab_size()) {
    throw UserError(fmt::format(
        "data.tokenizer: {} makes ids up to {}, beyond model.vocab {}; set model.vocab to {} or "
        "more",
        options.tokenizer, tokenizer->vocab_size() - 1, options.vocab, tokenizer->vocab_size()));
  }
  return tokenizer;
}

int64_t BytesOf(const DataOptions& options) {
  int64_t bytes = 0;
  ForEachList(options, [&](const std::vector<std::string>& files, const std::string& key) {
    bytes += BytesOfFiles(files, options.exclude, key);
  });
  return bytes;
}

void CheckData(const DataOptions& options) {
  CheckOptions(options);
  const bool text = !options.tokenizer.empty();
  if (text) LoadTokenizerFor(options);
  ForEachList(options, [&](const std::vector<std::string>& files, const std::string& key) {
    text ? CheckTexts(files, options, key) : CheckShards(files, options, key);
  });
}

DataSet OpenData(const DataOptions& options) {
  CheckOptions(options);
  DataSet set;
  if (options.synthetic) {
    const auto random = [&](uint64_t seed, int64_t tokens) {
      return MixturePart{"random tokens", {MakeSyntheticSource(seed, options.vocab, tokens)}};
    };
    set.train.push_back(random(options.seed, kSyntheticTokens));
    const int64_t held_out = std::max(kSyntheticEvalTokens, options.sequence + 1);
    set.eval.push_back(random(~options.seed, held_out));
    return set;
  }
  const bool text = !options.tokenizer.empty();
  const std::unique_ptr<Tokenizer> tokenizer = text ? LoadTokenizerFor(options) : nullptr;
  for (size_t i = 0; i < options.train.size(); ++i) {
    const WeightedFiles& part = options.train[i];
    const std::string key = KeyOf(options, i);
    TextSplit split;
    if (text) {
      split = OpenSplitText(options, part.files, *tokenizer, key);
      if (!split.note.empty()) set.note = fmt::format("  {}\n", split.note);
    } else {
      split.train = OpenShards(part.files, options, key);
    }
    const std::string name = fmt::format("{}", fmt::join(part.files, ", "));
    set.train.push_back({name, std::move(split.train), part.weight});
    if (options.split.eval_fraction > 0) {
      set.eval.push_back({name, std::move(split.eval), part.weight});
    }
  }
  if (!options.eval.empty()) {
    SourceList eval = text ? OpenWholeText(options, options.eval, *tokenizer, "data.eval")
                           : OpenShards(options.eval, options, "data.eval");
    set.eval.clear();
    set.eval.push_back({"data.eval", std::move(eval)});
  }
  return set;
}

SourceList OpenFiles(const DataOptions& options, const std::vector<std::string>& files,
                     const std::string& key) {
  if (options.tokenizer.empty()) return OpenShards(files, options, key);
  return OpenWholeText(options, files, *LoadTokenizerFor(options), key);
}

}  // namespace plimsoll::data
