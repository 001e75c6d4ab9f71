// Tokens that are computed when a run begins, and read while it trains. They are in a scratch file,
// so that they use the page cache and not the process's memory, whatever their number. A token
// takes 1, 2 or 4 bytes, depending on the vocabulary; 4 with a mask.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/scratch_file.h"
#include "data/tokens/token_source.h"

namespace plimsoll::data {

struct ScratchTokensForm {
  std::string name;        // name of the source, for messages
  int64_t vocab = 0;       // exclusive upper bound of ids
  bool masked = false;     // whether some tokens may carry no loss
  int64_t text_bytes = 0;  // size of the text that the tokens encode, for an estimate of their size
};

class ScratchTokenWriter {
 public:
  explicit ScratchTokenWriter(const ScratchTokensForm& form);

  // Appends ids that encode `text_bytes` bytes of the text.
  void Append(std::span<const int32_t> ids, int64_t text_bytes, bool carries_loss = true);
  std::shared_ptr<const TokenSource> Finish();

  int64_t tokens() const { return tokens_; }
  // A checksum of the tokens, and of which of them carry loss: CRC-32C in hexadecimal. Call it
  // after Finish.
  std::string checksum() const;

 private:
  void Flush();

  ScratchTokensForm form_;
  int width_;
  ScratchFile file_;
  std::vector<std::byte> buffer_;
  int64_t tokens_ = 0, text_bytes_ = 0;
  uint32_t checksum_ = 0;  // checksum of the file's contents
};

// Describes the scratch files of these sources in a line for the user; empty if they have none.
std::string ScratchText(const SourceList& sources);

}  // namespace plimsoll::data
