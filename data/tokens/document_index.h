// Documents to be read in an order of their own, one after the other in a scratch file: any number
// of any size takes as little memory, and the texts that they come from may go.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mapped_file.h"
#include "base/scratch_file.h"

namespace plimsoll::data {

// Text that is read in order gives its pages back to the page cache each time so much was read:
// pages of a mapping count as memory of the process.
inline constexpr size_t kReleaseBytes = size_t{8} << 20;

struct Document {
  std::string_view text;
  const MappedFile* mapping = nullptr;  // that it is in, for those who read a long one
};

class DocumentIndex {
 public:
  // For the documents of `texts`.
  explicit DocumentIndex(const std::vector<MappedFile>& texts);

  void Append(std::string_view document);
  void Finish();

  int64_t size() const { return count_; }
  int64_t bytes() const { return text_.bytes(); }  // of all documents
  // Once finished. The text of a short document is in `buffer`.
  Document At(int64_t number, std::string* buffer) const;

 private:
  // A scratch file that is written a large piece at a time.
  class Writer {
   public:
    explicit Writer(ScratchFile file) : file_(std::move(file)) {}
    void Append(std::span<const std::byte> bytes);
    void Flush();
    const ScratchFile& file() const { return file_; }
    int64_t bytes() const { return file_.bytes() + std::ssize(buffer_); }

   private:
    ScratchFile file_;
    std::vector<std::byte> buffer_;
  };

  Writer text_;
  Writer ends_;  // of each document in text_, int64
  int64_t count_ = 0;
  std::optional<MappedFile> mapping_;
};

}  // namespace plimsoll::data
