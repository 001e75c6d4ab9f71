#include "data/texts/open_texts.h"

#include <fmt/format.h>

#include <optional>

#include "base/error.h"
#include "data/texts/encode_text.h"
#include "data/texts/examples.h"

namespace plimsoll::data {

std::vector<std::string> TextPaths(const std::vector<std::string>& patterns,
                                   const std::vector<std::string>& exclude,
                                   const std::string& key) {
  std::vector<std::string> paths = ExpandFiles(patterns, exclude, key);
  const bool examples = HoldsExamples(paths.front());
  for (const std::string& path : paths) {
    RequireReadableKind(path, key);
    if (HoldsExamples(path) == examples) continue;
    throw UserError(
        fmt::format("{}: {} and {}: text and examples (*.jsonl) do not go together; "
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

DocumentSplit SplitTexts(const Texts& texts, const SplitOptions& options) {
  if (!texts.examples) return SplitDocuments(texts.files, options);
  return SplitByCount(FindExamples(texts.files), options.eval_fraction, options.seed, "examples");
}

void EncodeTexts(const Texts& texts, const DocumentSplit& split, const DocumentList& part,
                 const Tokenizer& tokenizer, const EncodingOptions& options, TokenSink sink) {
  if (texts.examples) {
    EncodeExamples(part, tokenizer, options.delimiter, options.name, sink);
    return;
  }
  const std::optional<int32_t> token =
      options.end_of_text ? tokenizer.EndOfText() : std::optional<int32_t>();
  EncodeDocuments(part, tokenizer, DocumentEndOf(token, split, options.delimiter),
                  [&](std::span<const int32_t> ids, int64_t bytes) { sink(ids, bytes, true); });
}

std::string NoteOfEnds(const Texts& texts, const Tokenizer& tokenizer,
                       const std::string& delimiter) {
  if (!texts.examples || tokenizer.EndOfText()) return "";
  return fmt::format("examples end with {}: the tokenizer has no token that ends texts",
                     delimiter.empty() ? "a newline" : "a line " + delimiter);
}

}  // namespace plimsoll::data
