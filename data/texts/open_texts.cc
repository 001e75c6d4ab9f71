#include "data/texts/open_texts.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>

#include "base/error.h"
#include "data/texts/encode_examples.h"
#include "data/texts/examples.h"

namespace plimsoll::data {
namespace {

// What is appended to each document: a token, or the line that separated documents in their text.
struct DocumentEnd {
  std::optional<int32_t> token;
  std::string delimiter;  // empty if no line is appended
};

// Receives ids, and the number of bytes of text that they encode.
using IdSink = FunctionRef<void(std::span<const int32_t> ids, int64_t text_bytes)>;

constexpr size_t kPiece = size_t{1} << 20;  // bytes of text in a piece; longer documents are mapped
constexpr int64_t kReleaseEvery = 8;        // releases pages after this many pieces

// Uses the token or, without one, the delimiter line, if documents were separated by it.
DocumentEnd DocumentEndOf(std::optional<int32_t> token, const DocumentSplit& split,
                          const std::string& delimiter) {
  return {.token = token, .delimiter = !token && split.delimited ? delimiter : ""};
}

// Encodes the documents in order, each after the tokenizer's begin tokens. The ids are those of
// encoding each document in one piece.
void EncodeDocuments(const DocumentList& documents, const Tokenizer& tokenizer,
                     const DocumentEnd& end, IdSink sink) {
  const std::vector<int32_t>& begins = tokenizer.facts().begins;
  std::vector<int32_t> ids;
  std::string last;
  for (int64_t i = 0; i < documents.size(); ++i) {
    const Document document = documents[i];
    std::string_view rest = document.text;
    const std::string behind = end.delimiter.empty() ? "" : DelimiterAfter(rest, end.delimiter);
    if (!begins.empty()) sink(begins, 0);
    Tokenizer::Place place = Tokenizer::Place::kStart;
    // The piece grows while the tokenizer finds no place to end it.
    size_t piece = kPiece;
    int64_t pieces = 0;
    while (rest.size() > piece) {
      ids.clear();
      const size_t done = tokenizer.EncodeStart(rest.substr(0, piece), &ids, place);
      if (done == 0) {
        piece *= 2;
        continue;
      }
      sink(ids, static_cast<int64_t>(done));
      rest.remove_prefix(done);
      place = Tokenizer::Place::kWithin;
      piece = kPiece;
      if (++pieces % kReleaseEvery == 0) document.mapping->Release();
    }
    ids.clear();
    if (behind.empty()) {
      tokenizer.Encode(rest, &ids, place);
    } else {
      last.assign(rest);
      tokenizer.Encode(last += behind, &ids, place);
    }
    if (end.token) ids.push_back(*end.token);
    sink(ids, std::ssize(rest));
    if (document.mapping != nullptr) document.mapping->Release();
  }
}

}  // namespace

std::vector<std::string> TextPaths(const std::vector<std::string>& patterns,
                                   const std::vector<std::string>& exclude,
                                   const std::string& key) {
  std::vector<std::string> paths = ExpandFiles(patterns, exclude, key);
  const bool examples = HoldsExamples(paths.front());
  for (const std::string& path : paths) {
    RequireReadableKind(path, key);
    if (HoldsExamples(path) == examples) continue;
    throw UserError(
        fmt::format("{}: {} and {}: text and examples (*.jsonl, *.json) do not go together; "
                    "name one kind",
                    key, paths.front(), path));
  }
  return paths;
}

Texts OpenTexts(const std::vector<std::string>& patterns, const std::vector<std::string>& exclude,
                const std::string& key, const Say& say) {
  const std::vector<std::string> paths = TextPaths(patterns, exclude, key);
  return {MapTexts(paths, key, say), HoldsExamples(paths.front())};
}

DocumentSplit SplitTexts(const Texts& texts, const SplitOptions& options,
                         const Tokenizer& tokenizer) {
  if (!texts.examples) return SplitDocuments(texts.files, options);
  FoundExamples examples = FindExamples(texts.files, options.chats, options.unreadable, tokenizer);
  DocumentSplit split =
      SplitByCount(std::move(examples.index), options.eval_fraction, options.seed, "examples");
  split.chats = examples.chats;
  split.dated = examples.dated;
  split.examples = examples.examples;
  split.unreadable = std::move(examples.unreadable);
  return split;
}

EncodingNotes EncodeTexts(const Texts& texts, const DocumentSplit& split, const DocumentList& part,
                          const Tokenizer& tokenizer, const EncodingOptions& options,
                          TokenSink sink) {
  EncodingNotes notes = {.unreadable = UnreadableExamples(options.unreadable)};
  if (texts.examples) {
    ExampleEncoder encoder(tokenizer, options.delimiter);
    for (int64_t i = 0; i < part.size(); ++i) {
      notes.unreadable.Try([&] { encoder.Encode(part[i].text, sink); });
    }
    notes.unreadable.Require(part.size());
    notes.ends = WarningOfEnds(encoder, tokenizer);
    return notes;
  }
  const std::optional<int32_t> token =
      options.end_of_text ? tokenizer.EndOfText() : std::optional<int32_t>();
  EncodeDocuments(part, tokenizer, DocumentEndOf(token, split, options.delimiter),
                  [&](std::span<const int32_t> ids, int64_t bytes) { sink(ids, bytes, true); });
  return notes;
}

std::string NoteOfEnds(const Texts& texts, const Tokenizer& tokenizer,
                       const std::string& delimiter) {
  if (!texts.examples || tokenizer.EndOfText()) return "";
  return fmt::format("examples end with {}: the tokenizer has no token that ends texts",
                     delimiter.empty() ? "a newline" : "a line " + delimiter);
}

}  // namespace plimsoll::data
