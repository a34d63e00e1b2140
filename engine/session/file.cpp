// Sessions on disk: tokens, and the keys and values of their positions.
//
//   magic "CRIASESS" · u32 version · u32 KV type · u64 fingerprint of the model · u64 n · u64 m ·
//   n token ids (i32) · the bytes of KvPool::for_used_bytes(n) · m bytes of note ·
//   u64 checksum of all before it (little-endian)
#include <cstring>

#include "engine/fingerprint.h"
#include "engine/session/state.h"
#include "model/file/binary_file.h"
#include "model/plural.h"

namespace cria {
namespace {

constexpr char kMagic[8] = {'C', 'R', 'I', 'A', 'S', 'E', 'S', 'S'};
constexpr std::uint32_t kVersion = 4;
constexpr std::uint64_t kNoteBytes = 64 << 20;

struct Header {
  char magic[8];
  std::uint32_t version, kv_type;
  std::uint64_t model, n_tokens, note_bytes;
};
static_assert(sizeof(Header) == 40);

Header header_of(const Session::State& state, std::uint64_t note_bytes) {
  const auto kv_type = static_cast<std::uint32_t>(state.options.kv_type);
  Header header{
      {},
      kVersion,
      kv_type,
      computation_fingerprint(state.model(), state.engine.graph(), state.options.rope_ctx),
      state.sequence.tokens().size(),
      note_bytes};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  return header;
}

// Bytes of a file with n tokens, but for the checksum.
std::uint64_t content_bytes(const Session::State& state, std::uint64_t n,
                            std::uint64_t note_bytes) {
  std::uint64_t bytes = sizeof(Header) + n * sizeof(TokenId) + note_bytes;
  state.engine.state().pool.for_used_bytes(
      nullptr, n, [&](const std::byte*, std::size_t size) { bytes += size; });
  return bytes;
}

void check_header(const Header& header, const Session::State& state, const BinaryReader& in) {
  const Header own = header_of(state, 0);
  in.expect(std::memcmp(header.magic, own.magic, sizeof own.magic) == 0,
            "not a session file of cria", "at byte 0");
  // Older ones do not say which RoPE factors their keys were made with, or hold Q8_0 in another
  // order.
  in.expect_equal("saved by another version of cria: version", kVersion, header.version,
                  "at byte 8");
  in.expect_equal("saved with another KV type", own.kv_type, header.kv_type, "at byte 12");
  in.expect(header.model == own.model,
            "saved with another model than " + state.model().file().path() +
                ", or with other RoPE factors or metadata",
            "at byte 16");
  in.expect(header.n_tokens <= state.options.n_ctx,
            "does not fit into the context: expected at most " +
                counted(state.options.n_ctx, "token") + ", got " + std::to_string(header.n_tokens),
            "at byte 24");
  in.expect(header.note_bytes <= kNoteBytes,
            "damaged: expected a note of at most " + std::to_string(kNoteBytes) + " bytes, got " +
                std::to_string(header.note_bytes),
            "at byte 32");
  in.expect_equal("wrong size in bytes",
                  content_bytes(state, header.n_tokens, header.note_bytes) + sizeof(std::uint64_t),
                  in.size());
}

// Keys and values of other ranks' heads are not here.
void refuse_ranks(const Session::State& state, const std::string& path) {
  if (state.engine.state().led)
    throw Error(path, "a session's file cannot be written or read where several ranks compute");
}

}  // namespace

void Session::save(const std::string& path, std::string_view note) const {
  refuse_ranks(*state_, path);
  if (note.size() > kNoteBytes)
    throw Error(path, "cannot write: expected a note of at most " + std::to_string(kNoteBytes) +
                          " bytes, got " + std::to_string(note.size()));
  for (const std::string& model : state_->model().file().paths()) require_other_file(model, path);
  BinaryWriter out(path);
  out.write_number(header_of(*state_, note.size()));
  const Sequence::State& sequence = state_->sequence.state();
  out.write(sequence.tokens.data(), sequence.tokens.size() * sizeof(TokenId));
  sequence.engine.pool.for_used_bytes(
      &sequence.tables, sequence.tokens.size(),
      [&](const std::byte* data, std::size_t size) { out.write(data, size); });
  out.write(note.data(), note.size());
  out.write_checksum();
  out.finish();
}

std::string Session::load(const std::string& path) {
  refuse_ranks(*state_, path);
  BinaryReader in(path);
  in.expect(in.size() >= sizeof(Header), "not a session file of cria: too short");
  const auto header = in.read_number<Header>();
  check_header(header, *state_, in);
  std::vector<TokenId> tokens(header.n_tokens);
  std::string note(header.note_bytes, '\0');
  Sequence::State& sequence = state_->sequence.state();
  sequence.truncate(0);  // from here on the cache is overwritten
  try {
    sequence.make_room(tokens.size());
    sequence.drop_unseen(tokens.size());  // the file has no keys and values for them
    in.read(tokens.data(), tokens.size() * sizeof(TokenId));
    sequence.engine.pool.for_used_bytes(
        &sequence.tables, tokens.size(),
        [&](std::byte* to, std::size_t size) { in.read(to, size); });
    in.read(note.data(), note.size());
    in.check_checksum();
    sequence.check(tokens);
  } catch (...) {  // behind a window pages are missing, which only the tokens tell
    sequence.truncate(0);
    throw;
  }
  sequence.append(tokens);
  return note;
}

}  // namespace cria
