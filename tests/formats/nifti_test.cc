#include "formats/nifti.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/compress.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::formats {
namespace {

constexpr int64_t kMost = 1 << 20;

// The bytes of a file, whose fields tests set where the standard has them.
class File {
 public:
  explicit File(bool big_endian = false) : big_endian_(big_endian) {
    Set<int32_t>(0, 348);
    Dims({2, 3, 1});
    Type(2, 8);
    for (size_t i = 0; i < 8; ++i) Set<float>(76 + 4 * i, 1);
    Set<float>(108, 352);
    bytes_.replace(344, 4, std::string("n+1\0", 4));
  }

  template <typename T>
  File& Set(size_t at, T value) {
    bytes_.replace(at, sizeof(T), Bytes(value));
    return *this;
  }
  File& Dims(const std::vector<int16_t>& dims) {
    Set<int16_t>(40, static_cast<int16_t>(dims.size()));
    for (size_t i = 0; i < 7; ++i) {
      Set<int16_t>(42 + 2 * i, i < dims.size() ? dims[i] : int16_t{1});
    }
    return *this;
  }
  File& Type(int16_t type, int16_t bits) { return Set<int16_t>(70, type).Set<int16_t>(72, bits); }
  File& Scale(float slope, float offset) { return Set<float>(112, slope).Set<float>(116, offset); }
  File& Floats(size_t at, const std::vector<float>& values) {
    for (size_t i = 0; i < values.size(); ++i) Set<float>(at + 4 * i, values[i]);
    return *this;
  }
  template <typename T>
  std::string With(const std::vector<T>& values) const {
    std::string bytes = bytes_;
    for (const T value : values) bytes += Bytes(value);
    return bytes;
  }
  std::string bytes() const { return bytes_; }

 private:
  template <typename T>
  std::string Bytes(T value) const {
    std::string bytes(reinterpret_cast<const char*>(&value), sizeof(T));
    if (big_endian_) std::ranges::reverse(bytes);
    return bytes;
  }

  bool big_endian_;
  std::string bytes_ = std::string(352, '\0');
};

NiftiVolume Parse(const std::string& bytes, int64_t most_values = kMost) {
  return ParseNifti({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, "a.nii",
                    most_values);
}

const std::vector<uint8_t> kSix = {1, 2, 3, 4, 5, 255};

void ExpectRefused(const std::string& bytes, std::initializer_list<std::string_view> parts) {
  const std::string message = UserErrorOf([&] { Parse(bytes); });
  EXPECT_TRUE(message.starts_with("a.nii: ")) << message;
  ExpectMessage(message, parts);
}

void ExpectNear(const Affine& affine, const Affine& expected, double tolerance = 1e-6) {
  for (size_t i = 0; i < 12; ++i) {
    EXPECT_NEAR(affine[i / 4][i % 4], expected[i / 4][i % 4], tolerance) << i;
  }
}

TEST(Nifti, IsReadPlainAndCompressed) {
  const std::string file = File().With(kSix);
  for (const std::string& bytes :
       {file, Gzip(file), Gzip(file.substr(0, 100)) + Gzip(file.substr(100))}) {
    const NiftiVolume volume = Parse(bytes);
    EXPECT_EQ(volume.grid.size, (std::array<int64_t, 3>{2, 3, 1}));
    EXPECT_EQ(volume.grid.channels, 1);
    EXPECT_EQ(volume.values, (std::vector<float>{1, 2, 3, 4, 5, 255}));
  }
}

// Numbers that only the right type in the right byte order gives.
template <typename T>
void ExpectType(int16_t type, const std::vector<T>& values) {
  for (const bool big_endian : {false, true}) {
    const std::string bytes = File(big_endian)
                                  .Dims({static_cast<int16_t>(values.size()), 1, 1})
                                  .Type(type, 8 * sizeof(T))
                                  .With(values);
    EXPECT_EQ(Parse(bytes).values, std::vector<float>(values.begin(), values.end()))
        << type << " " << big_endian;
  }
}

TEST(Nifti, EachTypeIsReadInBothByteOrders) {
  ExpectType<uint8_t>(2, {0, 200, 255});
  ExpectType<int8_t>(256, {-128, -3, 127});
  ExpectType<int16_t>(4, {-32768, -1024, 258});
  ExpectType<uint16_t>(512, {0, 258, 65535});
  ExpectType<int32_t>(8, {-2147483647 - 1, 0x01020300, 5});
  ExpectType<uint32_t>(768, {4294967040u, 0x01020300u, 5u});
  ExpectType<int64_t>(1024, {-(int64_t{1} << 40), 0x01020300, 5});
  ExpectType<uint64_t>(1280, {uint64_t{1} << 63, 0x01020300, 5});
  ExpectType<float>(16, {-1.5f, 3e38f, 1e-30f});
  ExpectType<double>(64, {-1.5, 0.1, 1e-30});
}

TEST(Nifti, ValuesMayLieInTwoPieces) {
  // The decoder passes on pieces of a power of two bytes; behind a header of 353 bytes each end of
  // a piece cuts a value.
  std::vector<double> values(100'000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  std::string bytes = File().Dims({100, 100, 10}).Type(64, 64).Set<float>(108, 353).With(values);
  bytes.insert(352, 1, '\7');
  EXPECT_EQ(Parse(Gzip(bytes)).values, std::vector<float>(values.begin(), values.end()));
  EXPECT_EQ(Parse(bytes).values, std::vector<float>(values.begin(), values.end()));
}

TEST(Nifti, ValuesAreScaled) {
  const auto scaled = [](float slope, float offset) {
    return Parse(File().Scale(slope, offset).With(kSix)).values;
  };
  const std::vector<float> plain = {1, 2, 3, 4, 5, 255};
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  EXPECT_EQ(scaled(2, -1024), (std::vector<float>{-1022, -1020, -1018, -1016, -1014, -514}));
  EXPECT_EQ(scaled(-0.5f, 0), (std::vector<float>{-0.5, -1, -1.5, -2, -2.5, -127.5}));
  EXPECT_EQ(scaled(1, 7), (std::vector<float>{8, 9, 10, 11, 12, 262}));
  EXPECT_EQ(scaled(0, 7), plain);
  EXPECT_EQ(scaled(kNan, kNan), plain);
  EXPECT_EQ(scaled(kInfinite, 0), plain);
  EXPECT_EQ(scaled(1, 0), plain);
  ExpectRefused(File().Scale(2, kNan).With(kSix), {"scl_slope is 2 and scl_inter nan"});
  // The product needs more than float's 24 bits.
  const std::string large = File()
                                .Dims({1, 1, 1})
                                .Type(8, 32)
                                .Scale(1, -16777217.0f)
                                .With(std::vector<int32_t>{16777219});
  EXPECT_EQ(Parse(large).values, (std::vector<float>{3}));
}

TEST(Nifti, TheFourthOrFifthDimensionCountsChannels) {
  const auto grid = [](const std::vector<int16_t>& dims) {
    return Parse(File().Dims(dims).With(kSix)).grid;
  };
  using Size = std::array<int64_t, 3>;
  EXPECT_EQ(grid({1, 3, 1, 2}).channels, 2);
  EXPECT_EQ(grid({1, 3, 1, 2}).size, (Size{1, 3, 1}));
  EXPECT_EQ(grid({1, 1, 2, 1, 3}).channels, 3);
  EXPECT_EQ(grid({1, 2, 3, 1}).channels, 1);
  EXPECT_EQ(grid({1, 2, 1, 3, 1, 1, 1}).channels, 3);
  ExpectRefused(File().Dims({1, 1, 1, 2, 3}).With(kSix), {"1 × 1 × 1 × 2 × 3", "split it"});
  ExpectRefused(File().Dims({1, 1, 1, 1, 1, 6}).With(kSix), {"1 × 1 × 1 × 1 × 1 × 6", "split it"});
  ExpectRefused(File().Dims({2, 3}).With(kSix), {"has 2 dimensions, and volumes have three"});
  ExpectRefused(File().Dims({2, 0, 3}).With(kSix), {"announces 2 × 0 × 3", "damaged"});
  ExpectRefused(File().Dims({2, -3, -1}).With(kSix), {"announces 2 × -3 × -1", "damaged"});
  ExpectRefused(File().Set<int16_t>(40, 8).With(kSix), {"it has 8 dimensions", "damaged"});
  ExpectRefused(File().Set<int16_t>(40, -1).With(kSix), {"it has -1 dimensions", "damaged"});
}

// Expected affines are nibabel's (Nifti1Header.get_qform).
TEST(Nifti, TheQformIsARotationWithAnOffset) {
  for (const bool big_endian : {false, true}) {
    File file(big_endian);
    file.Set<int16_t>(252, 1).Floats(76, {-1, 0.7f, 1.1f, 2.5f});
    file.Floats(256, {0.1f, -0.2f, 0.3f, -90.5f, 126, -72.25f});
    const NiftiGrid grid = Parse(file.With(kSix)).grid;
    EXPECT_EQ(grid.forms->qform_code, 1);
    ExpectNear(grid.affine, {{{0.518, -0.656058857, 0.777361851, -90.5},
                              {0.361491983, 0.880000003, 0.763680946, 126},
                              {0.301661318, 0.072019603, -2.249999993, -72.25}}});
    // Lengths are positive.
    file.Floats(76, {-1, -0.7f, 1.1f, -2.5f});
    EXPECT_EQ(Parse(file.With(kSix)).grid, grid);
  }
  // Half a turn: a is 0, and rounding makes b² + c² + d² a little more than 1.
  File half;
  half.Set<int16_t>(252, 2).Floats(76, {0, 1, 2, 3}).Floats(256, {0.6f, 0, -0.8f, -90.5f, 126, 0});
  const NiftiGrid grid = Parse(half.With(kSix)).grid;
  EXPECT_TRUE(grid.forms->uses_qform());
  ExpectNear(grid.affine, {{{-0.28, 0, -2.88, -90.5}, {0, -2, 0, 126}, {-0.96, 0, 0.84, 0}}});
  ExpectRefused(half.Floats(256, {0.9f, 0.9f, 0.1f}).With(kSix),
                {"the quaternion (0.9, 0.9, 0.1)", "is no rotation"});
  ExpectRefused(half.Floats(256, {std::nanf(""), 0, 0}).With(kSix), {"is no rotation"});
}

TEST(Nifti, TheSformIsPreferredAndPixdimComesLast) {
  File file;
  file.Floats(76, {1, 2, 3, 4}).Floats(256, {0, 0, 0, 10, 20, 30});
  file.Floats(280, {-1, 0.5, 0, 7, 0.25, 1, 0, 8, 0, 0, -5, 9});
  const Affine plain = {{{2, 0, 0, 0}, {0, 3, 0, 0}, {0, 0, 4, 0}}};
  const Affine qform = {{{2, 0, 0, 10}, {0, 3, 0, 20}, {0, 0, 4, 30}}};
  const Affine sform = {{{-1, 0.5, 0, 7}, {0.25, 1, 0, 8}, {0, 0, -5, 9}}};
  const auto grid = [&] { return Parse(file.With(kSix)).grid; };
  EXPECT_EQ(grid().affine, plain);
  EXPECT_FALSE(grid().forms->uses_qform() || grid().forms->uses_sform());
  file.Set<int16_t>(252, 3);
  EXPECT_EQ(grid().affine, qform);
  EXPECT_TRUE(grid().forms->uses_qform());
  file.Set<int16_t>(254, 4);
  EXPECT_EQ(grid().affine, sform);
  EXPECT_TRUE(grid().forms->uses_sform());
  file.Set<int16_t>(254, -1);
  EXPECT_EQ(grid().affine, qform);

  EXPECT_EQ(SpacingOf(qform), (std::array<double, 3>{2, 3, 4}));
  EXPECT_NEAR(SpacingOf(sform)[0], std::sqrt(1.0625), 1e-15);
  EXPECT_NEAR(SpacingOf(sform)[1], std::sqrt(1.25), 1e-15);
}

TEST(Nifti, LengthsBecomeMillimetres) {
  for (const bool sform : {false, true}) {
    for (const auto& [unit, millimetres] :
         {std::pair(0, 1.0), std::pair(1, 1e3), std::pair(2, 1.0), std::pair(3, 1e-3)}) {
      File file;
      file.Set<int16_t>(254, sform ? 1 : 0).Floats(76, {1, 2, 3, 4});
      file.Floats(280, {2, 0, 0, 7, 0, 3, 0, 8, 0, 0, 4, 9});
      file.Set<uint8_t>(123, static_cast<uint8_t>(unit | 8));  // and seconds
      const double s = millimetres, place = sform ? s : 0;
      ExpectNear(Parse(file.With(kSix)).grid.affine,
                 {{{2 * s, 0, 0, 7 * place}, {0, 3 * s, 0, 8 * place}, {0, 0, 4 * s, 9 * place}}},
                 1e-9 * s);
    }
  }
  ExpectRefused(File().Set<uint8_t>(123, 5).With(kSix), {"no unit of lengths 5"});
}

TEST(Nifti, VoxelsMustHaveAVolume) {
  ExpectRefused(File().Floats(76, {1, 1, 0, 1}).With(kSix), {"spacing (pixdim)", "no volume"});
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  ExpectRefused(File().Floats(76, {1, 1, kInfinite, 1}).With(kSix), {"no volume"});
  ExpectRefused(File().Set<int16_t>(252, 1).Floats(76, {1, 0, 1, 1}).With(kSix),
                {"its qform", "no volume"});
  File sform;
  sform.Set<int16_t>(254, 1);
  ExpectRefused(sform.With(kSix), {"its sform gives voxels no volume (0 0 0 0; 0 0 0 0; 0 0 0 0)"});
  sform.Floats(280, {1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 1, 0});
  ExpectRefused(sform.With(kSix), {"its sform", "(1 1 0 0; 1 1 0 0; 0 0 1 0)"});
  sform.Floats(280, {1, 0, 0, std::nanf(""), 0, 1, 0, 0, 0, 0, 1, 0});
  ExpectRefused(sform.With(kSix), {"its sform", "no volume"});
  sform.Floats(280, {1, 0, 0, 0, 0, 1});
  EXPECT_NO_THROW(Parse(sform.With(kSix)));
}

TEST(Nifti, OtherFilesAreRefusedWithAWayOut) {
  ExpectRefused("PK\3\4 and more of it", {"is no NIfTI-1 file", "50 4b 03 04", ".nii.gz"});
  ExpectRefused(Xz(File().With(kSix)), {"another program than gzip"});
  File nifti2, nifti2_big(true), pair, analyze;
  nifti2.Set<int32_t>(0, 540);
  nifti2_big.Set<int32_t>(0, 540);
  ExpectRefused(nifti2.With(kSix), {"NIfTI-2", "nib-convert --image-type Nifti1Image a.nii"});
  ExpectRefused(nifti2_big.With(kSix), {"NIfTI-2"});
  pair.Set<uint32_t>(344, 0x0031696e);
  ExpectRefused(pair.bytes(), {"a pair of files, .hdr and .img", "nib-convert"});
  analyze.Set<uint32_t>(344, 0);
  ExpectRefused(analyze.bytes(), {"ANALYZE", "nib-convert"});
  const std::string values(1000, '\5');
  ExpectUserError(
      [&] {
        ParseNifti({reinterpret_cast<const uint8_t*>(values.data()), 1000}, "b.img", kMost);
      },
      {"b.img: is one of a pair of files", "nib-convert"});
}

TEST(Nifti, OtherTypesAreRefusedByName) {
  for (const auto& [type, bits, name] :
       {std::tuple<int16_t, int16_t, std::string_view>{1, 1, "bits"},
        {32, 64, "complex64"},
        {128, 24, "RGB colours"},
        {1536, 128, "float128"},
        {1792, 128, "complex128"},
        {2048, 256, "complex256"},
        {2304, 32, "RGBA colours"}}) {
    ExpectRefused(File().Type(type, bits).With(kSix),
                  {"its values are ", name, "write it again as float32"});
  }
  ExpectRefused(File().Type(3, 8).With(kSix), {"no type of values 3"});
  ExpectRefused(File().Type(0, 8).With(kSix), {"no type of values 0"});
  ExpectRefused(File().Type(2, 16).With(kSix), {"contradicts itself", "uint8", "16 bits"});
}

TEST(Nifti, MustHaveTheSizeThatItAnnounces) {
  const std::string whole = File().Type(4, 16).With(std::vector<int16_t>{1, 2, 3, 4, 5, 6});
  for (size_t size = 0; size < whole.size(); ++size) {
    ExpectRefused(whole.substr(0, size), {"truncated", "copy the file again"});
    ExpectRefused(Gzip(whole.substr(0, size)), {"truncated", "copy the file again"});
  }
  ExpectRefused(whole.substr(0, 359), {"12 bytes of values, and at least 5 bytes are missing"});
  ExpectRefused(whole + "x", {"more bytes after the 12 of the values"});
  ExpectRefused(Gzip(whole + "x"), {"more bytes after the 12 of the values"});
  const std::string zipped = Gzip(whole);
  ExpectRefused(zipped.substr(0, zipped.size() - 9), {"truncated"});
  std::string damaged = zipped;
  damaged[damaged.size() - 6] ^= 1;  // of the checksum
  ExpectRefused(damaged, {"damaged"});
}

TEST(Nifti, ValuesBeginBehindTheHeader) {
  std::string extended = File().Set<float>(108, 368).With(kSix);
  extended.insert(352, 16, 'e');
  EXPECT_EQ(Parse(extended).values, (std::vector<float>{1, 2, 3, 4, 5, 255}));
  for (const float begin :
       {0.0f, 348.0f, 351.0f, -352.0f, 352.5f, 1e20f, std::nanf(""), HUGE_VALF}) {
    ExpectRefused(File().Set<float>(108, begin).With(kSix), {"vox_offset", "damaged"});
  }
  ExpectRefused(File().Set<float>(108, 400).With(kSix), {"truncated"});
}

// Headers can announce 2^60 values.
TEST(Nifti, OfALyingHeaderTakesNoMemory) {
  for (const int16_t type : {int16_t{2}, int16_t{64}}) {
    File file;
    file.Dims({32767, 32767, 32767, 32767}).Type(type, type == 2 ? 8 : 64);
    ExpectRefused(file.With(kSix), {"32767 × 32767 × 32767 × 32767 = 1152780773560811521 values",
                                    "at most 1048576 are read", "crop or resample"});
    constexpr int64_t kAll = std::numeric_limits<int64_t>::max();
    ExpectUserError([&] { Parse(file.With(kSix), kAll); }, {"a.nii: truncated"});
    ExpectUserError([&] { Parse(Gzip(file.With(kSix)), kAll); }, {"a.nii: truncated"});
  }
  EXPECT_NO_THROW(Parse(File().With(kSix), 6));
  ExpectUserError([] { Parse(File().With(kSix), 5); }, {"2 × 3 × 1 = 6 values (24 B", "at most 5"});
  // What gzip can hold at most is allowed: zeros.
  const std::string zeros = File().Dims({100, 100, 100}).With(std::vector<uint8_t>(1'000'000));
  EXPECT_EQ(Parse(Gzip(zeros)).values.size(), 1'000'000u);
}

// The most address space that the process has had, in bytes.
int64_t PeakSpace() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmPeak:")) return 1024 * std::stoll(line.substr(7));
  }
  return 0;
}

// A compressed file may be large enough for what its header announces, and have less.
TEST(Nifti, RoomGrowsWithTheValuesThatArrive) {
  std::vector<uint8_t> noise(1'100'000);
  uint32_t state = 1;
  for (uint8_t& byte : noise)
    byte = static_cast<uint8_t>((state = state * 1664525 + 1013904223) >> 24);
  const std::string zipped = Gzip(File().Dims({1024, 1024, 1024}).With(noise));
  const int64_t before = PeakSpace();
  ExpectUserError([&] { Parse(zipped, int64_t{1} << 40); },
                  {"truncated", "announces 1073741824 bytes of values", "are missing"});
  EXPECT_LT(PeakSpace() - before, int64_t{1} << 30);  // of 4 GiB
}

TEST(Nifti, TheGridIsReadByItself) {
  const TempFolder folder;
  const std::string whole = File().With(kSix);
  EXPECT_EQ(ReadNiftiGrid(folder.Write("a.nii", whole), kMost), Parse(whole).grid);
  EXPECT_EQ(ReadNiftiGrid(folder.Write("a.nii.gz", Gzip(whole)), kMost), Parse(whole).grid);
  ExpectUserError([&] { ReadNiftiGrid(folder.Write("b.nii", whole.substr(0, 357)), kMost); },
                  {"/b.nii: truncated", "at least 1 byte is missing"});
  ExpectUserError([&] { ReadNiftiGrid(folder.Write("c.nii", whole.substr(0, 300)), kMost); },
                  {"/c.nii: truncated"});
  ExpectUserError([&] { ReadNiftiGrid(folder.Write("d.nii.gz", Gzip(whole)), 5); }, {"at most 5"});
  ExpectUserError([&] { ReadNiftiGrid(folder.Write("e.nii.gz", Gzip("x")), 5); }, {"/e.nii.gz"});
}

NiftiGrid Grid() {
  return {.size = {2, 3, 1},
          .channels = 2,
          .affine = {{{0.518, -0.656058857, 0.777361851, -90.5},
                      {0.361491983, 0.880000003, 0.763680946, 126},
                      {0.301661318, 0.072019603, -2.249999993, -72.25}}}};
}

TEST(Nifti, WhatIsWrittenIsReadAgain) {
  const TempFolder folder;
  const std::vector<float> values = {-3, 2, 1e6, 4, 5, 6, 7, 8, 9.5, 10, 11, 12};
  const std::vector<int16_t> integers = {-32768, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 32767};
  const std::vector<uint8_t> bytes = {0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 255};
  for (const char* name : {"a.nii", "b.nii.gz"}) {
    const std::string path = folder / name;
    const auto read = [&] {
      NiftiVolume volume = ReadNifti(path, kMost);
      ExpectNear(volume.grid.affine, Grid().affine);
      volume.grid.affine = Grid().affine;
      EXPECT_EQ(volume.grid, Grid());
      return volume.values;
    };
    WriteNifti(path, Grid(), std::span<const float>(values));
    EXPECT_EQ(read(), values);
    WriteNifti(path, Grid(), std::span<const int16_t>(integers));
    EXPECT_EQ(read(), std::vector<float>(integers.begin(), integers.end()));
    WriteNifti(path, Grid(), std::span<const uint8_t>(bytes));
    EXPECT_EQ(read(), std::vector<float>(bytes.begin(), bytes.end()));
  }
  EXPECT_EQ(folder.Read("a.nii").size(), 352u + 12);
  EXPECT_EQ(folder.Read("b.nii.gz").substr(0, 2), "\x1f\x8b");
  EXPECT_EQ(folder.Names(), (std::vector<std::string>{"a.nii", "b.nii.gz"}));
}

// Programs that prefer the qform find the affine in it, too. With one in four rotations each
// component of the quaternion is the largest.
TEST(Nifti, TheQformWrittenIsTheSform) {
  const TempFolder folder;
  const std::string path = folder / "a.nii";
  const std::vector<uint8_t> values(12);
  for (const float sign : {1.0f, -1.0f}) {
    for (const std::vector<float>& bcd : std::vector<std::vector<float>>{{0, 0, 0},
                                                                         {0.1f, -0.2f, 0.3f},
                                                                         {0.9f, 0.2f, -0.3f},
                                                                         {-0.9f, 0.2f, 0.3f},
                                                                         {0.3f, 0.9f, 0.2f},
                                                                         {-0.1f, -0.9f, 0.2f},
                                                                         {0.3f, 0.2f, 0.9f},
                                                                         {0.2f, -0.1f, -0.9f},
                                                                         {1, 0, 0},
                                                                         {0, 1, 0},
                                                                         {0, 0, 1},
                                                                         {0.6f, 0, -0.8f}}) {
      File file;
      file.Set<int16_t>(252, 1).Floats(76, {sign, 0.7f, 1.1f, 2.5f}).Floats(256, bcd);
      NiftiGrid grid = Grid();
      grid.affine = Parse(file.With(kSix)).grid.affine;
      WriteNifti(path, grid, std::span<const uint8_t>(values));
      std::string written = folder.Read("a.nii");
      const auto code = [&](size_t at) { return static_cast<int>(written[at]); };
      EXPECT_EQ(code(252), 1);
      EXPECT_EQ(code(254), 1);
      written[254] = 0;
      ExpectNear(Parse(written).grid.affine, grid.affine);
    }
  }
  NiftiGrid sheared = Grid();
  sheared.affine = {{{1, 0.5, 0, 7}, {0, 1, 0, 8}, {0, 0, 5, 9}}};
  WriteNifti(path, sheared, std::span<const uint8_t>(values));
  EXPECT_EQ(folder.Read("a.nii")[252], 0);
  EXPECT_EQ(ReadNifti(path, kMost).grid.affine, sheared.affine);
}

// The fields by which programs find voxels: dim, pixdim, xyzt_units, codes and both forms. A file
// with the fields of another has its affine in every program; nibabel's for these is in
// tests/data/check_with_nibabel.py.
std::vector<std::string> FormFields(const std::string& header) {
  return {header.substr(42, 6), header.substr(76, 16), header.substr(123, 1),
          header.substr(252, 76)};
}

TEST(Nifti, AFileIsWrittenWithTheFormsOfTheOneThatWasRead) {
  const TempFolder folder;
  const std::string path = folder / "a.nii";
  for (const auto& [qform, sform] :
       {std::pair<int16_t, int16_t>{0, 0}, {1, 0}, {0, 2}, {1, 1}, {4, 2}, {-1, 0}}) {
    for (const uint8_t units : {uint8_t{2}, uint8_t{3}, uint8_t{0}, uint8_t{1 | 8}}) {
      for (const float qfac : {1.0f, -1.0f, 0.0f}) {
        for (const bool big_endian : {false, true}) {
          const auto make = [&, q = qform, s = sform](bool big) {
            File file(big);
            file.Set<int16_t>(252, q).Set<int16_t>(254, s).Set<uint8_t>(123, units);
            file.Floats(76, {qfac, 0.7f, 1.1f, 2.5f}).Floats(256, {0.1f, -0.2f, 0.3f});
            file.Floats(268, {-90.5f, 126, -72.25f});
            return file.Floats(280, {-1, 0.5f, 0, 7, 0.25f, 1, 0, 8, 0, 0, -5, 9}).With(kSix);
          };
          NiftiGrid grid = Parse(make(big_endian)).grid;
          WriteNifti(path, grid, std::span<const uint8_t>(kSix));
          EXPECT_EQ(FormFields(folder.Read("a.nii")), FormFields(make(false)))
              << qform << " " << sform << " " << int{units} << " " << qfac;
          EXPECT_EQ(ReadNifti(path, kMost).grid, grid);

          // Moved, as a part of the volume is, it is written where it is, in millimetres.
          grid.affine[0][3] += 5;
          WriteNifti(path, grid, std::span<const uint8_t>(kSix));
          const std::string moved = folder.Read("a.nii");
          ExpectNear(ReadNifti(path, kMost).grid.affine, grid.affine, 1e-2);
          EXPECT_EQ(moved[123], 2);
          EXPECT_EQ(moved[254], sform > 0 ? sform : std::max<int16_t>(qform, 1));
        }
      }
    }
  }
}

TEST(Nifti, FilesThatCannotBeAreNotWritten) {
  const TempFolder folder;
  const std::vector<uint8_t> values(12);
  const std::span<const uint8_t> bytes = values;
  ExpectUserError([&] { WriteNifti(folder / "a.img", Grid(), bytes); },
                  {"a.img: ", "end its name with .nii"});
  ExpectUserError([&] { WriteNifti(folder / "no/a.nii", Grid(), bytes); }, {"no/a.nii: "});
  NiftiGrid grid = Grid();
  EXPECT_THROW(WriteNifti(folder / "a.nii", grid, bytes.first(11)), InternalError);
  grid.size = {32768, 1, 1};
  grid.channels = 1;
  const std::vector<uint8_t> many(32768);
  ExpectUserError([&] { WriteNifti(folder / "a.nii", grid, std::span<const uint8_t>(many)); },
                  {"a.nii: ", "32768 × 1 × 1"});
  EXPECT_EQ(folder.Names(), std::vector<std::string>{});
}

}  // namespace
}  // namespace plimsoll::formats
