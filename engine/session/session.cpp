// One conversation: an engine with one sequence, and a scheduler that answers on it.
//
// A session file holds tokens and the keys and values of their positions (little-endian):
//   magic "CRIASESS" · u32 version · u32 KV type · u64 fingerprint of the model · u64 n · u64 m ·
//   n token ids (i32) · the bytes of KvPool::for_used_bytes(n) · m bytes of note ·
//   u64 checksum of all before it
#include "engine/session.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/model_parts.h"
#include "engine/scheduler.h"
#include "engine/session/engine_state.h"
#include "kernels/simd/float_mode.h"
#include "model/file/binary_file.h"
#include "model/plural.h"
#include "tokenizer/chat/transcript.h"

namespace cria {

struct Session::State {
  Engine engine;
  Sequence sequence;
  Batch batch;
  std::size_t first_wanted = 0;  // first requested token of the batch
  Scheduler scheduler;
  std::shared_ptr<const ChatTemplate> chat_template;  // the model's, after the first chat()
  Transcript transcript;                              // transcript of chat()

  State(const Model& model, const SessionOptions& options)
      : engine(model, options), sequence(engine), batch(engine), scheduler(engine) {}

  std::shared_ptr<const ChatTemplate> template_for(const ChatOptions& how);
  /// Evaluates tokens in batches; calls on_logits(index, logits) for tokens from first_wanted on.
  template <class OnLogits>
  void eval(std::span<const TokenId> added, std::size_t first_wanted, OnLogits&& on_logits);
  void forward(std::span<const TokenId> added, std::size_t first_wanted);
  /// Throws Error for NaN or infinity. token: the first that the logits belong to, in the batch.
  void check_finite(std::span<const float> logits, std::size_t token);
  GenerateResult answer(AnswerRequest request, const TextSink& sink);
};

namespace {

// A session truncates its text for good: nothing of it is cached.
EngineOptions one_sequence(EngineOptions options) {
  options.sequences = 1;
  options.positions = options.prefix_cache_bytes = 0;
  options.prefix_cache = false;
  return options;
}

}  // namespace

EngineMemory session_memory(const Model& model, const SessionOptions& options) {
  return engine_memory(model, one_sequence(options));
}

Session::Session(const Model& model, const SessionOptions& options)
    : state_(std::make_unique<State>(model, one_sequence(options))) {}
Session::~Session() = default;

void Session::State::forward(std::span<const TokenId> added, std::size_t wanted) {
  if (wanted < added.size()) check_output(engine.model(), std::nullopt);
  batch.clear();
  batch.add(sequence, added, wanted);
  batch.forward();
  first_wanted = wanted;
}

void Session::State::check_finite(std::span<const float> logits, std::size_t token) {
  if (!all_finite(logits))
    throw engine.not_finite(sequence, sequence.tokens().size() - batch.size() + token);
}

template <class OnLogits>
void Session::State::eval(std::span<const TokenId> added, std::size_t wanted,
                          OnLogits&& on_logits) {
  sequence.check(added);
  const std::size_t before = sequence.tokens().size();
  try {
    const std::size_t n_batch = engine.options().n_batch;
    for (std::size_t done = 0; done < added.size(); done += n_batch) {
      const std::size_t n = std::min(n_batch, added.size() - done);
      forward(added.subspan(done, n), wanted <= done ? 0 : std::min(n, wanted - done));
      batch.for_each_row(0, n - first_wanted, [&](std::size_t row, std::span<const float> logits) {
        check_finite(logits, first_wanted + row);
        on_logits(done + first_wanted + row, logits);
      });
    }
  } catch (...) {  // in a later batch, or of on_logits
    sequence.truncate(std::min(before, sequence.tokens().size()));
    throw;
  }
}

std::span<const float> Session::eval(std::span<const TokenId> tokens) {
  std::span<const float> last;
  if (tokens.empty()) return last;
  state_->eval(tokens, tokens.size() - 1,
               [&last](std::size_t, std::span<const float> logits) { last = logits; });
  return last;
}

void Session::eval_all(std::span<const TokenId> tokens,
                       const std::function<void(std::size_t, std::span<const float>)>& sink) {
  state_->eval(tokens, sink ? 0 : tokens.size(), sink);
}

void Session::forward(std::span<const TokenId> tokens, std::size_t first_wanted) {
  state_->forward(tokens, first_wanted);
}

std::span<const float> Session::logits(std::size_t begin, std::size_t end) {
  const std::size_t first = state_->first_wanted;
  const std::span<const float> rows = state_->batch.logits(begin - first, end - first);
  state_->check_finite(rows, begin);
  return rows;
}

std::size_t Session::logit_rows() const noexcept { return state_->engine.logit_rows(); }

void Session::parallel(std::size_t n, const std::function<void(std::size_t)>& f) {
  state_->engine.parallel(n, f);
}

std::span<const TokenId> Session::tokens() const noexcept { return state_->sequence.tokens(); }
std::size_t Session::truncate(std::size_t n) { return state_->sequence.truncate(n); }

// The loop of steps is the scheduler's. If it fails, drafts may be among what was evaluated.
GenerateResult Session::State::answer(AnswerRequest request, const TextSink& sink) {
  const DefaultFloatMode mode;
  const std::vector<TokenId> before(sequence.tokens().begin(), sequence.tokens().end());
  GenerateResult answer;
  std::exception_ptr failed;
  request.sink = sink;
  request.sequence = &sequence;
  request.on_error = [&failed](const std::exception_ptr& error) { failed = error; };
  request.on_end = [&answer](GenerateResult result, const std::optional<Error>&) {
    answer = std::move(result);
  };
  try {
    const std::atomic<bool>* const interrupt = request.options.interrupt;
    scheduler.add(std::move(request));
    while (scheduler.step(interrupt)) continue;
    if (failed) std::rethrow_exception(failed);
  } catch (...) {
    scheduler.clear();
    sequence.truncate(common_prefix(sequence.tokens(), before));
    throw;
  }
  return answer;
}

GenerateResult Session::generate(std::span<const TokenId> prompt, const GenerateOptions& options,
                                 const TextSink& sink) {
  AnswerRequest request;
  request.prompt.assign(prompt.begin(), prompt.end());
  request.options = options;
  return state_->answer(std::move(request), sink);
}

std::shared_ptr<const ChatTemplate> Session::State::template_for(const ChatOptions& how) {
  if (how.chat_template) return how.chat_template;
  if (!chat_template)
    chat_template = std::make_shared<const ChatTemplate>(
        ChatTemplate::from_vocabulary(engine.model().vocabulary()));
  return chat_template;
}

GenerateResult Session::chat(const std::vector<ChatMessage>& messages,
                             const GenerateOptions& options, const TextSink& sink,
                             const ChatOptions& how) {
  const EngineOptions& o = state_->engine.options();
  ChatOptions with_template = how;
  with_template.chat_template = state_->template_for(how);
  GenerateResult result =
      state_->answer(chat_request(model(), o.n_ctx, messages, options, with_template,
                                  &state_->transcript, o.context_shift),
                     sink);
  state_->transcript.answered(model().tokenizer(), result.tokens, result.text);
  return result;
}

namespace {

constexpr char kSessionMagic[8] = {'C', 'R', 'I', 'A', 'S', 'E', 'S', 'S'};
constexpr std::uint32_t kSessionVersion = 4;
constexpr std::uint64_t kNoteBytes = 64 << 20;

struct SessionHeader {
  char magic[8];
  std::uint32_t version, kv_type;
  std::uint64_t model, n_tokens, note_bytes;
};
static_assert(sizeof(SessionHeader) == 40);

SessionHeader header_of(const Engine& engine, std::uint64_t n_tokens, std::uint64_t note_bytes) {
  SessionHeader header{
      {},
      kSessionVersion,
      static_cast<std::uint32_t>(engine.options().kv_type),
      computation_fingerprint(engine.model(), engine.graph(), engine.options().rope_ctx),
      n_tokens,
      note_bytes};
  std::memcpy(header.magic, kSessionMagic, sizeof kSessionMagic);
  return header;
}

// Size of a file of n tokens.
std::uint64_t file_bytes(const Engine& engine, std::uint64_t n, std::uint64_t note_bytes) {
  std::uint64_t bytes =
      sizeof(SessionHeader) + n * sizeof(TokenId) + note_bytes + sizeof(std::uint64_t);
  StateAccess::of(engine).pool.for_used_bytes(
      nullptr, n, [&](const std::byte*, std::size_t size) { bytes += size; });
  return bytes;
}

void check_header(const SessionHeader& header, const Engine& engine, const BinaryReader& in) {
  const SessionHeader own = header_of(engine, 0, 0);
  const std::uint32_t n_ctx = engine.options().n_ctx;
  in.expect(std::memcmp(header.magic, own.magic, sizeof own.magic) == 0,
            "not a session file of cria", "at byte 0");
  // Older versions do not record their RoPE factors, or store Q8_0 in another order.
  in.expect_equal("saved by another version of cria: version", kSessionVersion, header.version,
                  "at byte 8");
  in.expect_equal("saved with another KV type", own.kv_type, header.kv_type, "at byte 12");
  in.expect(header.model == own.model,
            "saved with another model than " + engine.model().path() +
                ", or with other RoPE factors or metadata",
            "at byte 16");
  in.expect(header.n_tokens <= n_ctx,
            "does not fit into the context: expected at most " + counted(n_ctx, "token") +
                ", got " + std::to_string(header.n_tokens),
            "at byte 24");
  in.expect(header.note_bytes <= kNoteBytes,
            "damaged: expected a note of at most " + std::to_string(kNoteBytes) + " bytes, got " +
                std::to_string(header.note_bytes),
            "at byte 32");
  in.expect_equal("wrong size in bytes", file_bytes(engine, header.n_tokens, header.note_bytes),
                  in.size());
}

// Other ranks hold the KV cache of other heads.
void reject_ranks(const Engine& engine, const std::string& path) {
  if (engine.model().cluster() != nullptr)
    throw Error(path, "a session's file cannot be written or read where several ranks compute");
}

/// Writes zeros behind the last position, where keys of rejected drafts and removed text may be, so
/// that a file depends on its tokens only.
void clear_unused_cells(Sequence::State& sequence) {
  const std::size_t n = sequence.tokens.size(), used = n % kKeyTile;
  const KvPool& pool = sequence.engine.pool;
  const std::vector<CacheSpec>& caches = sequence.engine.plan.graph.caches;
  for (std::uint32_t cache = 0; used != 0 && cache < caches.size(); ++cache) {
    const CacheSpec& spec = caches[cache];
    const std::size_t group = pool.group_of(cache);
    const std::vector<PageId>& pages = sequence.tables[group];
    if (pool.references(group, pages[n / kKeyTile]) != 1) continue;  // others use more of it
    const std::vector<float> zeros(spec.n_kv_heads * std::max(spec.dim_k, spec.dim_v));
    KvStoreJob job = pool.store_job(cache);
    job.k = job.v = zeros.data();  // for each position: the strides are 0
    job.n_tokens = kKeyTile - used;
    job.first_pos = n;
    job.pages = pages.data();
    sequence.engine.plan.options.kernels->store_kv(job, 0, spec.n_kv_heads);
  }
}

}  // namespace

void Session::save(const std::string& path, std::string_view note) const {
  reject_ranks(state_->engine, path);
  if (note.size() > kNoteBytes)
    throw Error(path, "cannot write: expected a note of at most " + std::to_string(kNoteBytes) +
                          " bytes, got " + std::to_string(note.size()));
  for (const std::string& model : model().file().paths()) require_other_file(model, path);
  BinaryWriter out(path);
  out.write_number(header_of(state_->engine, tokens().size(), note.size()));
  Sequence::State& sequence = StateAccess::of(state_->sequence);
  sequence.restore_state();
  clear_unused_cells(sequence);
  out.write(sequence.tokens.data(), sequence.tokens.size() * sizeof(TokenId));
  sequence.engine.pool.for_used_bytes(
      &sequence.tables, sequence.tokens.size(),
      [&](const std::byte* data, std::size_t size) { out.write(data, size); });
  out.write(note.data(), note.size());
  out.write_checksum();
  out.finish();
}

std::string Session::load(const std::string& path) {
  reject_ranks(state_->engine, path);
  BinaryReader in(path);
  in.expect(in.size() >= sizeof(SessionHeader), "not a session file of cria: too short");
  const auto header = in.read_number<SessionHeader>();
  check_header(header, state_->engine, in);
  std::vector<TokenId> tokens(header.n_tokens);
  std::string note(header.note_bytes, '\0');
  Sequence::State& sequence = StateAccess::of(state_->sequence);
  sequence.truncate(0);  // its pages are overwritten
  try {
    sequence.make_room(tokens.size());
    sequence.drop_unseen(tokens.size());  // the file does not have these pages
    in.read(tokens.data(), tokens.size() * sizeof(TokenId));
    sequence.engine.pool.for_used_bytes(
        &sequence.tables, tokens.size(),
        [&](std::byte* to, std::size_t size) { in.read(to, size); });
    in.read(note.data(), note.size());
    in.check_checksum();
    sequence.check(tokens);
  } catch (...) {
    sequence.truncate(0);
    throw;
  }
  sequence.append(tokens);
  sequence.state_begin = tokens.size();  // it cannot go back
  return note;
}

std::string session_note(const std::string& path) {
  BinaryReader in(path);
  if (in.size() < sizeof(SessionHeader) + sizeof(std::uint64_t)) return "";
  const auto header = in.read_number<SessionHeader>();
  const std::uint64_t rest = in.size() - sizeof(SessionHeader) - sizeof(std::uint64_t);
  if (std::memcmp(header.magic, kSessionMagic, sizeof kSessionMagic) != 0 ||
      header.version != kSessionVersion || header.note_bytes > std::min(kNoteBytes, rest))
    return "";
  in.seek(sizeof(SessionHeader) + rest - header.note_bytes);
  std::string note(header.note_bytes, '\0');
  in.read(note.data(), note.size());
  return note;
}

const Model& Session::model() const noexcept { return state_->engine.model(); }
const SessionOptions& Session::options() const noexcept { return state_->engine.options(); }
std::size_t Session::memory_bytes() const noexcept { return state_->engine.memory_bytes(); }
const Graph& Session::graph() const noexcept { return state_->engine.graph(); }

ExpertRows Session::expert_rows(std::size_t n_experts) const {
  return state_->engine.expert_rows(n_experts);
}
void Session::profile(bool on) { state_->engine.profile(on); }
std::vector<NodeTime> Session::profile() const { return state_->engine.profile(); }
void Session::observe(NodeCallback callback) { state_->engine.observe(std::move(callback)); }

}  // namespace cria
