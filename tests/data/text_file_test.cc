#include "data/texts/text_file.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/compress.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::data {
namespace {

const std::string kText = "It was a dark and stormy night.\n";

TEST(OpenText, ReadsCompressedTextWhateverItsName) {
  const TempFolder files;
  std::string said;
  const Say say = [&](std::string_view text) { said += text; };
  EXPECT_EQ(OpenText(files.Write("plain", kText), say).text(), kText);
  EXPECT_EQ(said, "");
  for (const std::string& packed : {Gzip(kText), Xz(kText), Zstd(kText)}) {
    const MappedFile file = OpenText(files.Write("packed", packed), say);
    EXPECT_EQ(file.text(), kText);
    EXPECT_EQ(file.path(), files / "packed");
  }
  EXPECT_NE(said.find("unpacking " + files / "packed"), said.npos);
  EXPECT_EQ(OpenText(files.Write("empty", Gzip(""))).text(), "");
}

TEST(OpenText, LeavesNothingBehind) {
  const TempFolder files;
  files.Write("a.gz", Gzip(kText));
  std::filesystem::create_directory(files / "tmp");
  setenv("TMPDIR", (files / "tmp").c_str(), 1);
  EXPECT_EQ(OpenText(files / "a.gz").text(), kText);
  const MappedFile open = OpenText(files / "a.gz");
  EXPECT_TRUE(files.Names("tmp").empty());
  EXPECT_EQ(open.text(), kText);
  setenv("TMPDIR", (files / "none").c_str(), 1);
  ExpectUserError([&] { OpenText(files / "a.gz"); },
                  {"a.gz: cannot be unpacked into " + files / "none", "TMPDIR"});
  unsetenv("TMPDIR");
}

TEST(OpenText, NamesTheFileThatIsDamaged) {
  const TempFolder files;
  const std::string packed = Xz(kText);
  ExpectUserError([&] { OpenText(files.Write("a.xz", packed.substr(0, packed.size() / 2))); },
                  {files / "a.xz: truncated"});
  ExpectUserError([&] { OpenText(files.Write("b.gz", Gzip(Gzip(kText)))); },
                  {files / "b.gz", "compressed twice"});
}

TEST(RequireText, TakesTextOfAllKinds) {
  std::string latin = "un caf\xe9 cr\xe8me br\xfbl\xe9" + kText;
  std::string long_text;
  for (int i = 0; i < 40'000; ++i) long_text += "\xe8\xb2\xa8\xe7\x89\xa9 \xf0\x9f\x9a\xa2\n";
  long_text[long_text.size() / 2] = '\0';
  for (const std::string& text :
       {std::string(), kText, latin, long_text, std::string("\t\r\n\f\b\x1b[1mbold\x1b[0m"),
        std::string("RIFF is a word, and so is BZh"), std::string("\xef\xbb\xbf with a mark"),
        std::string("cut off \xe2\x82")}) {
    EXPECT_NO_THROW(RequireText(text, "a"));
  }
}

TEST(RequireText, SaysWhatIsNoText) {
  std::string binary;
  for (int64_t i = 0; i < 1'000'000; ++i) binary += static_cast<char>(i * i >> 3);
  const auto expect = [&](const std::string& begin, std::initializer_list<std::string_view> parts) {
    ExpectUserError([&] { RequireText(begin + binary, "file"); }, parts);
  };
  expect("", {"file: holds no text", "control characters"});
  expect("BZh9", {"file: is compressed with bzip2", "bzip2 -d"});
  expect("PK\x03\x04", {"file: is a zip archive", "unpack it"});
  expect("\x89PNG\r\n", {"file: is a PNG picture"});
  expect(
      "\x7f"
      "ELF",
      {"file: is a program"});
  expect("\x88\xd8\x34\x01", {"file: is a token file", "data.tokenizer"});
  expect(std::string(257, '\0') + "ustar", {"file: is a tar archive"});
  ExpectUserError([] { RequireText("%PDF-1.7 of letters alone", "a"); }, {"a: is a PDF document"});
  ExpectUserError(
      [] {
        RequireText(std::string("\xff\xfe"
                                "a\0b\0",
                                6),
                    "a");
      },
      {"a: is text in UTF-16", "iconv -f UTF-16"});
  ExpectUserError([] { RequireText("\xd0\xd2\xc9\xd7\xc5\xd4 \xcb\xc1\xcb", "koi"); },
                  {"koi: 80 % of its bytes are no UTF-8", "iconv"});
}

}  // namespace
}  // namespace plimsoll::data
