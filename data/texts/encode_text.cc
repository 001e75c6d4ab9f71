#include "data/texts/encode_text.h"

#include <string_view>
#include <vector>

namespace plimsoll::data {
namespace {

constexpr size_t kPiece = size_t{1} << 20;  // bytes of text; longer documents are mapped
constexpr int64_t kReleaseEvery = 8;        // pieces

}  // namespace

DocumentEnd DocumentEndOf(std::optional<int32_t> token, const DocumentSplit& split,
                          const std::string& delimiter) {
  return {.token = token, .delimiter = !token && split.delimited ? delimiter : ""};
}

void EncodeDocuments(const DocumentList& documents, const Tokenizer& tokenizer,
                     const DocumentEnd& end, IdSink sink) {
  std::vector<int32_t> ids;
  std::string last;
  for (int64_t i = 0; i < documents.size(); ++i) {
    const Document document = documents[i];
    std::string_view rest = document.text;
    const std::string behind = end.delimiter.empty() ? "" : DelimiterBehind(rest, end.delimiter);
    Tokenizer::Place place = Tokenizer::Place::kStart;
    // The piece grows where the tokenizer finds no place to end it.
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

}  // namespace plimsoll::data
