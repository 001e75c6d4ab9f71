#include "reports/metric_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "reports/metric_files.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::reports {
namespace {

std::string Hex(std::string_view bytes) {
  std::string hex;
  for (unsigned char byte : bytes) {
    hex += "0123456789abcdef"[byte >> 4];
    hex += "0123456789abcdef"[byte & 15];
  }
  return hex;
}

// The first record of a file as TensorFlow itself would write it.
TEST(EventEncoding, AVersionEventAsTensorFlowWritesIt) {
  const std::string event = VersionEvent(1.5);
  EXPECT_EQ(Hex(event), "09000000000000f83f1a0d" + Hex("brain.Event:2"));
  const std::string record = Record(event);
  EXPECT_EQ(record.size(), 8 + 4 + event.size() + 4);
  // The first record of TensorFlow's files begins with its length, 24, and the checksum of the
  // length.
  EXPECT_EQ(Hex(record.substr(0, 12)), "1800000000000000a37f4b22");
}

TEST(EventEncoding, AScalarEvent) {
  EXPECT_EQ(Hex(ScalarEvent(1.5, 300, "train/loss", 0.25)),
            "09000000000000f83f"  // wall_time
            "10ac02"              // step 300
            "2a13"                // summary
            "0a11"                // a value
            "0a0a" +
                Hex("train/loss") + "150000803e");
}

TEST(EventEncoding, ARestart) {
  EXPECT_EQ(Hex(RestartEvent(1.5, 300)),
            "09000000000000f83f"  // wall_time
            "10ac02"              // step 300
            "3a02"                // session_log
            "0801");              // START
}

TEST(EventFile, TakesTheNumbersOfRows) {
  const TempFolder folder;
  std::string path;
  {
    EventFile events(folder.path());
    events.AddRow({{"step", 7}, {"loss", 2.5}, {"mfu", nullptr}, {"allocator", "caching"}});
    events.AddRow({{"step", 8}, {"eval_loss", 2.25}});
    path = events.path();
  }
  EXPECT_THAT(std::filesystem::path(path).filename().string(),
              ::testing::StartsWith("events.out.tfevents."));
  const std::string bytes = ReadFile(path);
  ExpectText(bytes, {"train/loss", "eval/loss"});
  for (const char* absent : {"step", "mfu", "allocator"}) {
    EXPECT_EQ(bytes.find(absent), std::string::npos) << absent;
  }
}

TEST(CsvFile, IsOneTable) {
  const TempFolder folder;
  const std::string path = folder / "metrics.csv";
  const std::vector<std::string> columns = {"step", "loss", "note"};
  {
    CsvFile csv(path, columns);
    csv.AddRow({{"note", "a \"word\", quoted"}, {"step", 0}});
    csv.AddRow({{"step", 1}, {"loss", 0.1}, {"note", nullptr}});
    EXPECT_THROW(csv.AddRow({{"step", 2}, {"other", 1}}), InternalError);
  }
  const std::string begun = "step,loss,note\n0,,\"a \"\"word\"\", quoted\"\n1,0.1,\n";
  EXPECT_EQ(ReadFile(path), begun);
  CsvFile(path, columns, /*append=*/true).AddRow({{"step", 2}, {"loss", 3}});
  EXPECT_EQ(ReadFile(path), begun + "2,3,\n");
  ExpectUserError([&] { CsvFile(path, {"step"}, /*append=*/true); }, {path, "other columns"});
  EXPECT_EQ(ReadFile(path), begun + "2,3,\n");
  { CsvFile again(path, columns); }
  EXPECT_EQ(ReadFile(path), "step,loss,note\n");
}

}  // namespace
}  // namespace plimsoll::reports
