#include "snapshots/snapshot.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <tuple>

#include "base/crc32c.h"
#include "base/mapped_file.h"

namespace plimsoll::snapshots {
namespace {

// How many pieces ahead the system is told what will be read.
constexpr size_t kAhead = 8;

// Of threads that only read and compute checksums.
constexpr unsigned kMostThreads = 16;
constexpr size_t kBufferBytes = size_t{256} << 10;

struct Piece {
  size_t slice = 0;   // of the list
  size_t number = 0;  // of all pieces, slice by slice
  int64_t at = 0;     // of the slice's bytes
  int64_t bytes = 0;
};

// The checksums of slices that are read in pieces, in any order.
class Checksums {
 public:
  explicit Checksums(const std::vector<Piece> &pieces, size_t slices)
      : crcs_(pieces.size()), ranges_(slices), left_(slices) {
    for (const Piece &piece : pieces) {
      Range &range = ranges_[piece.slice];
      if (range.bytes.empty()) range.first = piece.number;
      range.bytes.push_back(static_cast<uint64_t>(piece.bytes));
      ++left_[piece.slice];
    }
  }

  // Whether this was the slice's last piece.
  bool Add(const Piece &piece, uint32_t crc) {
    crcs_[piece.number] = crc;
    return --left_[piece.slice] == 0;  // makes the others' visible
  }

  uint32_t Of(size_t slice) const {
    const Range &range = ranges_[slice];
    uint32_t crc = 0;
    for (size_t i = 0; i < range.bytes.size(); ++i) {
      crc = CombineCrc32c(crc, crcs_[range.first + i], range.bytes[i]);
    }
    return crc;
  }

 private:
  struct Range {
    size_t first = 0;  // piece
    std::vector<uint64_t> bytes;
  };
  std::vector<uint32_t> crcs_;
  std::vector<Range> ranges_;
  std::vector<std::atomic<size_t>> left_;
};

}  // namespace

Snapshot::Snapshot(const std::string &path) : path_(path) {
  const std::string file = path + "/" + kManifestFile;
  manifest_ = ParseManifest(MappedFile(file).text(), file);
  for (size_t i = 0; i < manifest_.shards.size(); ++i) shards_.emplace_back(path, manifest_, i);
}

void Snapshot::Read(const TensorRecord &tensor, const Slice &slice, std::span<std::byte> to) const {
  shards_[static_cast<size_t>(slice.shard)].Read(tensor, to);
}

void Snapshot::Read(std::span<const TensorSlice> slices, std::span<const StagingBuffer> buffers,
                    ThreadPool &pool, TakePiece take) const {
  const int64_t most = buffers.empty() ? 1 : static_cast<int64_t>(buffers.front().bytes.size());
  std::vector<Piece> pieces;
  for (size_t i = 0; i < slices.size(); ++i) {
    const int64_t size = formats::TypeBytes(slices[i].tensor->type);
    const int64_t bytes = slices[i].slice->elements * size;
    const int64_t step = std::max(most / size * size, size);  // whole elements
    for (int64_t at = 0; at < bytes; at += step) {
      pieces.push_back({i, pieces.size(), at, std::min(step, bytes - at)});
    }
  }
  Checksums checksums(pieces, slices.size());
  const auto shard_of = [&](const Piece &piece) -> const ShardReader & {
    return shards_[static_cast<size_t>(slices[piece.slice].slice->shard)];
  };
  std::ranges::stable_sort(pieces, {}, [&](const Piece &piece) {
    const TensorSlice &of = slices[piece.slice];
    return std::tuple(of.slice->shard, shard_of(piece).PlaceOf(*of.tensor), piece.at);
  });
  const auto will_read = [&](size_t i) {
    if (i >= pieces.size()) return;
    const Piece &piece = pieces[i];
    shard_of(piece).WillRead(*slices[piece.slice].tensor, piece.at, piece.bytes);
  };
  for (size_t i = 0; i < kAhead; ++i) will_read(i);
  ForEachStaged(pool, buffers, pieces.size(), [&](size_t i, StagingTurns &turns) {
    will_read(i + kAhead);
    const Piece &piece = pieces[i];
    const ShardReader &shard = shard_of(piece);
    const TensorRecord &tensor = *slices[piece.slice].tensor;
    const std::span<std::byte> bytes = turns.Next().first(static_cast<size_t>(piece.bytes));
    shard.ReadPiece(tensor, piece.at, bytes);
    const uint32_t crc = Crc32c(bytes);
    take(piece.slice, piece.at, bytes);
    if (checksums.Add(piece, crc)) shard.CompareChecksum(tensor, checksums.Of(piece.slice));
  });
}

void Snapshot::Verify() const {
  std::vector<TensorSlice> slices;
  for (const TensorRecord &tensor : manifest_.tensors) {
    for (const Slice &slice : tensor.slices) slices.push_back({&tensor, &slice});
  }
  ThreadPool pool(
      static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, kMostThreads)));
  const HostStaging staging(pool.size(), kBufferBytes);
  Read(slices, staging.buffers(), pool, [](size_t, int64_t, std::span<const std::byte>) {});
}

}  // namespace plimsoll::snapshots
