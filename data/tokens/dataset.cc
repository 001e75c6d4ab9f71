#include "data/tokens/dataset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/function_ref.h"
#include "data/texts/examples.h"
#include "data/texts/open_texts.h"
#include "data/tokens/scratch_tokens.h"

namespace plimsoll::data {
namespace {

// Practically endless, but small enough that positions never overflow.
constexpr int64_t kSyntheticTokens = int64_t{1} << 40;
// Enough for any evaluation, but small enough to be evaluated in full.
constexpr int64_t kSyntheticEvalTokens = int64_t{1} << 16;

constexpr const char* kEvalKey = "data.eval";

SourceList OpenShards(const std::vector<std::string>& patterns, const DataOptions& options,
                      const std::string& key, const TokenFileOptions& reading = {}) {
  TokenFileOptions file_options = reading;
  file_options.format = options.format;
  file_options.vocab = options.vocab;
  SourceList sources;
  for (const std::string& path : ExpandFiles(patterns, options.exclude, key)) {
    if (IsNextToTokens(path)) continue;
    if (HoldsExamples(path)) {
      throw UserError(fmt::format("{}: {} holds examples as text; set data.tokenizer", key, path));
    }
    RequireReadableKind(path, key);
    sources.push_back(OpenTokenFile(path, file_options));
  }
  return sources;
}

// Throws a UserError if an option does not apply to files of this kind. Held-out text is read in
// windows even if the training data are packed examples.
void RequireKind(const DataOptions& options, bool examples, const std::string& path,
                 const std::string& key) {
  if (examples && options.documents_apart) {
    throw UserError(fmt::format(
        "data.documents: apart is for text, but {} names examples ({}); use data.packing: "
        "best_fit, which keeps examples apart",
        key, path));
  }
  if (!examples && options.split.chats.pairs) {
    throw UserError(fmt::format(
        "preference.loss: needs pairs of answers (*.jsonl with prompt, chosen, rejected), but {} "
        "names text ({}); name files of pairs, or remove preference.loss",
        key, path));
  }
  if (!examples && options.packing != Packing::kConcatenate && key != kEvalKey) {
    throw UserError(fmt::format(
        "data.packing: is for examples (*.jsonl), but {} names text ({}); remove it, and use "
        "data.documents: apart if documents are to be kept apart",
        key, path));
  }
}

void CheckTexts(const std::vector<std::string>& patterns, const DataOptions& options,
                const Tokenizer& tokenizer, const std::string& key) {
  for (const std::string& path : TextPaths(patterns, options.exclude, key)) {
    RequireKind(options, HoldsExamples(path), path, key);
    const std::string start = StartOfText(path);
    if (HoldsExamples(path)) {
      CheckFirstExample(start, path, options.split.chats, options.split.unreadable, tokenizer);
    }
  }
}

// Checks the headers and the first tokens of token files.
void CheckShards(const std::vector<std::string>& patterns, const DataOptions& options,
                 const std::string& key) {
  constexpr int64_t kFirst = int64_t{1} << 16;
  std::vector<int32_t> ids(kFirst);
  for (const auto& source : OpenShards(patterns, options, key, {.scan_limit_bytes = 0})) {
    source->Read(0, std::min(source->size(), kFirst), ids.data());
  }
}

// How text is converted to the tokens of a part.
struct Reader {
  const DataOptions& options;
  const Tokenizer& tokenizer;
  std::optional<int32_t> document_end;  // set if attention must not cross documents
  DataSet& set;                         // receives what is to be said of the data
};

void AddOnce(std::vector<std::string>& texts, std::string text) {
  if (text.empty() || std::ranges::find(texts, text) != texts.end()) return;
  texts.push_back(std::move(text));
}

// Notes the examples that are left out, with the number of all.
void NoteUnread(const UnreadableExamples& unreadable, int64_t examples, const std::string& key,
                DataSet& set) {
  if (unreadable.count() == 0) return;
  set.unread.push_back(unreadable.Summary(examples, key));
  AddOnce(set.warnings,
          fmt::format("{}: {}:{}", key, unreadable.Summary(examples), unreadable.List()));
}

// Joins the documents, or the examples, into one source. Packs examples if the options say so.
MixturePart Encode(const Texts& texts, const DocumentSplit& split, const DocumentList& part,
                   const Reader& reader, const std::string& name) {
  if (part.empty()) return {};
  const DataOptions& options = reader.options;
  ScratchTokenWriter writer({.name = name,
                             .vocab = reader.tokenizer.vocab_size(),
                             .masked = texts.examples,
                             .text_bytes = part.bytes()});
  const bool packs = texts.examples && options.packing != Packing::kConcatenate;
  std::vector<int64_t> ends;  // the ends of examples, in tokens
  const EncodingNotes notes =
      EncodeTexts(texts, split, part, reader.tokenizer,
                  {.delimiter = options.split.delimiter, .unreadable = options.split.unreadable},
                  [&](std::span<const int32_t> ids, int64_t text_bytes, bool carries_loss) {
                    writer.Append(ids, text_bytes, carries_loss);
                    if (packs && text_bytes > 0) ends.push_back(writer.tokens());
                  });
  NoteUnread(notes.unreadable, part.size(), name, reader.set);
  AddOnce(reader.set.warnings, notes.ends);
  MixturePart read = {.name = name, .sources = {writer.Finish()}};
  if (!split.dated) read.checksum = writer.checksum();
  if (packs) {
    const bool pairs = options.split.chats.pairs;
    if (std::ssize(ends) != (pairs ? 2 : 1) * (part.size() - notes.unreadable.count())) {
      throw InternalError(
          fmt::format("{}: {} ends of {} examples", name, std::ssize(ends), part.size()));
    }
    read.rows = std::make_shared<PackedRows>(read.sources.front(), ends,
                                             PackingOptions{.packing = options.packing,
                                                            .too_long = options.too_long,
                                                            .sequence = options.sequence,
                                                            .pairs = pairs},
                                             name);
  } else {
    read.document_end = reader.document_end;
  }
  return read;
}

// Opens text files without holding out any of them.
MixturePart OpenWholeText(const std::vector<std::string>& files, const Reader& reader,
                          const std::string& key) {
  const DataOptions& options = reader.options;
  const Texts texts = OpenTexts(files, options.exclude, key);
  RequireKind(options, texts.examples, texts.files.front().path(), key);
  SplitOptions split_options = options.split;
  split_options.eval_fraction = 0;
  if (texts.examples) {
    // Examples are read in the order of the files.
    const FoundExamples found =
        FindExamples(texts.files, options.split.chats, options.split.unreadable, reader.tokenizer);
    reader.set.has_chats |= found.chats;
    NoteUnread(found.unreadable, found.examples, key, reader.set);
    return Encode(texts, {}, DocumentList(found.index, 0, found.index->size()), reader, key);
  }
  const DocumentSplit split = SplitTexts(texts, split_options, reader.tokenizer);
  return Encode(texts, split, split.train, reader, key);
}

// Opens text files or, without a tokenizer, token files.
MixturePart OpenWhole(const DataOptions& options, const std::vector<std::string>& files,
                      const Tokenizer* tokenizer, std::optional<int32_t> document_end,
                      const std::string& key, DataSet& set) {
  if (tokenizer != nullptr) {
    return OpenWholeText(files, {options, *tokenizer, document_end, set}, key);
  }
  MixturePart part = {.name = key, .sources = OpenShards(files, options, key)};
  part.document_end = document_end;
  return part;
}

// The name of a part of data.train in messages.
std::string KeyOf(const DataOptions& options, size_t part) {
  return options.train.size() == 1 ? "data.train" : fmt::format("data.train[{}]", part);
}

// Throws a UserError for options that contradict each other, whatever the files contain.
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

// Calls visit(files, key) for each list of files in the options.
void ForEachList(
    const DataOptions& options,
    FunctionRef<void(const std::vector<std::string>& files, const std::string& key)> visit) {
  for (size_t i = 0; i < options.train.size(); ++i) {
    visit(options.train[i].files, KeyOf(options, i));
  }
  if (!options.eval.empty()) visit(options.eval, kEvalKey);
}

// The training texts and the held-out texts of a list of text files.
struct TextSplit {
  MixturePart train, eval;
};
TextSplit OpenSplitText(const std::vector<std::string>& files, const Reader& reader,
                        const std::string& key) {
  const DataOptions& options = reader.options;
  const Texts texts = OpenTexts(files, options.exclude, key);
  RequireKind(options, texts.examples, texts.files.front().path(), key);
  SplitOptions split_options = options.split;
  if (!options.eval.empty()) split_options.eval_fraction = 0;
  const DocumentSplit split = SplitTexts(texts, split_options, reader.tokenizer);
  reader.set.has_chats |= split.chats;
  NoteUnread(split.unreadable, split.examples, key, reader.set);
  AddOnce(reader.set.notes, NoteOfEnds(texts, reader.tokenizer, options.split.delimiter));
  return {Encode(texts, split, split.train, reader, key),
          Encode(texts, split, split.eval, reader, key + " (held-out part)")};
}

// `notes`: receives what is to be said of the tokenizer, unless null.
std::unique_ptr<Tokenizer> LoadTokenizerOf(const DataOptions& options, const std::string& name,
                                           std::vector<std::string>* notes = nullptr) {
  if (name.empty()) return nullptr;
  std::unique_ptr<Tokenizer> tokenizer;
  try {
    tokenizer = LoadTokenizer(name);
  } catch (const UserError& error) {
    throw UserError(fmt::format("data.tokenizer: {}", error.what()));
  }
  if (options.vocab != 0 && options.vocab < tokenizer->vocab_size()) {
    throw UserError(fmt::format(
        "data.tokenizer: {} makes ids up to {}, beyond model.vocab {}; set model.vocab to {} or "
        "more",
        name, tokenizer->vocab_size() - 1, options.vocab, tokenizer->vocab_size()));
  }
  const std::string line = Apply(options.text_tokens, *tokenizer);
  if (notes != nullptr) AddOnce(*notes, line);
  return tokenizer;
}

std::string IdsText(const std::vector<int32_t>& ids) {
  return ids.empty() ? "no token of their own" : fmt::format("ids {}", fmt::join(ids, " "));
}

// Compares the tokens with which the texts of token files begin with what the tokenizer asks
// for, if it is known.
void CompareBegins(const DataOptions& options, DataSet& set) {
  if (options.end_tokenizer.empty()) return;
  std::unique_ptr<Tokenizer> tokenizer;
  try {
    tokenizer = LoadTokenizerOf(options, options.end_tokenizer, &set.notes);
  } catch (const UserError&) {
    return;  // training does without the tokenizer; what needs it reports the error
  }
  ForEachList(options, [&](const std::vector<std::string>& files, const std::string& key) {
    for (const std::string& path : ExpandFiles(files, options.exclude, key)) {
      if (IsNextToTokens(path) || ReadBegins(path) == tokenizer->facts().begins) continue;
      AddOnce(
          set.warnings,
          fmt::format("data.begin: texts in {} begin with {}, and prompts with {}; tokenise the "
                      "texts again, or change data.begin",
                      path, IdsText(ReadBegins(path)), IdsText(tokenizer->facts().begins)));
    }
  });
}

// The token that ends documents, if attention must not cross them. `tokenizer`: the tokenizer of
// text, or nullptr.
std::optional<int32_t> DocumentEndOf(const DataOptions& options, const Tokenizer* tokenizer) {
  if (!options.documents_apart) return std::nullopt;
  const std::unique_ptr<Tokenizer> of_files =
      tokenizer == nullptr ? LoadTokenizerOf(options, options.end_tokenizer) : nullptr;
  if (tokenizer == nullptr) tokenizer = of_files.get();
  if (tokenizer == nullptr) {
    throw UserError(
        "data.documents: apart needs to know the token that ends documents; name the tokenizer of "
        "the token files as data.tokenizer, or use data.documents: joined");
  }
  if (const std::optional<int32_t> end = tokenizer->EndOfText()) {
    const std::vector<int32_t>& begins = tokenizer->facts().begins;
    if (std::ranges::find(begins, *end) == begins.end()) return end;
    throw UserError(
        "data.documents: apart needs to know documents' ends, and the tokenizer begins texts with "
        "the same token; use data.begin: none, or data.documents: joined");
  }
  throw UserError(fmt::format(
      "data.documents: apart needs a token that ends documents, and data.tokenizer: {} has none; "
      "use a tokenizer that names one (eos_token), or data.documents: joined",
      options.tokenizer.empty() ? options.end_tokenizer : options.tokenizer));
}

}  // namespace

std::unique_ptr<Tokenizer> LoadTokenizerFor(const DataOptions& options) {
  return LoadTokenizerOf(options, options.tokenizer);
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
  const std::unique_ptr<Tokenizer> tokenizer = LoadTokenizerFor(options);
  DocumentEndOf(options, tokenizer.get());
  ForEachList(options, [&](const std::vector<std::string>& files, const std::string& key) {
    text ? CheckTexts(files, options, *tokenizer, key) : CheckShards(files, options, key);
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
  const std::unique_ptr<Tokenizer> tokenizer =
      LoadTokenizerOf(options, options.tokenizer, &set.notes);
  if (!tokenizer) CompareBegins(options, set);
  const std::optional<int32_t> end = DocumentEndOf(options, tokenizer.get());
  for (size_t i = 0; i < options.train.size(); ++i) {
    const WeightedFiles& part = options.train[i];
    const std::string key = KeyOf(options, i);
    TextSplit split;
    if (tokenizer) {
      split = OpenSplitText(part.files, {options, *tokenizer, end, set}, key);
    } else {
      split.train = OpenWhole(options, part.files, nullptr, end, key, set);
    }
    for (MixturePart* const read : {&split.train, &split.eval}) {
      read->name = fmt::format("{}", fmt::join(part.files, ", "));
      read->weight = part.weight;
    }
    set.train.push_back(std::move(split.train));
    if (options.split.eval_fraction > 0) set.eval.push_back(std::move(split.eval));
  }
  if (!options.eval.empty()) {
    set.eval.clear();
    set.eval.push_back(OpenWhole(options, options.eval, tokenizer.get(), end, kEvalKey, set));
  }
  const std::string& chat_template = options.split.chats.chat_template;
  if (tokenizer && !chat_template.empty() && !set.has_chats) {
    set.warnings.push_back(
        fmt::format("{}: has no effect: no file of data.train or data.eval holds "
                    "chats (messages, conversations, instruction)",
                    options.split.chats.key));
  }
  return set;
}

DataSet OpenFiles(const DataOptions& options, const std::vector<std::string>& files,
                  const std::string& key) {
  const std::unique_ptr<Tokenizer> tokenizer = LoadTokenizerFor(options);
  DataSet set;
  set.eval.push_back(OpenWhole(options, files, tokenizer.get(),
                               DocumentEndOf(options, tokenizer.get()), key, set));
  return set;
}

}  // namespace plimsoll::data
