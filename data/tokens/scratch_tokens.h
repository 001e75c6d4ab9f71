// Tokens that are made when a run begins, and read while it trains: in a scratch file, so that they
// take the page cache rather than memory of the process, whatever their number. A token takes 1, 2
// or 4 bytes, by the size of the vocabulary; 4 with a mask.
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
  std::string name;        // of the source, for messages
  int64_t vocab = 0;       // ids are below it
  bool masked = false;     // tokens may carry no loss
  int64_t text_bytes = 0;  // of the text that they are made of, for an estimate of the room
};

class ScratchTokenWriter {
 public:
  explicit ScratchTokenWriter(const ScratchTokensForm& form);

  // Appends ids that were made from `text_bytes` bytes of the text.
  void Append(std::span<const int32_t> ids, int64_t text_bytes, bool carries_loss = true);
  std::shared_ptr<const TokenSource> Finish();

  int64_t tokens() const { return tokens_; }
  // Of the tokens, and of which of them carry loss: CRC-32C in hexadecimal. Once finished.
  std::string checksum() const;

 private:
  void Flush();

  ScratchTokensForm form_;
  int width_;
  ScratchFile file_;
  std::vector<std::byte> buffer_;
  int64_t tokens_ = 0, text_bytes_ = 0;
  uint32_t checksum_ = 0;  // of what the file holds
};

// What these hold in scratch files: a line for the user, or nothing.
std::string ScratchText(const SourceList& sources);

}  // namespace plimsoll::data
