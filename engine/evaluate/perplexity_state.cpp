// Where a measurement stands, on disk.
//
//   magic "CRIAPPLX" · u32 version · u32 n windows done · u64 identity of model, text, windows and
//   base · MeanVariance · Divergence::Sums · u64 n · n divergences (f32) · n differences of
//   probabilities (f32) · u64 checksum of all before it (little-endian)
#include <cstring>

#include "engine/evaluate/perplexity.h"
#include "engine/fingerprint.h"
#include "model/file/binary_file.h"
#include "model/plural.h"

namespace cria {
namespace {

constexpr char kStateMagic[8] = {'C', 'R', 'I', 'A', 'P', 'P', 'L', 'X'};
constexpr std::uint32_t kStateVersion = 2;

struct StateHeader {
  char magic[8];
  std::uint32_t version, n_done;
  std::uint64_t identity;
  MeanVariance surprise;
  Divergence::Sums sums;
  std::uint64_t n_values;
};
static_assert(sizeof(StateHeader) == 32 + 8 * sizeof(MeanVariance) && sizeof(MeanVariance) == 24);

}  // namespace

std::uint64_t Perplexity::identity() const {
  Hash hash;
  hash.add_number(
      computation_fingerprint(session_.model(), session_.graph(), session_.options().rope_ctx));
  hash.add_number(static_cast<std::uint64_t>(session_.options().kv_type));
  hash.add_number((std::uint64_t{options_.stride} << 32) | options_.window);
  hash.add(text_.data(), text_.size_bytes());
  hash.add_number(base_ != nullptr ? base_->fingerprint() : std::uint64_t{0});
  return hash.value();
}

void Perplexity::save(const std::string& path) const {
  StateHeader header{};
  std::memcpy(header.magic, kStateMagic, sizeof kStateMagic);
  header.version = kStateVersion;
  header.n_done = static_cast<std::uint32_t>(done_);
  header.identity = identity();
  header.surprise = surprise_;
  header.sums = divergence_.sums;
  header.n_values = divergence_.klds.size();
  BinaryWriter out(path);
  out.write_number(header);
  out.write(divergence_.klds.data(), divergence_.klds.size() * sizeof(float));
  out.write(divergence_.delta_ps.data(), divergence_.delta_ps.size() * sizeof(float));
  out.write_checksum();
  out.finish();
}

void Perplexity::load(const std::string& path) {
  BinaryReader in(path);
  in.expect(in.size() >= sizeof(StateHeader), "no state of a perplexity: too short");
  const auto header = in.read_number<StateHeader>();
  in.expect(std::memcmp(header.magic, kStateMagic, sizeof kStateMagic) == 0,
            "no state of a perplexity", "at byte 0");
  in.expect_equal("version", kStateVersion, header.version, "at byte 8");
  in.expect(header.identity == identity(),
            "state of another measurement: model, text, windows or base differ", "at byte 16");
  in.expect(header.n_done <= windows_.size(),
            "more windows are done than wanted: expected at most " +
                std::to_string(windows_.size()) + ", got " + std::to_string(header.n_done),
            "at byte 12");
  in.expect_equal("number of compared tokens", base_ != nullptr ? header.surprise.n : 0,
                  header.n_values);
  in.expect(header.n_values <= in.size() / (2 * sizeof(float)),  // else their size might wrap
            "too short for " + counted(header.n_values, "compared token") + ": got " +
                counted(in.size(), "byte"));
  in.expect_equal("wrong size in bytes",
                  sizeof(StateHeader) + header.n_values * 2 * sizeof(float) + sizeof(std::uint64_t),
                  in.size());
  Divergence divergence{header.sums, std::vector<float>(header.n_values),
                        std::vector<float>(header.n_values)};
  in.read(divergence.klds.data(), divergence.klds.size() * sizeof(float));
  in.read(divergence.delta_ps.data(), divergence.delta_ps.size() * sizeof(float));
  in.check_checksum();
  done_ = header.n_done;
  surprise_ = header.surprise;
  divergence_ = std::move(divergence);
}

}  // namespace cria
