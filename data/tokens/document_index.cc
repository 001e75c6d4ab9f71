#include "data/tokens/document_index.h"

#include <array>
#include <span>
#include <utility>

#include "base/error.h"

namespace plimsoll::data {
namespace {

constexpr size_t kWrittenAtOnce = size_t{256} << 10;
constexpr int64_t kLong = int64_t{1} << 20;  // a document that is mapped instead of copied

ScratchFile ScratchFor(const std::vector<MappedFile>& texts, int64_t wanted_bytes) {
  return ScratchFile({texts.front().path() + ": its documents cannot be copied",
                      "make token files of the text elsewhere (plimsoll data tokenize)"},
                     wanted_bytes);
}

int64_t BytesOf(const std::vector<MappedFile>& texts) {
  int64_t bytes = 0;
  for (const MappedFile& text : texts) bytes += std::ssize(text.bytes());
  return bytes;
}

}  // namespace

DocumentIndex::DocumentIndex(const std::vector<MappedFile>& texts)
    : text_(ScratchFor(texts, BytesOf(texts))), ends_(ScratchFor(texts, 0)) {}

void DocumentIndex::Append(std::string_view document) {
  text_.Append(std::as_bytes(std::span(document)));
  const int64_t end = text_.bytes();
  ends_.Append(std::as_bytes(std::span(&end, 1)));
  ++count_;
}

void DocumentIndex::Finish() {
  text_.Flush();
  ends_.Flush();
  mapping_.emplace(text_.file().descriptor(), "documents");
}

Document DocumentIndex::At(int64_t number, std::string* buffer) const {
  if (number < 0 || number >= count_) throw InternalError("documents: no such number");
  std::array<int64_t, 2> bounds = {};  // the first document begins at 0
  const auto read = std::span(bounds).subspan(number == 0 ? 1 : 0);
  constexpr int64_t kBytes = sizeof(int64_t);
  ends_.file().Read(number == 0 ? 0 : (number - 1) * kBytes, std::as_writable_bytes(read));
  const auto begin = static_cast<size_t>(bounds[0]);
  const auto size = static_cast<size_t>(bounds[1] - bounds[0]);
  if (bounds[1] - bounds[0] > kLong) {
    return {.text = mapping_->text().substr(begin, size), .mapping = &*mapping_};
  }
  buffer->resize(size);
  text_.file().Read(bounds[0], std::as_writable_bytes(std::span(*buffer)));
  return {.text = *buffer, .mapping = nullptr};
}

void DocumentIndex::Writer::Append(std::span<const std::byte> bytes) {
  if (buffer_.size() + bytes.size() > kWrittenAtOnce) Flush();
  if (bytes.size() > kWrittenAtOnce) {
    file_.Write(bytes);
  } else {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  }
}

void DocumentIndex::Writer::Flush() {
  file_.Write(buffer_);
  buffer_.clear();
}

}  // namespace plimsoll::data
