#include "formats/compression.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/compress.h"
#include "tests/support/expect_error.h"

namespace plimsoll::formats {
namespace {

std::span<const uint8_t> Bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

std::string Unpacked(const std::string& packed) {
  std::string text;
  Decompress(Bytes(packed), "a.gz", [&](std::span<const uint8_t> part) {
    text.append(reinterpret_cast<const char*>(part.data()), part.size());
  });
  return text;
}

// `lines` lines of text, longer than a decoder's buffer.
std::string Text(int64_t lines = 60'000) {
  std::string text;
  for (int64_t i = 0; i < lines; ++i) text += "line " + std::to_string(i * 7919 % 65537) + "\n";
  return text;
}

struct Case {
  Compression compression;
  std::string ending;
  std::string (*pack)(std::string_view);
};
const std::vector<Case> kCases = {{Compression::kGzip, ".gz", Gzip},
                                  {Compression::kXz, ".xz", Xz},
                                  {Compression::kZstd, ".zst", Zstd}};

TEST(Compression, ContentComesBack) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.ending);
    for (const std::string& text : {std::string(), std::string("a"), Text()}) {
      const std::string packed = c.pack(text);
      EXPECT_EQ(CompressionOf(Bytes(packed)), c.compression);
      EXPECT_EQ(Unpacked(packed), text);
    }
  }
}

TEST(Compression, IsKnownByBytesAndByName) {
  EXPECT_EQ(CompressionOf({}), Compression::kNone);
  EXPECT_EQ(CompressionOf(Bytes("\x1f")), Compression::kNone);
  EXPECT_EQ(CompressionOf(Bytes("plain text")), Compression::kNone);
  for (const Case& c : kCases) {
    EXPECT_EQ(CompressionByName("folder.gz/a.txt" + c.ending), c.compression);
    EXPECT_EQ(WithoutCompression("folder.gz/a.txt" + c.ending), "folder.gz/a.txt");
  }
  EXPECT_EQ(CompressionByName("folder.gz/a.txt"), Compression::kNone);
  EXPECT_EQ(WithoutCompression("a.txt"), "a.txt");
}

TEST(Compression, PartsInARowAreOneContent) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.ending);
    EXPECT_EQ(Unpacked(c.pack("one ") + c.pack("") + c.pack("two")), "one two");
  }
  EXPECT_EQ(Unpacked(Gzip("one") + std::string(700, '\0')), "one");
  const std::string skipped("\x50\x2a\x4d\x18\x02\0\0\0xx", 10);
  EXPECT_EQ(CompressionOf(Bytes(skipped)), Compression::kZstd);
  EXPECT_EQ(Unpacked(skipped + Zstd("one")), "one");
}

TEST(Compression, TruncatedFilesAreErrorsWhereverTheyEnd) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.ending);
    const std::string packed = c.pack(Text(300));
    for (size_t size = 6; size < packed.size(); ++size) {
      ExpectUserError([&] { Unpacked(packed.substr(0, size)); }, {"a.gz: truncated"});
    }
    const std::string large = c.pack(Text());
    ExpectUserError([&] { Unpacked(large.substr(0, large.size() - 1)); }, {"a.gz: truncated"});
  }
}

TEST(Compression, DamagedFilesAreErrors) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.ending);
    const std::string text = Text(300), packed = c.pack(text);
    size_t unseen = 0;
    for (size_t at = 8; at < packed.size(); ++at) {
      std::string damaged = packed;
      damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
      try {
        // Some bytes are independent of the content, such as gzip's modification time.
        EXPECT_EQ(Unpacked(damaged), text) << at;
        ++unseen;
      } catch (const UserError& error) {
        EXPECT_NE(std::string(error.what()).find("a.gz: "), std::string::npos);
      }
    }
    EXPECT_LT(unseen, 8u);
    ExpectUserError([&] { Unpacked(packed + "no such data"); }, {"a.gz: "});
  }
}

TEST(Compression, GzipFilesAreMade) {
  for (const std::string& text : {std::string(), std::string("a"), Text(), Text(300'000)}) {
    const auto pack = [&] {
      std::string packed;
      CompressGzip(Bytes(text), [&](std::span<const uint8_t> part) {
        packed.append(reinterpret_cast<const char*>(part.data()), part.size());
      });
      return packed;
    };
    const std::string packed = pack();
    EXPECT_EQ(CompressionOf(Bytes(packed)), Compression::kGzip);
    EXPECT_TRUE(Unpacked(packed) == text);
    EXPECT_TRUE(pack() == packed);
    EXPECT_LE(text.size(), kMostGzipGrowth * packed.size());
  }
}

// Only what comes before the end of the start has to be whole.
TEST(Compression, TheStartIsUnpackedAlone) {
  const std::string text = Text();
  const auto start = [](const std::string& packed, size_t count) {
    const std::vector<uint8_t> read = DecompressStart(Bytes(packed), "a.gz", count);
    return std::string(read.begin(), read.end());
  };
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.ending);
    const std::string packed = c.pack(text), cut = packed.substr(0, packed.size() - 20);
    EXPECT_EQ(start(packed, 1000), text.substr(0, 1000));
    EXPECT_EQ(start(cut, 348), text.substr(0, 348));
    EXPECT_TRUE(start(packed, text.size() + 1) == text);
    ExpectUserError([&] { start(cut, text.size() + 1); }, {"a.gz"});
  }
}

TEST(Compression, MemoryIsBounded) {
  // A zstd frame that needs a window of 2 GiB.
  ExpectUserError([&] { Unpacked(std::string("\x28\xb5\x2f\xfd\x00\xa8\x01\0\0", 9)); },
                  {"a.gz", "1 GiB", "--long=31"});
}

}  // namespace
}  // namespace plimsoll::formats
