// Token files, memory-mapped and read-only. Three forms, all little-endian:
//   raw uint16          ids only, as nanoGPT writes them (vocabularies up to 65,536)
//   raw uint32          ids only, for larger vocabularies
//   llm.c               256 int32: magic, version, number of tokens, zeros; then the ids as uint16
//                       (magic 20240520, version 1) or uint32 (magic 20240801, version 7)
// The header identifies the last form; without a header the element width follows from the
// vocabulary, or from an explicit format. FILE.mask next to FILE, with one byte per token, says
// which tokens carry loss as targets (1) and which are ignored (0). UserErrors: missing, empty or
// truncated file, a header that disagrees with the file's size, an id beyond the vocabulary, a mask
// of another length.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "data/tokens/token_source.h"

namespace plimsoll::data {

enum class TokenFormat { kAuto, kUint16, kUint32 };
TokenFormat ParseTokenFormat(std::string_view text);  // "auto", "uint16", "uint32"; else UserError

inline constexpr int64_t kHeaderInts = 256;
inline constexpr int32_t kUint16Magic = 20240520, kUint16Version = 1;
inline constexpr int32_t kUint32Magic = 20240801, kUint32Version = 7;

struct TokenFileOptions {
  TokenFormat format = TokenFormat::kAuto;
  int64_t vocab = 0;  // ids must lie below; 0: not known, any id that fits int32
  // Files up to this size are checked against the vocabulary when they are opened; larger files
  // only while they are read.
  int64_t scan_limit_bytes = int64_t{256} << 20;
};

class TokenFile : public TokenSource {
 public:
  virtual bool has_header() const = 0;
  virtual int width() const = 0;       // bytes a token: 2 or 4
  virtual uint32_t MaxId() const = 0;  // reads the whole file
};

std::shared_ptr<const TokenFile> OpenTokenFile(const std::string& path,
                                               const TokenFileOptions& options);

}  // namespace plimsoll::data
